package engine

import (
	"strings"
	"testing"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
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
	again := record.Reuse{From: "r1"}
	for name, tt := range map[string]struct {
		status    spec.Status
		errorType string
		key       string
		reuse     record.Reuse
		want      string
	}{
		"failed":                 {spec.StatusFailed, fault.User, resolved.Key, again, "r1"},
		"canceled":               {spec.StatusCanceled, fault.Canceled, resolved.Key, again, "r1"},
		"missed its deadline":    {spec.StatusFailed, fault.Timeout, resolved.Key, again, "r1"},
		"its outputs were lost":  {spec.StatusFailed, fault.Infrastructure, resolved.Key, again, "r1"},
		"its gate failed":        {spec.StatusFailed, fault.Gate, resolved.Key, again, ""},
		"its gate declined":      {spec.StatusDeclined, fault.Gate, resolved.Key, again, ""},
		"it did something else":  {spec.StatusFailed, fault.User, "other", again, ""},
		"not a rerun":            {spec.StatusFailed, fault.User, resolved.Key, record.Reuse{}, ""},
		"from the beginning":     {spec.StatusFailed, fault.User, resolved.Key, record.Reuse{From: "r1", Again: []string{"fit"}}, ""},
		"a rerun of another run": {spec.StatusFailed, fault.User, resolved.Key, record.Reuse{From: "r0"}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			end := contract.StepEnd{
				StepRef: record.StepRef{Run: "r1", Submission: b.submission, Step: "fit", Now: b.began}, Kind: spec.KindTrain,
				Status: tt.status, Error: "it failed", ErrorType: tt.errorType, Key: tt.key, EndedAt: b.began,
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
