package rollout

import (
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/rollout"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/stats"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// TestUnopenedCandidateIsUnloaded: what a rollout that was not opened has left behind goes, and nothing else.
func TestUnopenedCandidateIsUnloaded(t *testing.T) {
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	model := artifact.Ref{Type: artifact.Model, Digest: "sha256:x"}
	doc := routing.Document{Target: "t", Versions: 2, Releases: []routing.Release{
		{Version: "1", Model: model, Run: "r1", Step: "ship", Weight: 1}, {Version: "2", Model: model, Run: "r2", Step: "ship"},
	}}
	if _, err := routing.Set(t.Context(), s, 0, doc); err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(spec.Rollout{Target: "t", Model: model})
	if err != nil {
		t.Fatal(err)
	}
	rollouts := &Rollouts{Store: s}
	settle := func(run string) {
		in := contract.RolloutSettle{Step: record.StepInput{Run: run, Step: "ship", Kind: spec.KindRollout, Spec: raw}, Reason: "it could not be loaded"}
		if _, err := rollouts.Settle(t.Context(), in); err != nil {
			t.Fatal(err)
		}
	}
	settle("r2")
	settle("r2") // tried again
	settle("r1") // which serves, so it is no candidate
	releases, err := routing.Releases(t.Context(), s, "t")
	if err != nil {
		t.Fatal(err)
	}
	type row struct {
		Version string
		State   routing.State
		End     string
		Reason  string
	}
	var got []row
	for _, r := range releases {
		got = append(got, row{r.Version, r.State, r.End.Decision, r.End.Reason})
	}
	want := []row{{"2", routing.Gone, routing.RolledBack, "it could not be loaded"}, {"1", routing.Serving, "", ""}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}
	if now, err := routing.Current(t.Context(), s, "t"); err != nil || now.Revision != 2 {
		t.Errorf("the document is at revision %d, %v; want 2", now.Revision, err)
	}
}

// TestStickyStage: what a rollout says of sticky traffic gets into the routing document, and its stages are judged by key.
func TestStickyStage(t *testing.T) {
	doc := routing.Document{Target: "t", Versions: 2, Releases: []routing.Release{{Version: "1", Weight: 1}, {Version: "2"}}}
	in := contract.RolloutTraffic{Step: record.StepInput{Run: "r", Step: "ship"}, Version: "2", Weight: 0.001}
	want := gateway.Split{Weights: map[string]float64{"1": 0.999, "2": 0.001}, Candidate: "2", Stable: "1", By: "r/ship"}
	if diff := cmp.Diff(want, splitOf(doc, in, spec.Rollout{})); diff != "" {
		t.Errorf("without (-want +got):\n%s", diff)
	}
	for sticky, want := range map[spec.Sticky]routing.Sticky{{Header: "X-User"}: {Header: "X-User"}, {Field: "user"}: {Field: "user"}} {
		rolled := spec.Rollout{Sticky: sticky}
		if got := splitOf(doc, in, rolled).Sticky; got == nil || *got != want {
			t.Errorf("%+v became %+v", sticky, got)
		}
		if !stageOf(contract.RolloutLook{Version: "2", Previous: "1"}, rolled).Keyed {
			t.Errorf("a stage of %+v is judged by request", sticky)
		}
	}
	if stageOf(contract.RolloutLook{Version: "2", Previous: "1"}, spec.Rollout{}).Keyed {
		t.Error("a stage whose traffic is not sticky is judged by key")
	}
}

// TestEvidence: what is exported of a stage is the evidence of each test that it has, with the limit of that test.
func TestEvidence(t *testing.T) {
	state := rollout.State{Errors: stats.ErrorEvidence{Stage: math.Log(4)}, Loss: stats.LossEvidence{Stage: math.Log(9)}}
	stage := rollout.Stage{Candidate: "2", Stable: "1", Tests: spec.Tests{Errors: spec.ErrorTest{Alpha: 0.05}, Loss: &spec.LossTest{Bound: 5}}}
	exported := func(stage rollout.Stage) map[string]string {
		all := map[string]string{}
		for _, s := range evidenceOf("t", stage, state) {
			all[s.Metric.Name+" "+strings.Join(s.Labels, " ")] = fmt.Sprintf("%.4g", s.Value)
		}
		return all
	}
	want := map[string]string{
		"sluice_rollout_e_value t 2 errors": "4", "sluice_rollout_e_value_limit t 2 errors": "20",
		"sluice_rollout_e_value t 2 loss": "9", "sluice_rollout_e_value_limit t 2 loss": "100",
	}
	if diff := cmp.Diff(want, exported(stage)); diff != "" {
		t.Errorf("with a loss test (-want +got):\n%s", diff)
	}
	stage.Tests.Loss = nil
	if got := exported(stage); len(got) != 2 || got["sluice_rollout_e_value t 2 errors"] != "4" {
		t.Errorf("without a loss test: %v", got)
	}
	stage.Stable = ""
	if got := exported(stage); len(got) != 0 {
		t.Errorf("of a first release: %v", got)
	}
}
