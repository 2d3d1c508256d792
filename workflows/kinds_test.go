package workflows

import (
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
)

// TestKinds: each kind of the language has a line that says how it is done, in one way.
func TestKinds(t *testing.T) {
	for _, kind := range spec.Kinds {
		if info := kinds[kind]; (info.activity == "") == (info.perform == nil) {
			t.Errorf("kinds.go does not say how a %s step is done, or says it twice", kind)
		}
	}
	if len(kinds) != len(spec.Kinds) {
		t.Errorf("%d kinds have a line, the language has %d", len(kinds), len(spec.Kinds))
	}
}
