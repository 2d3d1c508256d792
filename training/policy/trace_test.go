package policy_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/training/policy"
)

// What skypilot-org/spot-traces has is read as it is.
func TestReadTraceOfSpotTraces(t *testing.T) {
	const file = `{"metadata": {"gap_seconds": 600}, "prices": {"us-east-1c": [1]}, "data": [4, 1, 0, 2, 4, 4, 3]}`
	for _, tt := range []struct {
		name   string
		nodes  int
		within time.Duration
		want   []policy.Window
	}{
		{"one node", 1, 30 * time.Minute, []policy.Window{{Available: "110"}, {Start: 3, Available: "111"}}},
		{"as many as nodes", 2, 25 * time.Minute, []policy.Window{{Available: "100"}, {Start: 3, Available: "111"}}},
		{"more nodes than it was looked for", 8, 30 * time.Minute, []policy.Window{{Available: "100"}, {Start: 3, Available: "011"}}},
		{"shorter than the deadline", 1, 24 * time.Hour, []policy.Window{{Available: "1101111"}}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			got, err := policy.ReadTrace(strings.NewReader(file), tt.nodes, tt.within)
			if diff := cmp.Diff(policy.Trace{GapSeconds: 600, Windows: tt.want}, got); err != nil || diff != "" {
				t.Errorf("%v (-want +got):\n%s", err, diff)
			}
		})
	}
}

func TestReadTraceRefuses(t *testing.T) {
	for _, tt := range []struct{ trace, says string }{
		{`[]`, "a JSON object"},
		{`{"metadata":{"gap_seconds":600},"data":["yes"]}`, "a JSON object"},
		{`{"metadata":{},"data":[1]}`, "gap_seconds is 0"},
		{`{"metadata":{"gap_seconds":600},"data":[]}`, "gap_seconds is 0"},
		{`{"windows":[{"available":"1"}]}`, "gap_seconds is 0"},
		{`{"gap_seconds":600}`, "neither windows nor data"},
		{`{"gap_seconds":600,"windows":[{"available":"1"},{"available":"012"}]}`, "windows[1]"},
		{`{"gap_seconds":600,"windows":[{"available":""}]}`, "windows[0]"},
	} {
		if _, err := policy.ReadTrace(strings.NewReader(tt.trace), 1, time.Hour); err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v, want an error that says %q", tt.trace, err, tt.says)
		}
	}
}

func FuzzReadTrace(f *testing.F) {
	f.Add([]byte(`{"gap_seconds":600,"windows":[{"start":3,"available":"0110"}]}`))
	f.Add([]byte(`{"metadata":{"gap_seconds":600},"data":[3,0,1]}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		trace, err := policy.ReadTrace(bytes.NewReader(raw), 1, time.Hour)
		if err == nil && (trace.Gap() < time.Second || len(trace.Windows) == 0) {
			t.Errorf("accepted %+v", trace)
		}
	})
}
