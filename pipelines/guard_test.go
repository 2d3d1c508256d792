package pipelines

import (
	"encoding/json"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
)

func TestCollectAt(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct{ room, live, want int64 }{
		{1000 * mib, 0, 400 * mib}, // little is alive
		{1000 * mib, 100 * mib, 400 * mib},
		{1000 * mib, 400 * mib, 600 * mib}, // half as much again
		{1000 * mib, 900 * mib, 800 * mib}, // what the collector does not know of has its place
		{-mib, 100 * mib, 0},               // the program alone is larger
	} {
		if got := collectAt(c.room, c.live); got != c.want {
			t.Errorf("collectAt(%d, %d) = %d MiB, want %d", c.room/mib, c.live/mib, got/mib, c.want/mib)
		}
	}
}

// TestNodeLimits: a cleaning on a node keeps to what its step asked for, and leaves its programs half of the memory.
func TestNodeLimits(t *testing.T) {
	exec := spec.Clean{Transforms: []spec.Transform{{Type: "Exec", Config: json.RawMessage(`{"command": ["cat"]}`)}}}
	for _, tt := range []struct {
		spec        spec.Clean
		asked       spec.Resources
		memory      spec.Size
		parallelism int
	}{
		{spec.Clean{}, spec.Resources{}, 0, 0}, // the defaults
		{spec.Clean{}, spec.Resources{CPU: 4, Memory: 8 << 30}, 8 << 30, 4},
		{exec, spec.Resources{CPU: 0.5, Memory: 8 << 30}, 4 << 30, 1},
	} {
		job := Job{Spec: tt.spec}
		if err := job.limit(tt.asked); err != nil || job.Memory != tt.memory || job.Parallelism != tt.parallelism {
			t.Errorf("%+v: %v, %d bytes, %d workers; want %d and %d", tt.asked, err, job.Memory, job.Parallelism, tt.memory, tt.parallelism)
		}
	}
}
