package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
)

const predictable = `name: %NAME%
params: {n: {type: int, default: 5}}
steps:
  count:
    run: {script: 'echo "{\"n\": $N}" > "$SLUICE_OUTPUT_DIR/outputs.json"', files: [count.txt], outputs: {n: {type: int}}}
    env: {N: "${params.n}"}
    gate: n > 0
  fit:
    matrix: {size: [1, 2]}
    run: {script: 'echo "{\"n\": $N}" > "$SLUICE_OUTPUT_DIR/outputs.json"', files: [fit.txt], outputs: {n: {type: int}}}
    env: {N: "${matrix.size * steps.count.n}"}
  best:
    run: {script: 'echo "{\"n\": $N}" > "$SLUICE_OUTPUT_DIR/outputs.json"', files: [best.txt], outputs: {n: {type: int}}}
    env: {N: "${steps.fit.best(f, f.n).n}"}
  tell: {run: {command: [echo, "${steps.best.n}"]}}
  never: {when: steps.count.n > 100, run: {command: ["true"]}}
on_failure: {page: {run: {command: ["true"]}}}
`

// planOf is what is planned for each step, without figures that depend on the machine.
func planOf(t *testing.T, s *control.Session, req control.SubmitRequest, against string) map[string]contract.StepPlan {
	t.Helper()
	_, got, err := control.Plan(t.Context(), s.Store, s.Dir, req, against)
	if err != nil {
		t.Fatal(err)
	}
	return got.Steps
}

// TestPlanIsWhatHappens: what is planned before a run, after it and after edits is what then happens.
func TestPlanIsWhatHappens(t *testing.T) {
	s := session(t)
	source := strings.ReplaceAll(predictable, "%NAME%", "predictable")
	file := project(t, source, map[string]string{"count.txt": "", "fit.txt": "", "best.txt": ""})
	req := control.SubmitRequest{PipelineFile: file}
	const runs, changed, cached = contract.ActionRun, contract.ActionRunChanged, contract.ActionReuse
	page := contract.StepPlan{Action: contract.ActionNone, Reason: "it runs when a step fails"}
	check := func(name string, req control.SubmitRequest, against string, want map[string]contract.StepPlan) {
		t.Helper()
		want["page"] = page
		got := planOf(t, s, req, against)
		if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(contract.StepPlan{}, "Seconds", "CostUSD")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	check("before the first run", req, "", map[string]contract.StepPlan{
		"count": {Action: runs, Reason: "it has not run before"},
		"fit":   {Action: runs, After: []string{"count"}},
		"best":  {Action: runs, After: []string{"fit"}},
		"tell":  {Action: runs, After: []string{"best"}},
		"never": {Action: runs, After: []string{"count"}},
	})
	run := submit(t, s, req).Run
	if out, _ := wait(t, s, run); out.Status != spec.StatusSucceeded {
		t.Fatalf("the run ended as %+v", out)
	}
	never := contract.StepPlan{Action: contract.ActionSkip, Reason: "its `when` is false: steps.count.n = 5"}
	check("after it", req, "", map[string]contract.StepPlan{
		"count": {Action: cached, From: run},
		"fit":   {Action: cached, From: run, Of: 2, Cached: 2},
		"best":  {Action: cached, From: run},
		"tell":  {Action: runs, Reason: "its results are not cached"},
		"never": never,
	})
	if got := planOf(t, s, req, "")["tell"]; got.Seconds <= 0 {
		t.Errorf("no estimate of a step that ran: %+v", got)
	}
	check("a rerun of it", req, run, map[string]contract.StepPlan{
		"count": {Action: cached, From: run},
		"fit":   {Action: cached, From: run, Of: 2, Cached: 2},
		"best":  {Action: cached, From: run},
		"tell":  {Action: cached, From: run},
		"never": never,
	})
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(filepath.Dir(file), name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("pipeline.yaml", "sluice: pipeline/v1\n"+strings.Replace(source, "[1, 2]", "[1, 2, 3]", 1))
	edited := map[string]contract.StepPlan{
		"count": {Action: cached, From: run},
		"fit":   {Action: runs, Of: 3, Cached: 2, Reason: "it has not run before"},
		"best":  {Action: runs, After: []string{"fit"}},
		"tell":  {Action: runs, After: []string{"best"}},
		"never": never,
	}
	check("one more instance", req, "", edited)
	write("fit.txt", "edited")
	edited["fit"] = contract.StepPlan{Action: changed, From: run, Changed: []string{"files"}, Files: []string{"fit.txt"}, Of: 3}
	check("a file was edited", req, run, edited)
	other := control.SubmitRequest{PipelineFile: file, Params: map[string]string{"n": "6"}}
	if got := planOf(t, s, other, "")["count"]; got.Action != changed || !cmp.Equal([]string{"env.N"}, got.Changed) {
		t.Errorf("another parameter: %+v", got)
	}
	if _, _, err := control.Plan(t.Context(), s.Store, s.Dir, control.SubmitRequest{PipelineFile: file, Params: map[string]string{"n": "many"}}, ""); err == nil {
		t.Error("a parameter that is wrong was taken")
	}
}
