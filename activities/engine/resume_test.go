package engine

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// TestUnfinished: only a training that did the same and did not finish is gone on with, and only where the run is done again.
//
// promise: docs/training.md#p-rerun-goes-on
// promise: docs/training.md#p-rerun-anew
func TestUnfinished(t *testing.T) {
	b := newBenchIn(t, "steps: {fit: {train: {command: [fit]}}}", document.File{
		Name: "e.yaml", Source: []byte("sluice: environment/v1\nname: lab\npools: {local: {local: {nodes: 1}}}\n"),
	})
	b.begin("r1")
	resolved, err := b.engine.Resolve(t.Context(), b.at("r1", "fit"))
	if err != nil {
		t.Fatal(err)
	}
	key := training.Key{Run: "r1", Step: "fit", Generation: 1}
	if _, err := checkpoint.MakeSeal(t.Context(), b.engine.Store, key, "", nil); err != nil {
		t.Fatal(err)
	}
	part := checkpoint.Part(b.engine.Store, key, 7)
	m := checkpoint.Manifest{Generation: 1, Step: 7}
	if m.Metrics, _, err = part.PutBlob(t.Context(), strings.NewReader("")); err != nil {
		t.Fatal(err)
	}
	if m.Checkpoint, err = part.PutTree(t.Context(), artifact.Checkpoint, t.TempDir(), nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := checkpoint.Commit(t.Context(), b.engine.Store, key, m); err != nil {
		t.Fatal(err)
	}
	outputs := func(end spec.GenerationEnd) record.StepOutput {
		raw, err := json.Marshal(spec.TrainOutput{Generations: []spec.Generation{{Index: 1, End: end}}})
		if err != nil {
			t.Fatal(err)
		}
		return record.StepOutput{Outputs: raw}
	}
	again := record.Reuse{From: "r1"}
	for name, tt := range map[string]struct {
		status spec.Status
		key    string
		output record.StepOutput
		reuse  record.Reuse
		want   string
	}{
		"failed":              {spec.StatusFailed, resolved.Key, outputs(spec.EndUserError), again, "r1"},
		"canceled":            {spec.StatusCanceled, resolved.Key, outputs(spec.EndCanceled), again, "r1"},
		"left no account":     {spec.StatusFailed, resolved.Key, record.StepOutput{}, again, "r1"},
		"its gate failed":     {spec.StatusFailed, resolved.Key, outputs(spec.EndFinished), again, ""},
		"it did another":      {spec.StatusFailed, "other", outputs(spec.EndUserError), again, ""},
		"not done again":      {spec.StatusFailed, resolved.Key, outputs(spec.EndUserError), record.Reuse{}, ""},
		"from the beginning":  {spec.StatusFailed, resolved.Key, outputs(spec.EndUserError), record.Reuse{From: "r1", Again: []string{"fit"}}, ""},
		"another run's again": {spec.StatusFailed, resolved.Key, outputs(spec.EndUserError), record.Reuse{From: "r0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			end := contract.StepEnd{
				StepRef: record.StepRef{Run: "r1", Submission: b.submission, Step: "fit", Now: b.began}, Kind: spec.KindTrain,
				Status: tt.status, Key: tt.key, Output: tt.output, EndedAt: b.began,
			}
			if _, err := b.engine.Verdict(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			b.begin("r2")
			in := b.at("r2", "fit")
			in.Reuse = tt.reuse
			got, err := b.engine.Resolve(t.Context(), in)
			if err != nil || got.Hit != "" || got.Step.ResumeRun != tt.want {
				t.Errorf("goes on from %q (%q, %v), want %q", got.Step.ResumeRun, got.Hit, err, tt.want)
			}
		})
	}
}
