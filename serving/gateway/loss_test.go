package gateway

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/stats"
)

// TestLosses: during a rollout, answers of both releases are compared with labels as the candidate's release says.
func TestLosses(t *testing.T) {
	b := newBench(t, 0)
	doc := b.route(t, nil, weightedBehaviour{"1", "echo", 1}, weightedBehaviour{"2", "echo", 0})
	doc.Candidate, doc.Stable, doc.Shadow = "2", "1", &routing.Shadow{Version: "2", Share: 1}
	doc.Releases[1].Compare, doc.Releases[1].LossBound = []spec.Compare{{Output: "y", Rule: spec.CompareTolerance, ATol: 1}}, 2
	doc, err := routing.Set(t.Context(), b.store, doc.Revision, doc)
	if err != nil {
		t.Fatal(err)
	}
	b.Poke()
	b.untilServing(t, doc.Revision)
	for label, status := range map[string]int{`1.25`: 200, `-100`: 200, `"x"`: 400, `null`: 200} {
		body := strings.Replace(request, `{`, `{"parameters":{"label":`+label+`},`, 1)
		if w := b.do(http.MethodPost, inferPath, body); w.Code != status {
			t.Errorf("label %s: %d %s, want %d", label, w.Code, w.Body, status)
		}
	}
	counts := b.Stats().At(doc.Revision).Versions["1"]
	if diff := cmp.Diff(stats.Losses{N: 2, Sum: 1.25, Squares: 1.0625}, counts.Losses); diff != "" {
		t.Errorf("losses of 0.75 against 1.25 and -100, at most 2 (-want +got):\n%s", diff)
	}
	if counts.Requests != 3 || counts.Wrong != 1 || counts.Labelled != 2 || counts.Refused != 1 {
		t.Errorf("counts %+v", counts)
	}
	b.until(t, func() bool { s := b.Stats().At(doc.Revision).Shadow; return s != nil && s.Samples == 3 })
	shadow := b.Stats().At(doc.Revision).Shadow
	if want := (stats.PairedLosses{N: 2, Candidate: 1.25, Stable: 1.25}); shadow.Losses != want || shadow.Agree != 3 {
		t.Errorf("mirrored: %+v, want losses %+v and agreement", shadow, want)
	}
}
