package report

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

// TestFan: instances are listed with what they are about, decisions with who made them, and the parts of the graph have names.
func TestFan(t *testing.T) {
	noon := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	end := noon.Add(time.Minute)
	step := func(id string, kind dsl.Kind, status dsl.Status) contract.StepRecord {
		return contract.StepRecord{Step: id, Kind: kind, Status: status, StartedAt: noon, EndedAt: end}
	}
	fit := step("fit", dsl.KindTrain, dsl.StatusSucceeded)
	fit.Of, fit.Passed, fit.Summary, fit.Outputs = 40, 39, "39 of 40 passed", json.RawMessage(`[{"index": 0}]`)
	mail := step("mail", dsl.KindRun, dsl.StatusSucceeded)
	mail.Decision = &contract.Decision{Approved: true, By: "user:ann", At: noon, Reason: "few <today>"}
	sign := step("sign", dsl.KindApproval, dsl.StatusFailed)
	sign.Outputs = json.RawMessage(`{"by": "user:bob", "at": "2026-03-14T12:00:30Z", "reason": "too slow", "tier": "gold"}`)
	failed := step("fit", dsl.KindTrain, dsl.StatusFailed)
	failed.Index, failed.Matrix, failed.Error = 3, json.RawMessage(`{"arch": "cnn"}`), "it diverged\nbadly"
	failed.Attempts = []contract.Attempt{{StartedAt: noon, EndedAt: end, ErrorType: contract.ErrPreempted, Error: "the node was taken away"}}
	page := render(t, Data{
		Run: contract.RunRecord{
			Run: "spam-1", Pipeline: "spam", Status: dsl.StatusFailed, StartedAt: noon, EndedAt: end, CostUSD: 1.5,
			Reuse: contract.Reuse{From: "spam-0"}, Trigger: dsl.TriggerFacts{Name: "nightly"},
			Graph: []dsl.Node{
				{ID: "mail", Kind: dsl.KindRun},
				{ID: "fit", Kind: dsl.KindTrain, Fan: dsl.FanMatrix, After: []string{"mail"}},
				{ID: "sign", Kind: dsl.KindApproval, After: []string{"fit"}},
				{ID: "page", Kind: dsl.KindRun, Section: dsl.SectionOnFailure},
			},
		},
		Steps:     []contract.StepRecord{mail, fit, sign, step("page", dsl.KindRun, dsl.StatusSucceeded)},
		Instances: map[string]Instances{"fit": {Records: []contract.StepRecord{failed}, Total: 40}},
		Now:       end,
	})
	seen := text(t, page)
	for _, want := range []string{
		"reruns spam-0", "started by nightly", "$1.50", "train ×40", "on_failure", "39 of 40 passed",
		"fit.3 arch = cnn failed 1m 00s it diverged preempted: the node was taken away", "and 39 more",
		"mail approved user:ann", "few <today>", "sign rejected user:bob", "too slow tier = gold",
	} {
		if !strings.Contains(seen, want) {
			t.Errorf("no %q in\n%s", want, seen)
		}
	}
}
