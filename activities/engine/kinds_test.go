package engine

import (
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
)

// TestKindsAreListed: of a kind that has no line here, a result would be taken over without regard to files, Python and secrets.
func TestKindsAreListed(t *testing.T) {
	for _, kind := range spec.Kinds {
		if _, ok := kinds[kind]; !ok {
			t.Errorf("the engine has no line for the kind %s", kind)
		}
	}
	if len(kinds) != len(spec.Kinds) {
		t.Errorf("the engine has lines for %d kinds, the language has %d", len(kinds), len(spec.Kinds))
	}
}
