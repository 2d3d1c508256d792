package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

// fanned is a run with instances, a gate that held, and what runs after the main steps.
func fanned() (record.RunRecord, []record.StepRecord) {
	at := func(s float64) time.Time { return noon.Add(time.Duration(s * float64(time.Second))) }
	run := record.RunRecord{
		Run: "spam-1", Pipeline: "spam", Status: spec.StatusFailed, Error: "sign: rejected by user:ann: too slow", StartedAt: noon, EndedAt: at(90),
		CostUSD: 1.25, Trigger: spec.TriggerFacts{Name: "nightly", Kind: "schedule"},
		Graph: []spec.Node{
			{ID: "mail", Kind: spec.KindRun},
			{ID: "fit", Kind: spec.KindTrain, Fan: spec.FanMatrix, After: []string{"mail"}},
			{ID: "sign", Kind: spec.KindApproval, After: []string{"fit"}},
			{ID: "page", Kind: spec.KindRun, Section: spec.SectionOnFailure},
			{ID: "tidy", Kind: spec.KindRun, Section: spec.SectionFinally},
		},
	}
	return run, []record.StepRecord{
		{
			Step: "mail", Kind: spec.KindRun, Status: spec.StatusSucceeded, StartedAt: noon, EndedAt: at(3), ReusedFrom: "spam-0",
			Outputs: json.RawMessage(`{"rows": 12}`), Checks: []spec.Check{{Expression: "rows > 20", Verdict: spec.VerdictFail, OnFail: spec.OnFailHold, Values: map[string]any{"rows": 12}}},
			Decision: &record.Decision{Approved: true, By: "user:ann", At: at(2), Reason: "few today"},
		},
		{
			Step: "fit", Kind: spec.KindTrain, Status: spec.StatusSucceeded, StartedAt: at(3), EndedAt: at(60), Of: 3, Passed: 2,
			Summary: "2 of 3 passed", CostUSD: 1.25, Outputs: json.RawMessage(`[{"index": 0}, {"index": 2}]`),
		},
		{
			Step: "sign", Kind: spec.KindApproval, Status: spec.StatusFailed, StartedAt: at(60), EndedAt: at(80), Error: "rejected by user:ann: too slow", ErrorType: fault.Gate,
			Outputs: json.RawMessage(`{"by": "user:ann", "at": "2026-03-14T12:01:20Z", "reason": "too slow"}`),
		},
		{Step: "page", Kind: spec.KindRun, Status: spec.StatusSucceeded, StartedAt: at(80), EndedAt: at(81), Outputs: json.RawMessage(`{}`)},
		{
			Step: "tidy", Kind: spec.KindRun, Status: spec.StatusSucceeded, StartedAt: at(81), EndedAt: at(90),
			Attempts: []record.Attempt{{StartedAt: at(81), EndedAt: at(85), ErrorType: fault.Infrastructure, Error: "the worker that ran it stopped answering", Interrupted: true}},
		},
	}
}

// instances are those of fit, as LoadInstances orders them.
func instances() []record.StepRecord {
	one := func(index int, status spec.Status, message string) record.StepRecord {
		return record.StepRecord{
			Step: "fit", Kind: spec.KindTrain, Index: index, Status: status, Error: message, StartedAt: noon, EndedAt: noon.Add(time.Second),
			Matrix: json.RawMessage(`{"arch": "cnn", "size": ` + string(rune('0'+index)) + `}`),
		}
	}
	failed := one(1, spec.StatusFailed, "it diverged")
	failed.Attempts = []record.Attempt{
		{StartedAt: noon, EndedAt: noon.Add(time.Second), ErrorType: fault.Preempted, Error: "the node was taken away"},
		{StartedAt: noon, EndedAt: noon.Add(2 * time.Second), ErrorType: fault.User, Error: "it diverged"},
	}
	return []record.StepRecord{failed, one(0, spec.StatusSucceeded, ""), one(2, spec.StatusSucceeded, "")}
}

// waits is a question with a form.
func waits() contract.ApprovalState {
	a := contract.ApprovalState{Since: noon, Until: noon.Add(time.Hour)}
	a.Run, a.Step, a.Seen = "spam-1", "sign", "rows = 12"
	a.Approval = spec.Approval{Who: []string{"group:data"}, Message: "Ship it?", Default: "reject", Fields: map[string]spec.Field{
		"tier": {Type: "enum", Values: []string{"gold", "silver"}, Required: true}, "note": {Type: "string"},
	}}
	return a
}

func TestShowFanned(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	run, steps := fanned()
	golden(t, "show-fanned", func(w io.Writer) error {
		s := Summary{Graph: run.Graph, Steps: steps, Attempts: true}
		return Theme{}.Show(w, run, s, []contract.ApprovalState{waits()}, noon)
	})
	v := StepView{Run: run, Node: run.Graph[1], Step: steps[1], Instances: instances(), Total: 40}
	golden(t, "step-fanned", func(w io.Writer) error { return Theme{}.Step(w, v, noon) })
	one := StepView{Run: run, Node: run.Graph[1], Step: instances()[1]}
	one.Step.Step, one.Step.Outputs = "fit.0", json.RawMessage(`{"loss":0.5}`)
	golden(t, "step-instance", func(w io.Writer) error { return errors.Join(Theme{}.Step(w, one, noon), JSON(w, NewStep(one, noon))) })
	golden(t, "runs-waiting", func(w io.Writer) error {
		open := run
		open.Status, open.EndedAt, open.Error = spec.StatusRunning, time.Time{}, ""
		return Theme{}.Runs(w, []Listed{{RunRecord: open, Waiting: []contract.ApprovalState{waits()}}, {RunRecord: open, Waits: "another run holds the group `spam`"}}, noon)
	})
	golden(t, "decided", func(w io.Writer) error {
		d := record.Decision{Approved: true, By: "user:ann", Reason: "good", Fields: map[string]any{"tier": "gold"}}
		return errors.Join(Theme{}.Decided(w, "spam-1", "sign", d), Theme{}.Decided(w, "spam-1", "sign", record.Decision{Reason: "nobody came"}))
	})
}

func TestRecordOfFanned(t *testing.T) {
	run, steps := fanned()
	r := NewRecord(run, steps, []contract.ApprovalState{waits()}, noon)
	if fit := r.Steps["fit"]; fit.Of != 3 || fit.Passed != 2 || fit.Fan != spec.FanMatrix || fit.CostUSD != 1.25 {
		t.Errorf("fit is %+v", fit)
	}
	if r.Steps["tidy"].Section != spec.SectionFinally || r.Steps["mail"].Decision == nil || len(r.Waiting) != 1 || r.CostUSD != 1.25 {
		t.Errorf("the record is %+v", r)
	}
	step, ok := NewStep(StepView{Run: run, Node: run.Graph[1], Step: steps[1], Instances: instances()}, noon).(Step)
	if !ok || len(step.Instances) != 3 || step.Instances[0].Index != 1 || step.Instances[0].Attempts.Total != 2 {
		t.Errorf("the step is %+v", step)
	}
}

func TestFanDetail(t *testing.T) {
	fit := contract.StepState{ID: "fit", Of: 40, Done: 10, Summary: "1 failed"}
	rows := []Row{
		{StepState: contract.StepState{ID: "fit.3", Status: spec.StatusHold}},
		{StepState: contract.StepState{ID: "fit.4", Status: spec.StatusRunning}, Detail: Detail{Text: "epoch 2\nmore"}},
	}
	if diff := cmp.Diff(Detail{"10 of 40 · 1 failed · fit.3 waits · fit.4 epoch 2", 0.25}, FanDetail(fit, rows)); diff != "" {
		t.Error(diff)
	}
	child := contract.RunState{Steps: []contract.StepState{
		{ID: "a", Status: spec.StatusSucceeded, EndedAt: noon}, {ID: "b", Status: spec.StatusRunning}, {ID: "c", Status: spec.StatusPending},
	}}
	if diff := cmp.Diff(Detail{"1 of 3 steps · b", -1}, ChildDetail(child)); diff != "" {
		t.Error(diff)
	}
	child.Waits = "another run holds the group `spam`"
	if diff := cmp.Diff(Detail{"waiting: another run holds the group `spam`", -1}, ChildDetail(child)); diff != "" {
		t.Error(diff)
	}
}

// A cleaning on a pool has generations, and no steps of training to tell of.
func TestGenerationsWithoutSteps(t *testing.T) {
	const account = `{"generations": [{"index": 1, "nodes": 1, "end": "finished", "started_at": "2026-03-14T12:00:00Z", "ended_at": "2026-03-14T12:00:05Z"}]}`
	for kind, want := range map[spec.Kind]string{
		spec.KindClean: "generation  nodes      time  ended\n         1      1     5.0 s  finished\n",
		spec.KindTrain: "generation  nodes  from step    to step  committed       lost      time  ended\n" +
			"         1      1          0          0          0          0     5.0 s  finished\n",
	} {
		var b bytes.Buffer
		(Theme{}).generations(&writer{w: &b}, kind, json.RawMessage(account))
		if diff := cmp.Diff("\n"+want, b.String()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", kind, diff)
		}
	}
}

// A canceled training has nothing to say beyond its status but what it did, and that has no empty part before it.
func TestResultOfCanceledTraining(t *testing.T) {
	s := record.StepRecord{
		Step: "fit", Kind: spec.KindTrain, Status: spec.StatusCanceled, Error: "canceled", ErrorType: fault.Canceled,
		Outputs: json.RawMessage(`{"steps_done": 14, "generations": [{}, {}]}`),
	}
	if got := result(s); got == "" || strings.HasPrefix(got, separator) || strings.HasPrefix(got, " ") {
		t.Errorf("the result is %q", got)
	}
}

// A canceled run has nothing to say beyond its status.
func TestCanceledRunSaysSoOnce(t *testing.T) {
	run := record.RunRecord{Run: "spam-1", Pipeline: "spam", Status: spec.StatusCanceled, Error: "canceled", StartedAt: noon, EndedAt: noon.Add(time.Second)}
	for name, write := range map[string]func(w io.Writer) error{
		"list": func(w io.Writer) error { return Theme{}.Runs(w, []Listed{{RunRecord: run}}, noon) },
		"show": func(w io.Writer) error { return Theme{}.Show(w, run, Summary{}, nil, noon) },
	} {
		var b bytes.Buffer
		if err := write(&b); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(b.String(), "canceled"); n != 1 {
			t.Errorf("%s says it %d times:\n%s", name, n, b.String())
		}
	}
}

// A value is the same number in the error, in what the gate saw and in the result.
func TestOneRounding(t *testing.T) {
	steps := []record.StepRecord{
		{
			Step: "score", Kind: spec.KindRun, Status: spec.StatusFailed, Error: "metrics.accuracy >= 0.7 does not hold: metrics.accuracy = 0.691689", ErrorType: fault.Gate,
			Checks: []spec.Check{{Expression: "metrics.accuracy >= 0.7", Verdict: spec.VerdictFail, Values: map[string]any{"metrics.accuracy": 0.6916891}}},
		},
		{Step: "tell", Kind: spec.KindRun, Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"metrics": {"accuracy": 0.6916891}}`)},
	}
	var b bytes.Buffer
	if err := (Theme{}).Summary(&b, Summary{Steps: steps}, noon); err != nil {
		t.Fatal(err)
	}
	if got := b.String(); strings.Count(got, "0.691689") != 3 || strings.Contains(got, "0.6917") {
		t.Errorf("got:\n%s", got)
	}
}
