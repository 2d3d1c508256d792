package protocol

import "testing"

func TestSlowNode(t *testing.T) {
	of := func(seconds float64) *StepWork { return &StepWork{Rank: 3, Seconds: seconds, Steps: slowAfter} }
	for name, c := range map[string]struct {
		work []NodeWork
		want string
	}{
		"two nodes":                 {[]NodeWork{{0, of(0.2)}, {1, of(0.31)}}, "node 1: rank 3 works 0.31 s on a step, those of the other nodes 0.2 s"},
		"the first of four":         {[]NodeWork{{0, of(0.9)}, {1, of(0.2)}, {2, of(0.3)}, {3, of(0.4)}}, "node 0: rank 3 works 0.9 s on a step, those of the other nodes 0.3 s"},
		"not slow enough":           {[]NodeWork{{0, of(0.2)}, {1, of(0.3)}}, ""},
		"measured for too few":      {[]NodeWork{{0, of(0.2)}, {1, &StepWork{Seconds: 0.9, Steps: slowAfter - 1}}}, ""},
		"nothing known of a node":   {[]NodeWork{{0, of(0.2)}, {1, nil}}, ""},
		"nothing known of the rest": {[]NodeWork{{1, of(0.2)}}, ""},
		"nothing known":             {nil, ""},
	} {
		if got := SlowNode(c.work); got != c.want {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
