package dsl

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// chainOf writes a pipeline of n steps, each reading the one before it, each with a gate.
func chainOf(n int) []byte {
	var b strings.Builder
	b.WriteString("sluice: pipeline/v1\nname: chain\nparams: {min: {type: int, default: 0}}\nsteps:\n")
	for i := range n {
		fmt.Fprintf(&b, "  s%d:\n    run: {command: [\"true\"], outputs: {count: {type: int}}}\n    gate: count >= params.min\n", i)
		if i > 0 {
			fmt.Fprintf(&b, "    env: {BEFORE: \"${steps.s%d.count}\"}\n", i-1)
		}
	}
	return []byte(b.String())
}

func chainResults(n int) spec.Vars {
	v := spec.Vars{Params: map[string]any{"min": int64(0)}, Steps: map[string]spec.StepResult{}}
	for i := range n {
		v.Steps[fmt.Sprintf("s%d", i)] = spec.StepResult{Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"count":1}`)}
	}
	return v
}

func BenchmarkCompile(b *testing.B) {
	for _, n := range []int{100, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			source := chainOf(n)
			for b.Loop() {
				if p, diags := Compile(document.File{Name: "chain.yaml", Source: source}, document.File{}, nil); p == nil {
					b.Fatal(diags)
				}
			}
		})
	}
}

func BenchmarkStep(b *testing.B) {
	p := mustCompile(b, string(chainOf(100)))
	v := chainResults(100)
	b.Run("resolve", func(b *testing.B) {
		for b.Loop() {
			if _, err := p.Resolve("s50", v); err != nil {
				b.Fatal(err)
			}
		}
	})
	b.Run("judge", func(b *testing.B) {
		for b.Loop() {
			if _, verdict := p.EvaluateGate("s50", v.Steps["s50"].Outputs, v); verdict != spec.VerdictPass {
				b.Fatal(verdict)
			}
		}
	})
}
