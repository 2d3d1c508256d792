package gpu

import (
	"strings"
	"testing"
)

func TestVisible(t *testing.T) {
	units := []Unit{
		{UUID: "GPU-aa", GPU: 0}, {UUID: "GPU-ab", GPU: 1}, {UUID: "MIG-2-0", GPU: 2, MIG: true}, {UUID: "MIG-2-1", GPU: 2, MIG: true}, {UUID: "GPU-c", GPU: 3},
	}
	for value, want := range map[string]string{
		"": "", "-1": "", "NoDevFiles": "", "1": "GPU-ab", " 3, 0 ": "GPU-c GPU-aa", "1,-1,0": "GPU-ab", "9,0": "", "1,,0": "GPU-ab",
		"2": "MIG-2-0", "MIG-2-1": "MIG-2-1", "GPU-ab,GPU-c": "GPU-ab GPU-c", "GPU-a": "GPU-aa",
	} {
		var got []string
		for _, u := range Visible(units, value) {
			got = append(got, u.UUID)
		}
		if got := strings.Join(got, " "); got != want {
			t.Errorf("%q leaves %q, want %q", value, got, want)
		}
	}
}
