package engine

import (
	"context"
	"slices"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// unfinished finds the checkpoint that a step goes on from: the last of the run that is done again, where that did the same and did not
// succeed, or of one before that. The key holds all that the step is given, so a checkpoint is not resumed by another program, nor with
// other data. Where the gate failed the training was done, and to go on would make the same model. Nil is none.
func (e *Engine) unfinished(ctx context.Context, node spec.Node, in contract.ResolveInput, key string) (*checkpoint.Manifest, error) {
	if !kindOf(node).resumes || node.Section != spec.SectionMain || in.Reuse.From == "" || slices.Contains(in.Reuse.Again, in.Step) {
		return nil, nil
	}
	at := in.StepRef
	at.Run = in.Reuse.From
	rec, err := e.madeFrom(ctx, at, key)
	if err != nil || rec.Key == "" || rec.Status == spec.StatusSucceeded || rec.ErrorType == fault.Gate {
		return nil, err
	}
	return checkpoint.NewestOf(ctx, e.Store, at.Run, at.ID(), nil)
}
