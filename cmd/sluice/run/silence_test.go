package run

import (
	"testing"
	"time"
)

// TestSilence: a silence is said once it is long, and so is its end.
func TestSilence(t *testing.T) {
	began := time.Now()
	s := silence{heard: began}
	for _, step := range []struct {
		after    time.Duration
		answered bool
		want     string
	}{
		{time.Second, true, ""},
		{6 * time.Second, false, ""},
		{9 * time.Second, true, ""},
		{14 * time.Second, false, ""},
		{20 * time.Second, false, "no answer about the run for 11.0 s: Temporal, or the worker that executes the run, is stopped, busy or unreachable; retrying until it answers\n  help: `sluice doctor` shows whether Temporal answers and how much disk is free"},
		{25 * time.Second, false, ""},
		{99 * time.Second, true, "Temporal answers again, after 1m 30s"},
		{100 * time.Second, true, ""},
		{190 * time.Second, true, "Temporal answers again, after 1m 30s"}, // this process was stopped itself
	} {
		if got := s.note(step.answered, began.Add(step.after)); got != step.want {
			t.Errorf("after %v: %q, want %q", step.after, got, step.want)
		}
	}
}
