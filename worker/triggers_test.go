package worker

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/api/workflowservice/v1"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/watch"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// applyTriggers applies the triggers of a pipeline and says what that did.
func applyTriggers(t *testing.T, s *control.Session, req control.SubmitRequest) map[string]contract.TriggerAction {
	t.Helper()
	plan, err := s.PlanTriggers(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Schedules().Apply(t.Context(), plan); err != nil {
		t.Fatal(err)
	}
	done := map[string]contract.TriggerAction{}
	for _, change := range plan.Changes {
		done[change.Trigger] = change.Action
	}
	return done
}

// forget deletes a schedule at the end of a test, whatever is left of it.
func forget(t *testing.T, s *control.Session, id string) {
	t.Cleanup(func() {
		ctx := context.WithoutCancel(t.Context())
		_ = s.Client.ScheduleClient().GetHandle(ctx, id).Delete(ctx) // it may be gone
	})
}

func trigger(t *testing.T, s *control.Session, id string) contract.Trigger {
	t.Helper()
	got, err := s.Schedules().Describe(t.Context(), id)
	if err != nil {
		t.Fatal(err)
	}
	return got
}

// runsOf are the records of a pipeline's runs, oldest first.
func runsOf(t *testing.T, s *control.Session, pipeline string) []record.RunRecord {
	t.Helper()
	all, err := record.Runs(t.Context(), s.Store)
	if err != nil {
		t.Fatal(err)
	}
	slices.Reverse(all)
	return slices.DeleteFunc(all, func(r record.RunRecord) bool { return r.Pipeline != pipeline })
}

func ended(runs []record.RunRecord, status spec.Status) int {
	return len(slices.DeleteFunc(slices.Clone(runs), func(r record.RunRecord) bool { return r.Status != status }))
}

// TestScheduleTrigger: a cron expression with seconds starts runs on the real server, each with a name and the time it is for; applying
// again changes nothing; a pause ends it; what is no longer declared is deleted.
func TestScheduleTrigger(t *testing.T) {
	t.Parallel()
	s := session(t)
	const pipeline = "clock-test"
	declare := func(triggers string) control.SubmitRequest {
		return control.SubmitRequest{PipelineFile: project(t, "name: "+pipeline+"\nparams: {n: {type: int, default: 1}}\n"+
			"steps: {only: {run: {command: [echo, \"${params.n}\"]}}}\n"+triggers, nil)}
	}
	clock := declare("triggers: {tick: {schedule: {cron: '*/2 * * * * *'}, params: {n: 7}}}\n")
	id := pipeline + "/tick"
	if diff := cmp.Diff(map[string]contract.TriggerAction{id: contract.TriggerCreate}, applyTriggers(t, s, clock)); diff != "" {
		t.Fatalf("applied for the first time (-want +got):\n%s", diff)
	}
	forget(t, s, id)
	if diff := cmp.Diff(map[string]contract.TriggerAction{id: contract.TriggerKeep}, applyTriggers(t, s, clock)); diff != "" {
		t.Errorf("applied again (-want +got):\n%s", diff)
	}
	if err := os.WriteFile(clock.PipelineFile, []byte("an edit that was not applied"), 0o600); err != nil {
		t.Fatal(err)
	}
	await(t, "two runs", func() bool { return ended(runsOf(t, s, pipeline), spec.StatusSucceeded) >= 2 })
	for _, r := range runsOf(t, s, pipeline)[:2] {
		if r.Trigger.Name != "tick" || r.Trigger.Kind != "schedule" || r.ScheduledAt.Second()%2 != 0 ||
			r.Run != pipeline+"-tick-"+r.ScheduledAt.UTC().Format("20060102T150405Z") || r.Params["n"] != int64(7) {
			t.Errorf("run %s, for %s, by %+v, with %v", r.Run, r.ScheduledAt, r.Trigger, r.Params)
		}
	}
	if got := trigger(t, s, id); len(got.Runs) < 2 || got.Runs[1].Status != spec.StatusSucceeded || len(got.Next) == 0 {
		t.Errorf("described as %+v", got)
	}

	for _, reason := range []string{"an earlier reason", "a test", ""} { // none keeps the one before
		if err := s.Schedules().Pause(t.Context(), id, reason); err != nil {
			t.Fatal(err)
		}
	}
	if got := trigger(t, s, id); !got.Paused || got.Note != "a test" || len(got.Next) != 0 {
		t.Errorf("paused, it is described as %+v", got)
	}
	before, err := s.Client.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	pausedAt := time.Now()
	edited := declare("triggers: {tick: {schedule: {cron: '*/1 * * * * *'}}}\n")
	if diff := cmp.Diff(map[string]contract.TriggerAction{id: contract.TriggerUpdate}, applyTriggers(t, s, edited)); diff != "" {
		t.Errorf("edited (-want +got):\n%s", diff)
	}
	await(t, "three ticks that are paused", func() bool { return time.Since(pausedAt) > 3*time.Second })
	after, err := s.Client.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
	if err != nil || after.Info.NumActions != before.Info.NumActions || !after.Schedule.State.Paused {
		t.Errorf("paused, it went from %d to %d starts, %v", before.Info.NumActions, after.Info.NumActions, err)
	}
	if err := s.Schedules().Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	await(t, "a run after the pause", func() bool { return trigger(t, s, id).Runs[0].At.After(pausedAt) })

	if diff := cmp.Diff(map[string]contract.TriggerAction{id: contract.TriggerDelete}, applyTriggers(t, s, declare(""))); diff != "" {
		t.Errorf("no longer declared (-want +got):\n%s", diff)
	}
	if _, err := s.Schedules().Describe(t.Context(), id); fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), id) {
		t.Errorf("deleted, it is described: %v", err)
	}
	if diff := cmp.Diff(map[string]contract.TriggerAction{}, applyTriggers(t, s, declare(""))); diff != "" {
		t.Errorf("nothing left (-want +got):\n%s", diff)
	}
}

// TestScheduleSkips: while a run of a schedule is open, no other is started by it, nor by hand; a backfill makes up for times that are
// past, for each once.
func TestScheduleSkips(t *testing.T) {
	t.Parallel()
	s := session(t)
	const pipeline = "skip-test"
	gate := filepath.Join(t.TempDir(), "go")
	id := pipeline + "/tick"
	applyTriggers(t, s, control.SubmitRequest{PipelineFile: project(t, "name: "+pipeline+`
steps: {only: {run: {script: 'until [ -e "$GATE" ]; do sleep 0.1; done'}, env: {GATE: "`+gate+`"}}}
triggers: {tick: {schedule: {every: 1s, on_conflict: skip}}}
`, nil)})
	forget(t, s, id)
	await(t, "two starts that are skipped", func() bool { return trigger(t, s, id).Skipped >= 2 })
	if runs := runsOf(t, s, pipeline); len(runs) != 1 {
		t.Errorf("%d runs are open at once", len(runs))
	}
	fired, err := s.Schedules().Fire(t.Context(), id)
	if err != nil || !fired.Skipped {
		t.Errorf("by hand: %+v, %v", fired, err)
	}
	if err := s.Schedules().Pause(t.Context(), id, ""); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(gate, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	// The workflow outlives the record of its run a little.
	await(t, "the end of the run", func() bool { return count(t, s, pipeline, "Running") == 0 })
	fired, err = s.Schedules().Fire(t.Context(), id)
	if err != nil || contract.RunOf(fired.Workflow) == "" {
		t.Errorf("by hand, with none open: %+v, %v", fired, err)
	}
	past := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	if err := s.Schedules().Backfill(t.Context(), id, past, past.Add(2*time.Second)); err != nil {
		t.Fatal(err)
	}
	want := []string{"20260102T030405Z", "20260102T030406Z", "20260102T030407Z"}
	made := func() (all []record.RunRecord) {
		for _, r := range runsOf(t, s, pipeline) {
			if slices.Contains(want, strings.TrimPrefix(r.Run, pipeline+"-tick-")) && r.Status == spec.StatusSucceeded {
				all = append(all, r)
			}
		}
		return all
	}
	await(t, "the runs of the past", func() bool { return len(made()) == len(want) })

	before, done := made(), count(t, s, pipeline, "Completed")
	if err := s.Schedules().Backfill(t.Context(), id, past, past.Add(2*time.Second)); err != nil {
		t.Fatal(err)
	}
	await(t, "three starts in vain", func() bool { return count(t, s, pipeline, "Completed") == done+len(want) })
	if diff := cmp.Diff(before, made()); diff != "" {
		t.Errorf("made up for twice, the runs are others (-want +got):\n%s", diff)
	}
}

// count is how many workflows of runs of a pipeline's triggers have a status.
func count(t *testing.T, s *control.Session, pipeline, status string) int {
	t.Helper()
	found, err := s.Client.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowId STARTS_WITH 'run/%s-tick-' AND ExecutionStatus = '%s'", pipeline, status),
	})
	if err != nil {
		t.Fatal(err)
	}
	return int(found.GetCount())
}

// TestDataTrigger: each settled version of a file starts one run on the real server, which is told of it; a run whose start was not
// noted is not started again, and one that is run again is told of the same files.
func TestDataTrigger(t *testing.T) {
	t.Parallel()
	s := session(t)
	const pipeline = "inbox-test"
	inbox := t.TempDir()
	id := pipeline + "/inbox"
	applyTriggers(t, s, control.SubmitRequest{PipelineFile: project(t, "name: "+pipeline+`
steps: {only: {run: {command: ["true"]}}}
triggers: {inbox: {data: {url: "file://`+inbox+`", glob: "*.csv", settle: 1s, every: 1s}}}
`, nil)})
	forget(t, s, id)
	file := filepath.Join(inbox, "a.csv")
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	succeeded := func(n int) func() bool {
		return func() bool { return ended(runsOf(t, s, pipeline), spec.StatusSucceeded) == n }
	}
	write("1")
	await(t, "a run for the file", succeeded(1))
	first := runsOf(t, s, pipeline)[0]
	if diff := cmp.Diff([]string{"file://" + file}, first.Trigger.Files); diff != "" || first.Trigger.Kind != "data" {
		t.Errorf("the run is told of (-want +got):\n%s", diff)
	}

	// As if the worker had died after it started the run.
	state, err := watch.LoadState(t.Context(), s.Store, pipeline, "inbox")
	if err != nil {
		t.Fatal(err)
	}
	state.Due, state.Run = &contract.Look{Run: first.Run, Trigger: first.Trigger}, ""
	if err := s.Store.PutJSON(t.Context(), watch.Key(pipeline, "inbox"), state, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	await(t, "the run to be noted", func() bool {
		state, err := watch.LoadState(t.Context(), s.Store, pipeline, "inbox")
		return err == nil && state.Due == nil && state.Run == first.Run
	})
	write("22")
	await(t, "a run for the new version", succeeded(2))
	looks := trigger(t, s, id).Look.At
	await(t, "two more looks", func() bool { return trigger(t, s, id).Look.At.Sub(looks) > 2*time.Second })
	if runs := runsOf(t, s, pipeline); len(runs) != 2 {
		t.Errorf("%d runs for two versions", len(runs))
	}
	if got := trigger(t, s, id); got.Look.Saw != "1 object, 0 new, 0 not settled yet" || len(got.Runs) != 2 || got.Runs[1].Run != first.Run {
		t.Errorf("described as %+v, %+v", got, got.Look)
	}
	again, err := s.Rerun(t.Context(), control.RerunRequest{Run: first.Run, From: "only"})
	if err != nil {
		t.Fatal(err)
	}
	await(t, "the rerun", succeeded(3))
	rerun, err := record.LoadRun(t.Context(), s.Store, again.Run)
	if diff := cmp.Diff(first.Trigger, rerun.Trigger); err != nil || diff != "" {
		t.Errorf("the rerun is told of (-want +got): %v\n%s", err, diff)
	}
	if err := os.RemoveAll(inbox); err != nil {
		t.Fatal(err)
	}
	await(t, "a look that fails", func() bool { return strings.Contains(trigger(t, s, id).Look.Error, inbox) })
}
