package engine

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// unfinished finds the checkpoint that a step goes on from: the last of the run that is done again, where that did the same and did not
// finish it, or of one before that. The key holds all that the step is given, so a checkpoint is not resumed by another program, nor with
// other data. Nil is none.
func (e *Engine) unfinished(ctx context.Context, node spec.Node, in contract.ResolveInput, key string) (*checkpoint.Manifest, error) {
	if !kinds[node.Kind].resumes || node.Section != spec.SectionMain || in.Reuse.From == "" || slices.Contains(in.Reuse.Again, in.Step) {
		return nil, nil
	}
	at := in.StepRef
	at.Run = in.Reuse.From
	var rec record.StepRecord
	switch err := e.Store.GetJSON(ctx, record.Key(at), &rec); {
	case errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt):
		return nil, nil
	case err != nil:
		return nil, err
	case rec.Key != key || rec.Status == spec.StatusSucceeded:
		return nil, nil
	}
	if finished, err := e.finished(ctx, rec); finished || err != nil {
		return nil, err
	}
	return checkpoint.NewestOf(ctx, e.Store, at.Run, at.ID(), nil)
}

// finished reports whether a training was done, and failed for its gate, say: to go on would make the same model.
func (e *Engine) finished(ctx context.Context, rec record.StepRecord) (bool, error) {
	raw, err := record.LoadOutputs(ctx, e.Store, record.StepOutput{Outputs: rec.Outputs, OutputsRef: rec.OutputsRef})
	if err != nil || raw == nil {
		return false, err
	}
	var trained spec.TrainOutput
	if err := json.Unmarshal(raw, &trained); err != nil {
		return false, err
	}
	n := len(trained.Generations)
	return n > 0 && trained.Generations[n-1].End == spec.EndFinished, nil
}
