package spec

import (
	"strings"
	"testing"
)

func TestParseShare(t *testing.T) {
	for text, want := range map[string]Share{"90%": 0.9, " 0.5 %": 0.005, "100%": 1, "0": 0, "0%": 0, "0.9": 0.9, ".25": 0.25, "0.999": 0.999, "1e-3": 0.001, "1.0": 1} {
		if got, err := ParseShare(text); err != nil || got != want {
			t.Errorf("%s: got %v, %v, want %v", text, float64(got), err, want)
		}
	}
	for text, want := range map[string]string{
		"10": "write 10%", "1.5": "write 1.5%", "1": "may mean 1% or 100%", "-0.1": "between 0% and 100%", "101%": "between",
		"NaN": "not a share", "half": "not a share", "": "not a share", "+Inf%": "between",
	} {
		if got, err := ParseShare(text); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: got %v, %v, want %q", text, float64(got), err, want)
		}
	}
}

// TestUnitsAreDecimal: what has a unit is a text to everyone who reads YAML, and its digits are decimal.
func TestUnitsAreDecimal(t *testing.T) {
	if d, err := ParseDuration("010s"); err != nil || d.String() != "10s" {
		t.Errorf("010s is %s, %v", d, err)
	}
	if share, err := ParseShare("010%"); err != nil || share.String() != "10%" {
		t.Errorf("010%% is %s, %v", share, err)
	}
}
