package worker

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

// asking is a pipeline with an approval that has a form, and a step that reads it.
const asking = `name: asking
steps:
  sign:
    approval:
      who: ["user:ann", "user:bob"]
      message: Ship it?
      fields:
        tier: {type: enum, values: [gold, silver], required: true}
        note: {type: string}
  ship:
    run: {command: ["true"]}
    env: {TIER: "${steps.sign.tier}", BY: "${steps.sign.by}", REASON: "${steps.sign.reason}"}
`

// awaitWaiting waits until something in a run waits for a person.
func awaitWaiting(t *testing.T, s *control.Session, run, step string) contract.ApprovalState {
	t.Helper()
	var at contract.ApprovalState
	await(t, "a question of "+run, func() bool {
		var err error
		at, err = s.FindWaiting(t.Context(), run, step)
		return err == nil
	})
	return at
}

func recordOf(t *testing.T, run record.Run, step string) record.StepRecord {
	t.Helper()
	for _, r := range run.Steps {
		if r.Step == step {
			return r
		}
	}
	t.Fatalf("%s has no step %s", run.Run, step)
	return record.StepRecord{}
}

// TestDecide: what may not be is refused with what may, and changes nothing; what may be is kept with who and when.
func TestDecide(t *testing.T) {
	s := session(t)
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, asking, nil)}).Run
	t.Cleanup(func() { end(t, s, run) })
	at := awaitWaiting(t, s, run, "")
	if at.Step != "sign" || at.Question() != "Ship it?" || at.Until.IsZero() || !cmp.Equal(at.Users, []string{"user:ann", "user:bob"}) {
		t.Errorf("it asks %+v", at)
	}
	gold := map[string]string{"tier": "gold"}
	for _, refused := range []struct {
		name string
		d    contract.Decide
		says []string
	}{
		{"a stranger", contract.Decide{Approve: true, By: "user:eve", Fields: gold}, []string{"user:eve", "user:ann", "user:bob"}},
		{"nobody", contract.Decide{Approve: true, Fields: gold}, []string{"who decides"}},
		{"without a required field", contract.Decide{Approve: true, By: "user:ann"}, []string{"`tier`", "gold, silver"}},
		{"another value than there is", contract.Decide{Approve: true, By: "user:ann", Fields: map[string]string{"tier": "tin"}}, []string{"`tier`", "gold, silver"}},
		{"a field there is not", contract.Decide{Approve: true, By: "user:ann", Fields: map[string]string{"tier": "gold", "x": ""}}, []string{"`x`"}},
	} {
		t.Run(refused.name, func(t *testing.T) {
			_, err := s.Decide(t.Context(), at, refused.d)
			if fault.TypeOf(err) != fault.Invalid {
				t.Fatalf("got %v, want an invalid error", err)
			}
			for _, want := range refused.says {
				if !strings.Contains(fault.Message(err), want) {
					t.Errorf("%q does not say %s", fault.Message(err), want)
				}
			}
		})
	}
	got, err := s.Decide(t.Context(), at, contract.Decide{Approve: true, By: "user:ann", Reason: "good numbers", Fields: gold})
	if err != nil {
		t.Fatal(err)
	}
	want := record.Decision{Approved: true, By: "user:ann", Reason: "good numbers", Fields: map[string]any{"tier": "gold"}}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(record.Decision{}, "At")); diff != "" || got.At.IsZero() {
		t.Errorf("decided at %s (-want +got):\n%s", got.At, diff)
	}
	out, ended := wait(t, s, run)
	if out.Status != spec.StatusSucceeded {
		t.Errorf("the run ended as %+v", out)
	}
	var outputs map[string]any
	if err := json.Unmarshal(recordOf(t, ended, "sign").Outputs, &outputs); err != nil {
		t.Fatal(err)
	}
	delete(outputs, "at")
	if diff := cmp.Diff(map[string]any{"by": "user:ann", "reason": "good numbers", "tier": "gold"}, outputs); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if _, err := s.Decide(t.Context(), at, contract.Decide{By: "user:bob"}); fault.TypeOf(err) != fault.Invalid {
		t.Errorf("a second decision: %v, want an invalid error", err)
	}
	if _, err := s.FindWaiting(t.Context(), run, "sign"); err == nil || !strings.Contains(err.Error(), "approved by user:ann: good numbers") {
		t.Errorf("what was decided is not said: %v", err)
	}
	if _, err := s.FindWaiting(t.Context(), run, ""); fault.TypeOf(err) != fault.Invalid {
		t.Errorf("something waits: %v", err)
	}
}

// TestReject: a rejection fails the step, and the run, as a gate does.
func TestReject(t *testing.T) {
	s := session(t)
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, asking, map[string]string{"reject": ""})}).Run
	t.Cleanup(func() { end(t, s, run) })
	at := awaitWaiting(t, s, run, "sign")
	if _, err := s.Decide(t.Context(), at, contract.Decide{By: "user:bob", Reason: "too slow"}); err != nil {
		t.Fatal(err)
	}
	out, ended := wait(t, s, run)
	if out.Status != spec.StatusFailed || out.ErrorType != fault.Gate || !strings.Contains(out.Error, "rejected by user:bob: too slow") {
		t.Errorf("the run ended as %+v", out)
	}
	if diff := cmp.Diff(map[string]spec.Status{"sign": spec.StatusFailed, "ship": spec.StatusUpstream}, statuses(ended)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestDecideBySignal: Temporal's UI can send a signal in every version. One that is not valid changes nothing.
func TestDecideBySignal(t *testing.T) {
	s := session(t)
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, asking, map[string]string{"signal": ""})}).Run
	t.Cleanup(func() { end(t, s, run) })
	awaitWaiting(t, s, run, "sign")
	for _, by := range []string{"user:eve", "user:bob"} {
		d := contract.Decide{Approve: true, By: by, Fields: map[string]string{"tier": "silver"}}
		if err := s.Client.SignalWorkflow(t.Context(), contract.ApprovalWorkflowID(run, "sign"), "", contract.DecideUpdate, d); err != nil {
			t.Fatal(err)
		}
	}
	out, ended := wait(t, s, run)
	if sign := string(recordOf(t, ended, "sign").Outputs); out.Status != spec.StatusSucceeded || !strings.Contains(sign, "user:bob") {
		t.Errorf("the run ended as %+v, signed %s", out, sign)
	}
}

// TestNobodyDecides: when the time is over, the default decides.
func TestNobodyDecides(t *testing.T) {
	t.Parallel()
	s := session(t)
	const late = "name: late\nsteps:\n  sign: {approval: {message: Now, timeout: 100ms, default: %DEFAULT%, fields: {tier: {type: string, default: gold}}}}\n"
	for byDefault, want := range map[string]spec.Status{"approve": spec.StatusSucceeded, "reject": spec.StatusFailed} {
		t.Run(byDefault, func(t *testing.T) {
			file := project(t, strings.ReplaceAll(late, "%DEFAULT%", byDefault), nil)
			out, ended := wait(t, s, submit(t, s, control.SubmitRequest{PipelineFile: file}).Run)
			if out.Status != want {
				t.Errorf("the run ended as %+v, want %s", out, want)
			}
			if sign := string(recordOf(t, ended, "sign").Outputs); !strings.Contains(sign, `"by":""`) {
				t.Errorf("somebody decided: %s", sign)
			} else if strings.Contains(sign, `"tier":"gold"`) != (byDefault == "approve") {
				t.Errorf("the form is %s", sign)
			}
		})
	}
}

// TestHold: a gate that holds asks with what it saw, for one instance of a matrix, which goes on when somebody approves.
func TestHold(t *testing.T) {
	s := session(t)
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, `name: holding
steps:
  fit:
    matrix: {size: [1, 2, 3]}
    run: {script: 'echo "{\"n\": $N}" > "$SLUICE_OUTPUT_DIR/outputs.json"', outputs: {n: {type: int}}}
    env: {N: "${matrix.size}"}
    gate:
      - {check: n != 2, message: two is odd, on_fail: hold, hold: {who: ["user:ann"], timeout: 1h, default: fail}}
`, nil)}).Run
	t.Cleanup(func() { end(t, s, run) })
	at := awaitWaiting(t, s, run, "")
	if at.Step != "fit.1" || !strings.Contains(at.Question(), "two is odd (`n != 2`): n = 2") {
		t.Errorf("it asks %+v", at)
	}
	state, err := s.State(t.Context(), run)
	if err != nil {
		t.Fatal(err)
	}
	detail, err := s.Detail(t.Context(), run, state.Steps[0])
	if err != nil {
		t.Fatal(err)
	}
	held := func(d control.InstanceDetail) bool { return d.ID == "fit.1" && d.Status == spec.StatusHold }
	if state.Steps[0].Of != 3 || !slices.ContainsFunc(detail.Instances, held) { // others may be running yet
		t.Errorf("the step is %+v, with %+v", state.Steps[0], detail)
	}
	if _, err := s.Decide(t.Context(), at, contract.Decide{Approve: true, By: "user:ann", Reason: "even so"}); err != nil {
		t.Fatal(err)
	}
	out, ended := wait(t, s, run)
	if fit := recordOf(t, ended, "fit"); out.Status != spec.StatusSucceeded || fit.Of != 3 || fit.Passed != 3 {
		t.Errorf("the run ended as %+v, the step as %+v", out, fit)
	}
	all, total, err := record.LoadInstances(t.Context(), s.Store, run, "fit", 2)
	if err != nil || total != 3 || len(all) != 2 {
		t.Fatalf("%d of %d instances, %v", len(all), total, err)
	}
	if d := all[1].Decision; string(all[1].Matrix) != `{"size":2}` || d == nil || d.By != "user:ann" || d.Reason != "even so" {
		t.Errorf("the instance is %+v", all[1])
	}
}

// TestWithin: what runs and waits within a step is seen: instances with what they say of themselves, and the steps of a child pipeline,
// which is a run of its own.
func TestWithin(t *testing.T) {
	t.Parallel()
	s := session(t)
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, `name: within
steps:
  nap:
    matrix: {who: [bear, cat]}
    run: {script: 'echo "$WHO sleeps"; exec sleep 600'}
    env: {WHO: "${matrix.who}"}
  release:
    pipeline:
      steps:
        sign: {approval: {message: Ship it, who: ["user:ann"]}}
`, nil)}).Run
	t.Cleanup(func() { end(t, s, run) })
	_, nap := awaitDetail(t, s, run, "nap", func(d control.Detail) bool {
		return len(d.Instances) == 2 && d.Instances[0].Detail.Text == "bear sleeps" && d.Instances[1].Detail.Text == "cat sleeps"
	})
	if nap.Held || nap.Share != 0 || nap.Instances[1].ID != "nap.1" {
		t.Errorf("the naps are %+v", nap)
	}
	at := awaitWaiting(t, s, run, "")
	if at.Step != "sign" || at.Run == run {
		t.Errorf("it asks %+v", at)
	}
	_, release := awaitDetail(t, s, run, "release", func(d control.Detail) bool { return d.Held })
	if release.Child == nil || len(release.Child.Steps) != 1 {
		t.Errorf("the child is %+v", release.Child)
	}
	if _, err := s.FindWaiting(t.Context(), run, "nap"); err == nil || !strings.Contains(err.Error(), "`sign` of the child run "+at.Run) {
		t.Errorf("what waits is not named: %v", err)
	}
	if _, err := s.Decide(t.Context(), at, contract.Decide{Approve: true, By: "user:ann"}); err != nil {
		t.Fatal(err)
	}
	await(t, "the end of the child", func() bool {
		child, err := record.LoadRun(t.Context(), s.Store, at.Run)
		return err == nil && child.Status == spec.StatusSucceeded
	})
}
