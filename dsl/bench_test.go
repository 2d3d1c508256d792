package dsl

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/cel-go/common/types"

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
			if _, verdict := p.Judge("s50", v.Steps["s50"].Outputs, v); verdict != spec.VerdictPass {
				b.Fatal(verdict)
			}
		}
	})
}

func BenchmarkRow(b *testing.B) {
	tags := make([]any, 50)
	for i := range tags {
		tags[i] = fmt.Sprint("tag", i)
	}
	row := map[string]any{"text": strings.Repeat("some words ", 100), "n": 3.0, "tags": tags}
	for name, expr := range map[string]spec.Expr{
		"compare": `row.n > 2 && row.text.size() > 100`, "replace": `row.text.replace("words", "w")`, "exists": `row.tags.exists(t, t == "tag49")`,
		"matches": `row.tags.filter(t, t.matches("^tag[0-4]$") || t in ["tag7", "tag8"]).size()`, "split": `row.text.split(" ").map(w, w.upperAscii()).join(" ")`,
	} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			p, err := CompileRow(expr, nil)
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := p.Eval(row); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkPattern is what an instruction of a pattern takes at a byte, where all of them are tried.
func BenchmarkPattern(b *testing.B) {
	text := types.String(strings.Repeat("a", 1<<14))
	for _, regex := range []string{"a$", "(a*)*b$", "(a|b|c|d|e|f|g|h){10}$", "(a{1,10}){1,10}$", hugePattern} {
		b.Run(regex, func(b *testing.B) {
			p := patternOf(regex)
			for b.Loop() {
				p.match(text, maxRowCost)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(p.size*uint64(len(text))), "ns/instruction")
		})
	}
}
