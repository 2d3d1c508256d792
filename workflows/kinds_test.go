package workflows

import (
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
)

// TestKindOnPool: nodes of pools do any step as a training, whose workflow retries it and says at its end what it cost.
func TestKindOnPool(t *testing.T) {
	for _, kind := range []spec.Kind{spec.KindRun, spec.KindEvaluate, spec.KindCompile, spec.KindClean} {
		if on := kindOf(spec.Node{Kind: kind, OnPool: true}); on.activity != "" || on.perform == nil || !on.retriesItself || !on.costsAtEnd {
			t.Errorf("a %s step on a pool: %+v", kind, on)
		}
		if beside := kindOf(spec.Node{Kind: kind}); beside.activity == "" {
			t.Errorf("a %s step beside the worker has no activity", kind)
		}
	}
}

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
