package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store/record"
)

// TestFromDoesAllOfItAgain: neither pieces of a step that are kept nor the steps of its child take the place of a step that is to be done again.
func TestFromDoesAllOfItAgain(t *testing.T) {
	b := newBench(t, `
steps:
  mail: {run: {command: [a], outputs: {n: {type: int}}}}
  sub: {pipeline: {steps: {inner: {run: {command: [inner], outputs: {n: {type: int}}}}}}}
`)
	b.begin("r1")
	for step, again := range map[string][]string{"mail": {"mail"}, "sub": {"sub"}} {
		for _, reuse := range []record.Reuse{{}, {Again: again}} {
			in := b.at("r1", step)
			in.Reuse = reuse
			resolved, err := b.engine.Resolve(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			isAgain := reuse.Again != nil
			if step == "mail" && resolved.Step.Fresh != isAgain {
				t.Errorf("done again: %v; nothing made before may be used: %v", isAgain, resolved.Step.Fresh)
			}
			if step == "mail" {
				continue
			}
			run, err := b.engine.Child(t.Context(), contract.ChildInput{StepInput: resolved.Step, Attempt: 1, Reuse: reuse})
			if err != nil {
				t.Fatal(err)
			}
			if run.Reuse.NoCache != isAgain {
				t.Errorf("done again: %v; the child's steps do without the cache: %v", isAgain, run.Reuse.NoCache)
			}
		}
	}
}

// TestRerunOfARunWithoutCache: what a run was to execute in any case and did not finish, its rerun executes; what it finished is reused.
func TestRerunOfARunWithoutCache(t *testing.T) {
	const three = `
steps:
  a: {run: {command: [a], files: none, outputs: {n: {type: int}}}}
  b: {run: {command: [b], files: none, outputs: {n: {type: int}}}}
  sub: {pipeline: {steps: {inner: {run: {command: [inner], outputs: {n: {type: int}}}}}}}
`
	for name, forced := range map[string]record.Reuse{"--no-cache": {NoCache: true}, "--from": {Again: []string{"a", "b", "sub"}}, "neither": {}} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t, three)
			b.workspace = b.tree(artifact.Workspace)
			b.submit(three, document.File{})
			b.begin("old")
			b.end("old", "a", `{"n": 1}`)
			b.end("old", "b", `{"n": 1}`)
			begin := func(run string, reuse record.Reuse) {
				in := contract.RunInput{Run: run, Name: "p", Submission: b.submission, Graph: b.program.Graph(), Reuse: reuse}
				if _, err := b.engine.Begin(t.Context(), contract.BeginInput{RunInput: in, StartedAt: b.began}); err != nil {
					t.Fatal(err)
				}
			}
			begin("forced", forced)
			if name != "neither" {
				b.end("forced", "a", `{"n": 2}`) // and b failed, or never began
			}
			begin("queued", record.Reuse{From: "forced"}) // and canceled there
			isForced := name != "neither"
			for _, from := range []string{"forced", "queued"} {
				reuse := record.Reuse{From: from}
				begin("rerun-"+from, reuse)
				resolve := func(step string) contract.Resolved {
					in := b.at("rerun-"+from, step)
					in.Reuse = reuse
					resolved, err := b.engine.Resolve(t.Context(), in)
					if err != nil {
						t.Fatal(err)
					}
					return resolved
				}
				want := map[string]string{"a": "forced", "b": ""}
				if !isForced {
					want = map[string]string{"a": "old", "b": "old"}
				}
				got := map[string]string{"a": resolve("a").Hit, "b": resolve("b").Hit}
				if diff := cmp.Diff(want, got); diff != "" {
					t.Errorf("a rerun of %s takes over (-want +got):\n%s", from, diff)
				}
				child, err := b.engine.Child(t.Context(), contract.ChildInput{StepInput: resolve("sub").Step, Attempt: 1, Reuse: reuse})
				if err != nil || child.Reuse.NoCache != isForced || isForced && !resolve("b").Step.Fresh {
					t.Errorf("a rerun of %s has a child with %+v, %v", from, child.Reuse, err)
				}
				plan, err := NewPlan(t.Context(), b.engine.Store, PlanInput{
					Submission: record.Submission{File: "p.yaml"}, Program: b.program, Reuse: reuse, Now: b.began,
				})
				if isReused := plan.Steps["b"].Action == contract.ActionReuse; err != nil || isReused == isForced {
					t.Errorf("the plan of a rerun of %s is %+v, %v", from, plan.Steps["b"], err)
				}
			}
		})
	}
}

// TestOutputsSeeTheRunsBefore: outputs of a pipeline may read `last`, as gates do.
func TestOutputsSeeTheRunsBefore(t *testing.T) {
	b := newBench(t, `
steps: {one: {run: {command: [one], outputs: {n: {type: int}}}}}
outputs: {gain: "${steps.one.n - last.?steps.one.n.orValue(0)}"}
`)
	for i, run := range []string{"r1", "r2"} {
		b.began = b.began.AddDate(0, 0, 1)
		b.begin(run)
		b.end(run, "one", fmt.Sprintf(`{"n": %d}`, 10*(i+1)+i))
		b.finish(run, spec.StatusSucceeded)
	}
	var rec record.RunRecord
	if err := b.engine.Store.GetJSON(t.Context(), record.RunKey("r2"), &rec); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(rec.Outputs)
	if got := string(raw); err != nil || got != `{"gain":11}` {
		t.Errorf("the outputs are %s, %v", got, err)
	}
}

// TestStopGoesBeforeHold: a condition that stops the run leaves nothing to ask a person, and one that fails nothing to decline.
func TestStopGoesBeforeHold(t *testing.T) {
	for order, want := range map[string]spec.Status{
		"stop hold": spec.StatusDeclined, "hold stop": spec.StatusDeclined, "stop fail": spec.StatusFailed, "fail stop": spec.StatusFailed,
	} {
		first, second, _ := strings.Cut(order, " ")
		b := newBench(t, fmt.Sprintf(`
steps:
  one:
    run: {command: [one], outputs: {n: {type: int}}}
    gate:
      - {check: n > 5, on_fail: %s}
      - {check: n > 6, on_fail: %s}
`, first, second))
		b.begin("r1")
		if word := b.end("r1", "one", `{"n": 1}`); word.Status != want {
			t.Errorf("%s: the step ended as %s: %s", order, word.Status, word.Error)
		}
	}
}
