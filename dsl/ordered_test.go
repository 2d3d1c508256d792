package dsl

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Maps come in the order of their keys: what an expression makes of one is part of the cache key.
func TestMapsAreInOrder(t *testing.T) {
	p := mustCompile(t, `sluice: pipeline/v1
name: maps
params: {m: {type: map, default: {e: x, a: x, d: x, b: x, c: x}}}
steps:
  a:
    run: {command: ["true"]}
    env: {KEYS: "${params.m.map(k, k).join('')}"}
`)
	params, diags := p.Params(nil)
	if diags.HasErrors() {
		t.Fatal(diags.Text(false))
	}
	for range 20 {
		got, err := p.Resolve("a", spec.Vars{Params: params, Run: spec.RunFacts{ID: "r1", StartedAt: time.Unix(0, 0)}})
		if err != nil {
			t.Fatal(err)
		}
		if got.Env["KEYS"] != "abcde" {
			t.Fatalf("the keys come as %q", got.Env["KEYS"])
		}
	}
}

func TestMapsWithoutTypeAreInOrder(t *testing.T) {
	ts := newTypeSystem()
	for range 20 {
		v, err := ts.decode(cel.DynType, json.RawMessage(`[{"e": 1, "a": 1, "d": 1, "b": 1, "c": 1}]`))
		if err != nil {
			t.Fatal(err)
		}
		var keys string
		inner := v.(traits.Lister).Get(types.Int(0)).(traits.Iterable)
		for it := inner.Iterator(); it.HasNext() == types.True; {
			keys += string(it.Next().(types.String))
		}
		if keys != "abcde" {
			t.Fatalf("the keys come as %q", keys)
		}
	}
}
