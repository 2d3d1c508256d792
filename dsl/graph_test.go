package dsl

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// TestGraphOrder: whatever the edges and the order in the document, a step comes after all it needs, and of two that could both be
// next the earlier in the document comes first.
func TestGraphOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 12).Draw(t, "steps")
		order := rapid.Permutation(seq(n)).Draw(t, "order in the document")
		needs := map[int][]int{}
		for i := range n {
			for j := range i {
				if rapid.Bool().Draw(t, "edge") {
					needs[i] = append(needs[i], j)
				}
			}
		}
		var b strings.Builder
		b.WriteString("sluice: pipeline/v1\nname: g\nsteps:\n")
		for _, i := range order {
			writeStep(&b, i, needs[i])
		}
		p, diags := Compile(document.File{Name: "g.yaml", Source: []byte(b.String())}, document.File{}, nil)
		if p == nil {
			t.Fatalf("%s\n%s", diags, b.String())
		}
		checkOrder(t, p.Graph(), order)
	})
}

func writeStep(b *strings.Builder, i int, needs []int) {
	fmt.Fprintf(b, "  s%d:\n    run: {command: [echo], outputs: {n: {type: int}}}\n", i)
	var explicit []string
	for k, j := range needs {
		if k%2 == 0 {
			explicit = append(explicit, fmt.Sprintf("s%d", j))
		}
	}
	fmt.Fprintf(b, "    needs: [%s]\n    env: {", strings.Join(explicit, ", "))
	for k, j := range needs {
		if k%2 == 1 {
			fmt.Fprintf(b, "V%d: \"${steps.s%d.n}\", ", j, j)
		}
	}
	b.WriteString("}\n")
}

func checkOrder(t *rapid.T, graph []spec.Node, order []int) {
	place := map[string]int{}
	for i, s := range order {
		place[fmt.Sprintf("s%d", s)] = i
	}
	if len(graph) != len(order) {
		t.Fatalf("%d nodes of %d steps", len(graph), len(order))
	}
	done := map[string]bool{}
	for i, node := range graph {
		for _, id := range node.After {
			if !done[id] {
				t.Fatalf("%s comes before %s", node.ID, id)
			}
		}
		for _, later := range graph[i+1:] {
			if place[later.ID] < place[node.ID] && !slices.ContainsFunc(later.After, func(id string) bool { return !done[id] }) {
				t.Fatalf("%s could have come before %s, as in the document", later.ID, node.ID)
			}
		}
		done[node.ID] = true
	}
}

func seq(n int) []int {
	s := make([]int, n)
	for i := range s {
		s[i] = i
	}
	return s
}

func TestGraphNeeds(t *testing.T) {
	p := mustCompile(t, `sluice: pipeline/v1
name: g
params: {x: {type: bool, default: true}}
steps:
  late:
    run: {command: [echo, "${steps.a.n}", "${steps.?b.n.orValue(0)}"]}
    needs: {c: ended, d: failed}
    when: steps.e.n > 0
    retry: {attempts: 3, errors: [user]}
    timeout: 5m
  a: {run: {command: [echo], outputs: {n: {type: int}}}, gate: "n > 0 && steps.?f.n.orValue(0) < steps.g.n"}
  b: {run: {command: [echo], outputs: {n: {type: int}}}, when: params.x}
  c: {run: {command: [echo]}}
  d: {run: {command: [echo]}, needs: a}
  e: {run: {command: [echo], outputs: {n: {type: int}}}}
  f: {run: {command: [echo], outputs: {n: {type: int}}}}
  g: {run: {command: [echo], outputs: {n: {type: int}}}, repeat: {until: "n > steps.?f.n.orValue(0)", max: 2}}
`)
	graph := p.Graph()
	var ids []string
	byID := map[string]spec.Node{}
	for _, n := range graph {
		ids = append(ids, n.ID)
		byID[n.ID] = n
	}
	if diff := cmp.Diff([]string{"b", "c", "e", "f", "g", "a", "d", "late"}, ids); diff != "" {
		t.Error(diff)
	}
	want := spec.Node{
		ID: "late", Kind: spec.KindRun, After: []string{"a", "b", "c", "d", "e"}, HasWhen: true, Timeout: spec.Duration(5 * 60e9),
		Needs: map[string]spec.Need{"a": spec.NeedPassed, "b": spec.NeedNotFailed, "c": spec.NeedEnded, "d": spec.NeedFailed, "e": spec.NeedPassed},
		Retry: spec.Retry{Attempts: 3, Backoff: spec.Duration(5e9), MaxBackoff: spec.Duration(60e9), Errors: []string{"user"}},
	}
	if diff := cmp.Diff(want, byID["late"]); diff != "" {
		t.Error(diff)
	}
	if a := byID["a"]; !cmp.Equal([]string{"infrastructure"}, a.Retry.Errors) || !a.HasGate {
		t.Errorf("%+v", a)
	}
	// What a gate reads is waited for, as what `until` does.
	if diff := cmp.Diff(map[string]spec.Need{"f": spec.NeedNotFailed, "g": spec.NeedPassed}, byID["a"].Needs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(map[string]spec.Need{"f": spec.NeedNotFailed}, byID["g"].Needs); diff != "" {
		t.Error(diff)
	}
}

// TestLimits: what would take the memory or the time of the machine is a clear error at once.
func TestLimits(t *testing.T) {
	deep := "sluice: pipeline/v1\nname: p\nsteps: {a: {clean: {transforms: [{type: ValidateWithSchema, config: {schema: " + strings.Repeat("[", 5000) + strings.Repeat("]", 5000) + "}}]}}}\n"
	tests := []struct {
		name, source, want string
	}{
		{"size", strings.Repeat("# padding\n", 1<<20+1<<18), "larger than 512 kB"},
		{"nul", "sluice: pipeline/v1\x00\n", "NUL"},
		{"utf-8", "sluice: pipeline/v1\nname: \xff\n", "not valid UTF-8"},
		{"depth", deep, "nested more than"},
		{"expression", "sluice: pipeline/v1\nname: p\nsteps: {a: {run: {command: [echo]}, when: '" + strings.Repeat("(", 300) + "true" + strings.Repeat(")", 300) + "'}}\n", "[syntax]"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			_, diags := Compile(document.File{Name: "p.yaml", Source: []byte(tt.source)}, document.File{}, nil)
			if !strings.Contains(diags.Error(), tt.want) {
				t.Errorf("got %s", diags)
			}
		})
	}
}

// TestUnset: what holds for a bound that the document leaves out is told; what it says itself is not.
func TestUnset(t *testing.T) {
	const pipeline = `
sluice: pipeline/v1
name: p
steps:
  bare: {run: {command: [a]}}
  bound: {run: {command: [a]}, timeout: 1h}
  wide: {run: {command: [a]}, foreach: "[1, 2]"}
  child: {pipeline: {steps: {a: {run: {command: [a]}}}}}
  ask: {approval: {}}
  patient: {approval: {timeout: 1h, default: approve}}
  held:
    run: {command: [a], outputs: {n: {type: int}}}
    timeout: 1h
    gate:
      - {check: n > 1, on_fail: hold}
      - {check: n > 2, on_fail: hold, hold: {timeout: 2h, default: pass}}
  make: {run: {command: [a], outputs: {m: {type: model, path: m}}}, timeout: 1h}
  ship: {rollout: {target: shop, model: "${steps.make.m}", ungated: true, stages: [{weight: 100%}], tests: {latency: {ratio: 2}}}, timeout: 1h}
  fast:
    rollout:
      {target: shop, model: "${steps.make.m}", ungated: true, stages: [{weight: 100%, max_wait: 1h, min_samples: 7, on_no_data: hold}], tests: {latency: {quantile: 0.9}}}
    timeout: 1h
`
	const env = "sluice: environment/v1\nname: e\ntargets: {shop: {embedded: {}}}\n"
	program, diags := Compile(document.File{Name: "p.yaml", Source: []byte(pipeline)}, document.File{Name: "e.yaml", Source: []byte(env)}, nil)
	if program == nil {
		t.Fatal(diags.Text(false))
	}
	for id, want := range map[string][]spec.Unset{
		"ship": {
			{Key: "tests.latency", Value: "none"}, {Key: "min_samples", Value: "100"}, {Key: "max_wait", Value: "15m"}, {Key: "on_no_data", Value: "abort"},
		}, "fast": nil,
		"bare": {{Key: "timeout", Value: "24h"}}, "bound": nil,
		"wide":  {{Key: "timeout", Value: "24h"}, {Key: "max_parallel", Value: "64"}},
		"child": {{Key: "timeout", Value: "none"}}, "ask": {{Key: "approval.timeout", Value: "72h"}, {Key: "approval.default", Value: "reject"}}, "patient": nil,
		"held": {{Key: "hold.timeout", Value: "72h"}, {Key: "hold.default", Value: "fail"}},
	} {
		if diff := cmp.Diff(want, program.Unset(id)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", id, diff)
		}
	}
	for kind, want := range map[string]string{"run: {command: [a]}": "the default of 24h", "pipeline: {steps: {a: {run: {command: [a]}}}}": "for no limit"} {
		zero := "sluice: pipeline/v1\nname: p\nsteps: {a: {" + kind + ", timeout: 0s}}\n"
		if _, diags := Compile(document.File{Name: "p.yaml", Source: []byte(zero)}, document.File{}, nil); !strings.Contains(diags.Text(false), want) {
			t.Errorf("%s: %s", kind, diags.Text(false))
		}
	}
}
