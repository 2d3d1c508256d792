package worker

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

const grouped = `name: grouped
params: {block: {type: string}, n: {type: int}}
concurrency: {group: grouped, on_conflict: cancel_other}
steps:
  work: {run: {script: 'until [ "$N" = 3 ]; do sleep 0.05; done'}, env: {N: "${params.n}"}}
finally:
  tidy: {run: {script: 'while [ -e "$BLOCK" ]; do sleep 0.05; done'}, env: {BLOCK: "${params.block}"}}
`

// TestGroupSurvivesTheCancelOfItsHolder: the newest run of a group is the one that is left, and it starts when the one before has tidied
// up. The lock is a child of the run that first held it, and must not be cancelled with it.
func TestGroupSurvivesTheCancelOfItsHolder(t *testing.T) {
	t.Parallel()
	s := session(t)
	block := filepath.Join(t.TempDir(), "block")
	if err := os.WriteFile(block, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	file := project(t, grouped, nil)
	start := func(n string) string {
		run := submit(t, s, control.SubmitRequest{PipelineFile: file, Params: map[string]string{"block": block, "n": n}}).Run
		t.Cleanup(func() { _ = os.Remove(block); end(t, s, run) })
		return run
	}
	awaitStep := func(run, step string) {
		await(t, step+" of "+run, func() bool {
			state, err := s.State(t.Context(), run)
			if err != nil {
				t.Fatal(err)
			}
			for _, at := range state.Steps {
				if at.ID == step && at.Status == spec.StatusRunning {
					return true
				}
			}
			return false
		})
	}
	first := start("1")
	awaitStep(first, "work")
	second := start("2")
	awaitStep(first, "tidy")
	third := start("3")
	out, waiting := wait(t, s, second)
	got := []spec.Status{out.Status}
	for _, step := range []string{"work", "tidy"} {
		if rec := recordOf(t, waiting, step); rec.Status != spec.StatusCanceled {
			t.Errorf("%s of the run that waited is recorded as %q, want canceled", step, rec.Status)
		}
	}
	if err := os.Remove(block); err != nil {
		t.Fatal(err)
	}
	out, before := wait(t, s, first)
	got = append(got, out.Status)
	out, after := wait(t, s, third)
	got = append(got, out.Status)
	if diff := cmp.Diff([]spec.Status{spec.StatusCanceled, spec.StatusCanceled, spec.StatusSucceeded}, got); diff != "" {
		t.Errorf("the second, the first and the third run (-want +got):\n%s", diff)
	}
	if tidy, work := recordOf(t, before, "tidy"), recordOf(t, after, "work"); work.StartedAt.Before(tidy.EndedAt) {
		t.Errorf("the third run began at %v, and the first was done at %v", work.StartedAt, tidy.EndedAt)
	}
}

const impatient = `name: impatient
params: {go: {type: string}, n: {type: int}}
concurrency: {group: impatient, on_conflict: skip}
steps:
  work: {run: {script: 'until [ -e "$GO" ]; do sleep 0.05; done'}, env: {GO: "${params.go}", N: "${params.n}"}}
`

// TestSkipAfterTermination: a run that does not wait is skipped while another holds the group, and not because of one that was terminated.
func TestSkipAfterTermination(t *testing.T) {
	t.Parallel()
	s := session(t)
	opened := filepath.Join(t.TempDir(), "go")
	file := project(t, impatient, nil)
	start := func(n string) string {
		return submit(t, s, control.SubmitRequest{PipelineFile: file, Params: map[string]string{"go": opened, "n": n}}).Run
	}
	first := start("1")
	awaitDetail(t, s, first, "work", func(control.Detail) bool { return true })
	out, turned := wait(t, s, start("2"))
	if work := recordOf(t, turned, "work"); out.Status != spec.StatusSkipped || !strings.Contains(out.Error, first) || work.Status != spec.StatusSkipped {
		t.Errorf("while %s held the group, the second ended as %+v, and its step as %q", first, out, work.Status)
	}
	if err := s.Client.TerminateWorkflow(t.Context(), contract.RunWorkflowID(first), "", "test"); err != nil {
		t.Fatal(err)
	}
	touch(t, opened)
	if out, _ := wait(t, s, start("3")); out.Status != spec.StatusSucceeded {
		t.Errorf("after %s was terminated, the third ended as %+v", first, out)
	}
}

// TestChildInItsParentsGroup: groups whose names are known when they run only are no reason to wait for ever.
func TestChildInItsParentsGroup(t *testing.T) {
	t.Parallel()
	s := session(t)
	const region = "params: {region: {type: string, default: eu}}\nconcurrency: {group: \"train-${params.region}\"}\n"
	file := project(t, "name: family\n"+region+"steps: {between: {pipeline: {steps: {child: {pipeline: {file: child.yaml}}}}}}\n", map[string]string{
		"child.yaml": "sluice: pipeline/v1\nname: child\n" + region + "steps: {only: {run: {command: [\"true\"]}}}\n",
	})
	run := submit(t, s, control.SubmitRequest{PipelineFile: file}).Run
	out, _ := wait(t, s, run)
	if out.Status != spec.StatusFailed || out.ErrorType != fault.Invalid ||
		!strings.Contains(out.Error, "run "+run+" holds the concurrency group `train-eu` and waits for this run") {
		t.Errorf("the run ended as %+v", out)
	}
	child, err := record.LoadRun(t.Context(), s.Store, record.ChildRun(record.ChildRun(run, "between", 1), "child", 1))
	if err != nil {
		t.Fatal(err)
	}
	if only := recordOf(t, child, "only"); only.Status != spec.StatusUpstream || !strings.Contains(only.Error, "not run: run "+run) {
		t.Errorf("the child's step is recorded as %q: %s", only.Status, only.Error)
	}
}
