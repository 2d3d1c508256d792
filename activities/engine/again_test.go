package engine

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// TestFromDoesAllOfItAgain: neither pieces of a step that are kept nor the steps of its child take the place of a step that is to be done again.
//
// promise: docs/pipelines.md#p-run-from
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
//
// promise: docs/pipelines.md#p-hold-only
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
