package worker

import (
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/historytest"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store/record"
)

// flow has a step that is skipped, one that fails at first, a gate in both its forms, and one that can be made to sleep.
const flow = `name: flow
params:
  all: {type: bool, default: false}
  score: {type: double, default: 0.9}
  nap: {type: int, default: 0}
  tried: {type: string}
outputs: {score: "${steps.score.score}"}
steps:
  extra:
    when: params.all
    run: {command: ["true"]}
  flaky:
    run: {script: 'mkdir "$TRIED" || exit 0; echo "not yet"; exit 7'}
    env: {TRIED: "${params.tried}"}
    retry: {attempts: 2, errors: [user], backoff: 50ms}
  score:
    needs: {extra: not_failed, flaky: passed}
    run:
      script: |
        echo "{\"score\": $SCORE}" > "$SLUICE_OUTPUT_DIR/outputs.json"
        exec sleep "$NAP"
      outputs: {score: {type: double}}
    env: {SCORE: "${params.score}", NAP: "${params.nap}"}
    gate:
      - score >= 0.5
      - {check: score >= 0.8, on_fail: stop}
  after: {needs: [score], run: {command: ["true"]}}
  sorry: {needs: {score: failed}, run: {command: ["true"]}}
`

// TestPipelineRuns: the ways a run can end. `make histories` lets it record what workflows/ replays.
func TestPipelineRuns(t *testing.T) {
	s := session(t)
	const succeeded, failed, skipped, upstream = spec.StatusSucceeded, spec.StatusFailed, spec.StatusSkipped, spec.StatusUpstream
	tests := []struct {
		name   string
		params map[string]string
		want   record.RunOutput
		steps  map[string]spec.Status
		// verdicts are what Temporal's UI says of the steps' ends.
		verdicts []string
	}{{
		name:  "succeeded",
		want:  record.RunOutput{Status: succeeded},
		steps: map[string]spec.Status{"extra": skipped, "flaky": succeeded, "score": succeeded, "after": succeeded, "sorry": skipped},
		verdicts: []string{
			"after: succeeded",
			"extra: skipped: its `when` was false",
			"flaky: succeeded",
			"score: succeeded: score = 0.9",
			"sorry: skipped: not run: it needs `score: failed`, but `score` ended as succeeded",
		},
	}, {
		name: "failed", params: map[string]string{"all": "true", "score": "0.4"},
		want:  record.RunOutput{Status: failed, Error: "score: gate `score >= 0.5` failed: score = 0.4", ErrorType: fault.Gate},
		steps: map[string]spec.Status{"extra": succeeded, "flaky": succeeded, "score": failed, "after": upstream, "sorry": succeeded},
		verdicts: []string{
			"after: upstream: not run: it needs `score: passed`, but `score` ended as failed",
			"extra: succeeded",
			"flaky: succeeded",
			"score: failed: gate `score >= 0.5` failed: score = 0.4",
			"sorry: succeeded",
		},
	}, {
		name: "declined", params: map[string]string{"score": "0.6"},
		want:  record.RunOutput{Status: spec.StatusDeclined, Error: "score: gate `score >= 0.8` failed: score = 0.6", ErrorType: fault.Gate},
		steps: map[string]spec.Status{"extra": skipped, "flaky": succeeded, "score": spec.StatusDeclined, "after": upstream, "sorry": skipped},
		verdicts: []string{
			"after: upstream: not run: it needs `score: passed`, but `score` ended as declined",
			"extra: skipped: its `when` was false",
			"flaky: succeeded",
			"score: declined: gate `score >= 0.8` failed: score = 0.6",
			"sorry: skipped: not run: it needs `score: failed`, but `score` ended as declined",
		},
	}}
	pipeline := project(t, flow, nil)
	runs := map[string]record.Run{}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			params := map[string]string{"tried": filepath.Join(t.TempDir(), "once")}
			maps.Copy(params, tt.params)
			run := submit(t, s, control.SubmitRequest{PipelineFile: pipeline, Params: params}).Run
			out, record := wait(t, s, run)
			historytest.Record(t, s.Client, contract.RunWorkflowID(run), "pipeline-"+tt.name)
			if diff := cmp.Diff(tt.want, out); diff != "" {
				t.Errorf("the run (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(tt.steps, statuses(record)); diff != "" {
				t.Errorf("its steps (-want +got):\n%s", diff)
			}
			if attempts := record.Steps[1].Attempts; len(attempts) != 1 || attempts[0].ErrorType != fault.User || !strings.Contains(attempts[0].Error, "not yet") {
				t.Errorf("attempts of flaky that failed: %+v", attempts)
			}
			runs[tt.name] = record
			verdicts := historytest.Verdicts(t, s.Client, contract.RunWorkflowID(run))
			if diff := cmp.Diff(tt.verdicts, verdicts, cmpopts.SortSlices(strings.Compare)); diff != "" {
				t.Errorf("what Temporal's UI says of its steps (-want +got):\n%s", diff)
			}
		})
	}

	t.Run("canceled", func(t *testing.T) {
		run := submit(t, s, control.SubmitRequest{PipelineFile: pipeline, Params: map[string]string{"nap": "600", "tried": filepath.Join(t.TempDir(), "once")}}).Run
		t.Cleanup(func() { end(t, s, run) })
		awaitDetail(t, s, run, "score", func(control.Detail) bool { return true })
		end(t, s, run)
		historytest.Record(t, s.Client, contract.RunWorkflowID(run), "pipeline-canceled")
		out, record := wait(t, s, run)
		want := map[string]spec.Status{
			"extra": skipped, "flaky": succeeded, "score": spec.StatusCanceled, "after": spec.StatusCanceled, "sorry": spec.StatusCanceled,
		}
		if diff := cmp.Diff(want, statuses(record)); diff != "" || out.Status != spec.StatusCanceled {
			t.Errorf("the run is %s, its steps (-want +got):\n%s", out.Status, diff)
		}
	})

	t.Run("rerun", func(t *testing.T) {
		old := runs["succeeded"]
		again, err := s.Rerun(t.Context(), control.RerunRequest{Run: old.Run, From: "score"})
		if err != nil {
			t.Fatal(err)
		}
		out, record := wait(t, s, again.Run)
		historytest.Record(t, s.Client, contract.RunWorkflowID(again.Run), "pipeline-rerun")
		if out.Status != succeeded || record.Reuse.From != old.Run {
			t.Errorf("the run is %+v, reuses %q", out, record.Reuse.From)
		}
		reused := map[string]string{}
		for _, step := range record.Steps {
			reused[step.Step] = step.ReusedFrom
		}
		if diff := cmp.Diff(map[string]string{"extra": "", "flaky": old.Run, "score": "", "after": "", "sorry": ""}, reused); diff != "" {
			t.Errorf("steps taken over (-want +got):\n%s", diff)
		}
		if diff := cmp.Diff(spec.Values{"score": 0.9}, record.Outputs); diff != "" {
			t.Errorf("outputs (-want +got):\n%s", diff)
		}
	})
}

// TestRolloutRuns: the ways a rollout can end, with real models and traffic. It records, too.
func TestRolloutRuns(t *testing.T) {
	t.Parallel()
	s := session(t)
	port := freePort(t)
	target := fmt.Sprintf("words_%d", port) // fresh each time the test is run
	ship := func(t *testing.T, model, samples string) string {
		t.Helper()
		return ship(t, s, embeddedAs(target, port), target, model, "SAMPLES", samples)
	}
	tests := []struct {
		name, model string
		want        record.RunOutput
		out         spec.RolloutOutput
		verdict     string
	}{{
		name: "first", model: onnxtest.Text,
		want:    record.RunOutput{Status: spec.StatusSucceeded},
		out:     spec.RolloutOutput{Version: "1", Decision: "promoted"},
		verdict: "stage 3 (100%): pass",
	}, {
		name: "promoted", model: onnxtest.TextClose,
		want:    record.RunOutput{Status: spec.StatusSucceeded},
		out:     spec.RolloutOutput{Version: "2", Previous: "1", Decision: "promoted"},
		verdict: "stage 3 (100%): pass",
	}, {
		name: "rolled-back", model: onnxtest.TextWrong,
		want:    record.RunOutput{Status: spec.StatusFailed, ErrorType: fault.Gate},
		out:     spec.RolloutOutput{Version: "3", Previous: "2", Decision: "rolled_back"},
		verdict: "stage 1 (shadow 100%): abort: ",
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			evidence := fmt.Sprintf("\nsluice_rollout_e_value{namespace=\"default\",target=%q,test=\"errors\",version=%q} ", target, tt.out.Version)
			run := ship(t, tt.model, "50")
			if tt.out.Previous != "" {
				await(t, "the e-value of a stage", func() bool { return strings.Contains(exported(t), evidence) })
			}
			out, record := wait(t, s, run)
			if strings.Contains(exported(t), evidence) {
				t.Error("the e-value is exported when the rollout is over")
			}
			historytest.Record(t, s.Client, contract.RolloutWorkflowID(target), "rollout-"+tt.name)
			verdicts := historytest.Verdicts(t, s.Client, contract.RolloutWorkflowID(target))
			if last := verdicts[len(verdicts)-1]; !strings.HasPrefix(last, tt.verdict) {
				t.Errorf("Temporal's UI says of the last stage %q, want %q", last, tt.verdict)
			}
			if out.Status != tt.want.Status || out.ErrorType != tt.want.ErrorType {
				t.Fatalf("the run ended as %+v, want %+v", out, tt.want)
			}
			described, err := s.Client.DescribeWorkflow(t.Context(), contract.RunWorkflowID(run), "")
			if err != nil {
				t.Fatal(err)
			}
			said, _ := described.TypedSearchAttributes.GetKeyword(temporal.NewSearchAttributeKeyKeyword(contract.SearchVerdict))
			want := string(out.Status)
			if tt.out.Decision == "rolled_back" {
				want = contract.VerdictRolledBack
			}
			if said != want {
				t.Errorf("Temporal's list of workflows says %q of the run", said)
			}
			var got spec.RolloutOutput
			if err := json.Unmarshal(record.Steps[1].Outputs, &got); err != nil {
				t.Fatalf("outputs %s: %v", record.Steps[1].Outputs, err)
			}
			if got.Version != tt.out.Version || got.Previous != tt.out.Previous || got.Decision != tt.out.Decision {
				t.Errorf("got version %s after %q: %s, want %+v", got.Version, got.Previous, got.Decision, tt.out)
			}
			if tt.name == "promoted" {
				historytest.Record(t, s.Client, contract.RunWorkflowID(run), "pipeline-released")
			}
		})
	}

	t.Run("canceled", func(t *testing.T) {
		run := ship(t, onnxtest.Text, "1000000")
		step, detail := awaitDetail(t, s, run, "ship", func(d control.Detail) bool {
			return d.Rollout != nil && d.Rollout.Run == run && d.Rollout.Stage == 2 && d.Rollout.Look != nil && d.Rollout.Weight > 0
		})
		if step.Child != contract.RolloutWorkflowID(target) || detail.Rollout.Stages != 3 {
			t.Errorf("the step's child is %q, at %+v", step.Child, detail.Rollout)
		}
		end(t, s, run)
		historytest.Record(t, s.Client, contract.RolloutWorkflowID(target), "rollout-canceled")
		if out, _ := wait(t, s, run); out.Status != spec.StatusCanceled {
			t.Errorf("the run ended as %+v", out)
		}
		var settled routing.Outcome
		if err := s.Store.GetJSON(t.Context(), "releases/"+target+"/4.json", &settled); err != nil {
			t.Fatal(err)
		}
		if settled.Decision != "rolled_back" || settled.Reason != "stage 2 (30%): canceled" {
			t.Errorf("the release's record is %+v", settled)
		}
	})

	for name, tt := range map[string]struct{ action, decision, reason string }{
		"ordered": {contract.RolloutPromote, routing.Promoted, "promoted by user:ann: why"},
		"aborted": {contract.RolloutAbort, routing.RolledBack, "aborted by user:ann: why"},
	} {
		t.Run(name, func(t *testing.T) {
			run := ship(t, onnxtest.Text, "1000000")
			awaitDetail(t, s, run, "ship", func(d control.Detail) bool {
				return d.Rollout != nil && d.Rollout.Run == run && d.Rollout.Stage == 2 && d.Rollout.Weight > 0
			})
			for _, action := range []string{contract.RolloutPause, contract.RolloutResume, tt.action} {
				if _, err := s.OrderRollout(t.Context(), target, contract.RolloutOrder{Action: action, By: "user:ann", Reason: "why"}); err != nil {
					t.Fatalf("%s: %v", action, err)
				}
			}
			wait(t, s, run)
			historytest.Record(t, s.Client, contract.RolloutWorkflowID(target), "rollout-"+name)
			releases, err := routing.Releases(t.Context(), s.Store, target)
			if err != nil {
				t.Fatal(err)
			}
			if end := releases[0].End; end.Run != run || end.Decision != tt.decision || end.Reason != tt.reason || end.By != "user:ann" {
				t.Errorf("the release's record is %+v", end)
			}
		})
	}
}
