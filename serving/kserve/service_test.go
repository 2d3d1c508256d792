package kserve

import (
	"regexp"
	"testing"

	"pgregory.net/rapid"
)

func TestTargetName(t *testing.T) {
	for target, want := range map[string]string{
		"production":               "production",
		"spam-filter":              "spam-filter",
		"a23456789b123456789c1234": "a23456789b123456789c1234",
	} {
		if got := targetName(target); got != want {
			t.Errorf("%s becomes %s, want %s", target, got, want)
		}
	}
	valid := regexp.MustCompile(`^[a-z]([-a-z0-9]*[a-z0-9])?$`)
	rapid.Check(t, func(t *rapid.T) {
		targets := rapid.SliceOfNDistinct(rapid.StringMatching(`[a-z][a-z0-9_-]{0,62}`), 2, 5, rapid.ID[string]).Draw(t, "targets")
		seen := map[string]string{}
		for _, target := range targets {
			name := targetName(target)
			if !valid.MatchString(name) || len(name) > maxTarget {
				t.Fatalf("%s becomes %q", target, name)
			}
			if other, there := seen[name]; there {
				t.Fatalf("%s and %s both become %s", target, other, name)
			}
			seen[name] = target
		}
	})
}
