package engine

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// What a child's step would do does not change with the text of the parent around it, so that a rerun after an edit there takes it over.
func TestAChildsStepsDoNotDependOnTheParentsText(t *testing.T) {
	for name, child := range map[string]string{
		"in place": "{steps: {inner: {run: {command: [inner]}}}}",
		"a file":   "{file: child.yaml}",
	} {
		t.Run(name, func(t *testing.T) {
			keys := map[string]bool{}
			for _, comment := range []string{"", "# edited\n"} {
				keys[childKey(t, "sluice: pipeline/v1\nname: p\n"+comment+"steps: {sub: {pipeline: "+child+"}}\n")] = true
			}
			if len(keys) != 1 {
				t.Error("the key of the child's step changed with a comment in the parent")
			}
		})
	}
}

// childKey is the cache key of the step `inner` in the child run of the step `sub`.
func childKey(t *testing.T, parent string) string {
	t.Helper()
	dir := t.TempDir()
	for file, text := range map[string]string{
		"pipeline.yaml": parent, "child.yaml": "sluice: pipeline/v1\nname: c\nsteps: {inner: {run: {command: [inner]}}}\n", "inner": "",
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	sub := record.Submission{File: "pipeline.yaml", Pipeline: []byte(parent)}
	if sub.Workspace, err = s.PutTree(t.Context(), artifact.Workspace, dir, nil, nil); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(sub)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, engine: NewEngine(s)}
	if b.submission, _, err = s.PutBlob(t.Context(), bytes.NewReader(raw)); err != nil {
		t.Fatal(err)
	}
	submitted, err := b.engine.Submission(t.Context(), b.submission)
	if err != nil {
		t.Fatal(err)
	}
	b.program = submitted.Program
	b.begin("r1")
	resolved, err := b.engine.Resolve(t.Context(), b.at("r1", "sub"))
	if err != nil {
		t.Fatal(err)
	}
	run, err := b.engine.Child(t.Context(), contract.ChildInput{StepInput: resolved.Step, Attempt: 1, BudgetUSD: 3})
	if err != nil {
		t.Fatal(err)
	}
	if run.BudgetUSD != 3 {
		t.Errorf("the child may cost $%v, want what its parent has left", run.BudgetUSD)
	}
	if _, err := b.engine.Begin(t.Context(), contract.BeginInput{RunInput: run}); err != nil {
		t.Fatal(err)
	}
	inner, err := b.engine.Resolve(t.Context(), contract.ResolveInput{StepRef: record.StepRef{Run: run.Run, Submission: run.Submission, Step: "inner"}})
	if err != nil {
		t.Fatal(err)
	}
	if inner.Step.Kind != spec.KindRun || inner.Key == "" {
		t.Fatalf("resolved %+v", inner)
	}
	return inner.Key
}

// TestChildKeepsWholeNumbers: those that a double would round come to a child as they are written, as do defaults.
func TestChildKeepsWholeNumbers(t *testing.T) {
	child := `
      params: {seed: "${params.seed}", seeds: "${params.seeds}", by: {ns: 1770000000000000005}}
      steps: {inner: {run: {command: ["${params.seed}", "${params.seeds[0]}", "${params.by.ns}"]}}}
`
	b := newBench(t, `params:
  seed: {type: int, default: 1770000000000000001}
  seeds: {type: list, items: int, default: [1770000000000000003]}
steps:
  sub:
    pipeline:`+child)
	b.begin("r1")
	resolved, err := b.engine.Resolve(t.Context(), b.at("r1", "sub"))
	if err != nil {
		t.Fatal(err)
	}
	run, err := b.engine.Child(t.Context(), contract.ChildInput{StepInput: resolved.Step, Attempt: 1})
	if err != nil {
		t.Fatal(err)
	}
	sub, err := b.engine.Submission(t.Context(), run.Submission)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"seed": int64(1770000000000000001), "seeds": []any{int64(1770000000000000003)}, "by": map[string]any{"ns": int64(1770000000000000005)},
	}
	if diff := cmp.Diff(want, sub.ParamValues); diff != "" {
		t.Errorf("params of the child (-want +got):\n%s", diff)
	}
}
