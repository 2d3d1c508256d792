package gputype

import "testing"

func TestIs(t *testing.T) {
	for _, c := range []struct {
		name, gpuType string
		want          bool
	}{
		{"NVIDIA L4", "L4", true},
		{"NVIDIA L4", "nvidia-l4", true},
		{"NVIDIA L40S", "L4", false},
		{"L4", "NVIDIA L4", false},
		{"NVIDIA A100-SXM4-80GB MIG 1g.10gb", "1g.10gb", true},
		{"NVIDIA A100-SXM4-80GB", "A100", true},
	} {
		if got := Is(c.name, c.gpuType); got != c.want {
			t.Errorf("Is(%q, %q) = %v", c.name, c.gpuType, got)
		}
	}
}
