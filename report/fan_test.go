package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

// TestFan: instances are listed with what they are about, decisions with who made them, and the parts of the graph have names.
func TestFan(t *testing.T) {
	noon := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	end := noon.Add(time.Minute)
	step := func(id string, kind spec.Kind, status spec.Status) record.StepRecord {
		return record.StepRecord{Step: id, Kind: kind, Status: status, StartedAt: noon, EndedAt: end}
	}
	fit := step("fit", spec.KindTrain, spec.StatusSucceeded)
	fit.Of, fit.Passed, fit.Summary, fit.Outputs = 40, 39, "39 of 40 passed", json.RawMessage(`[{"index": 0}]`)
	mail := step("mail", spec.KindRun, spec.StatusSucceeded)
	mail.Decision = &record.Decision{Approved: true, By: "user:ann", At: noon, Reason: "few <today>"}
	sign := step("sign", spec.KindApproval, spec.StatusFailed)
	sign.Outputs = json.RawMessage(`{"by": "user:bob", "at": "2026-03-14T12:00:30Z", "reason": "too slow", "tier": "gold"}`)
	failed := step("fit", spec.KindTrain, spec.StatusFailed)
	failed.Index, failed.Matrix, failed.Error = 3, json.RawMessage(`{"arch": "cnn"}`), "it diverged\nbadly"
	failed.Attempts = []record.Attempt{{StartedAt: noon, EndedAt: end, ErrorType: fault.Preempted, Error: "the node was taken away"}}
	good, better := step("fit", spec.KindTrain, spec.StatusSucceeded), step("fit", spec.KindTrain, spec.StatusSucceeded)
	good.Index, good.Outputs = 0, json.RawMessage(`{"metrics": {"f1": 0.5, "loss": 0.25}, "steps": 40, "model": {"type": "model"}}`)
	better.Index, better.Outputs = 1, json.RawMessage(`{"metrics": {"f1": 0.75, "loss": 0.125}, "steps": 40}`)
	page := render(t, Data{
		Run: record.RunRecord{
			Run: "spam-1", Pipeline: "spam", Status: spec.StatusFailed, StartedAt: noon, EndedAt: end, CostUSD: 1.5,
			Reuse: record.Reuse{From: "spam-0"}, Trigger: spec.TriggerFacts{Name: "nightly"},
			Graph: []spec.Node{
				{ID: "mail", Kind: spec.KindRun},
				{ID: "fit", Kind: spec.KindTrain, Fan: spec.FanMatrix, After: []string{"mail"}},
				{ID: "sign", Kind: spec.KindApproval, After: []string{"fit"}},
				{ID: "page", Kind: spec.KindRun, Section: spec.SectionOnFailure},
			},
		},
		Steps:     []record.StepRecord{mail, fit, sign, step("page", spec.KindRun, spec.StatusSucceeded)},
		Instances: map[string]Instances{"fit": {Records: []record.StepRecord{failed, good, better}, Total: 40}},
		Now:       end,
	})
	seen := text(t, page)
	for _, want := range []string{
		"reruns spam-0", "started by nightly", "$1.50", "train ×40", "on_failure", "39 of 40 passed",
		"fit.3 arch = cnn failed 1m 00s it diverged preempted: the node was taken away", "and 37 more",
		"of those that passed: f1 largest of fit.1 (0.75), smallest of fit.0 (0.5); loss largest of fit.0 (0.25), smallest of fit.1 (0.125)",
		"mail approved user:ann", "few <today>", "sign rejected user:bob", "too slow tier = gold",
	} {
		if !strings.Contains(seen, want) {
			t.Errorf("no %q in\n%s", want, seen)
		}
	}
}

// The gate of a step with instances is theirs: it is drawn as passed where all of them passed.
func TestGateOfFan(t *testing.T) {
	for passed, want := range map[int]string{2: "", 3: "pass"} {
		got := newNode(spec.Node{ID: "fit", HasGate: true}, record.StepRecord{Step: "fit", Of: 3, Passed: passed}, xy{}, Data{})
		if got.Gate != want {
			t.Errorf("with %d of 3 passed the gate is %q, want %q", passed, got.Gate, want)
		}
	}
}
