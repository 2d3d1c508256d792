package embedded

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"testing"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
	"github.com/sluiceml/sluice/serving/rollout"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/servingtest"
)

// TestARolloutOverTwoGateways: workers on two machines have a gateway each for one target, and looks at a stage fall on either. Every
// request is counted once, whichever gateway answered it and however often the looks change sides.
func TestARolloutOverTwoGateways(t *testing.T) {
	s := servingtest.NewStore(t)
	var targets []*gateway.Target
	for range 2 {
		server := serve(t, s, gateway.Ports{})
		t.Cleanup(func() { servingtest.Stop(t, server) })
		target := gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL())
		targets = append(targets, target)
	}
	doc := routing.Document{Target: servingtest.Name}
	for _, model := range []string{onnxtest.Text, onnxtest.TextClose} {
		ref, err := s.PutTree(t.Context(), artifact.Model, onnxtest.Folder(t, model), nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		if doc, _, err = targets[0].Load(t.Context(), doc.Revision, routing.Release{Model: ref, Run: model, Step: "ship"}, nil); err != nil {
			t.Fatal(err)
		}
	}
	revision := doc.Revision
	for _, target := range targets { // the second order finds it done, and waits for its own gateway
		var err error
		if doc, err = target.SetTraffic(t.Context(), revision, gateway.Split{Weights: map[string]float64{"1": 0.5, "2": 0.5}}); err != nil {
			t.Fatal(err)
		}
	}

	stage := rollout.Stage{
		Spec: spec.Stage{Weight: 0.5, MinSamples: 1 << 40, MaxWait: spec.Duration(time.Hour)}, Of: 1, Candidate: "2", Stable: "1", Revision: doc.Revision,
	}
	var state rollout.State
	sent := int64(0)
	for i, at := range []int{0, 1, 0, 1, 0, 0, 1} {
		for range i + 1 {
			infer(t, targets[at])
			sent++
		}
		looker := targets[i%2] // either worker may look
		got := int64(-1)
		for range poll.Every(t.Context(), 20*time.Millisecond) { // until both have reported
			now, err := looker.Stats(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			var look spec.Look
			state, look, _ = rollout.EvaluateStage(stage, state, now, nil)
			if got = look.Candidate.Requests + look.Stable.Requests; got >= sent {
				break
			}
		}
		if got != sent {
			t.Fatalf("the rollout was judged on %d requests; %d were answered", got, sent)
		}
	}
}

func infer(t *testing.T, target *gateway.Target) {
	t.Helper()
	body, err := json.Marshal(map[string]any{
		"inputs": []map[string]any{{"name": "text", "shape": []int{1}, "datatype": "BYTES", "data": []string{"spam"}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	res, err := client.Post(fmt.Sprintf("%s/v2/models/%s/infer", target.URL(), servingtest.Name), "application/json", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if res.StatusCode != http.StatusOK {
		t.Fatal(res.Status)
	}
}
