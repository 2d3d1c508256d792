package engine

import (
	"cmp"
	"context"
	"errors"
	"path"
	"slices"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// Child makes the run of a child pipeline: what it is submitted with, and its graph. Asked again, it says the same again.
func (e *Engine) Child(ctx context.Context, in contract.ChildInput) (contract.RunInput, error) {
	sub, err := e.Submission(ctx, in.Submission)
	if err != nil {
		return contract.RunInput{}, err
	}
	asked, err := record.LoadSpec[spec.ChildPipeline](ctx, e.Store, in.StepInput)
	if err != nil {
		return contract.RunInput{}, err
	}
	child := record.Submission{
		File: in.Step + ".yaml", EnvFile: sub.EnvFile, Environment: sub.Environment, Values: asked.Params, Workspace: sub.Workspace, Python: sub.Python,
		Parents: slices.Clone(sub.Parents), Inline: true,
	}
	if !sub.Inline {
		child.Parents = append(child.Parents, sub.File)
	}
	if child.Values == nil {
		child.Values = map[string]any{}
	}
	file, source := asked.Document()
	if child.Pipeline = source; file != "" {
		child.File, child.Inline = path.Clean(file), false
		if child.Pipeline, err = (&workspace{ctx: ctx, store: e.Store, ref: sub.Workspace}).ReadFile(file); err != nil {
			return contract.RunInput{}, fault.New(fault.Invalid, "the child pipeline "+file+" cannot be read: "+err.Error(), err)
		}
	}
	digest, err := record.WriteBlob(ctx, e.Store, child)
	if err != nil {
		return contract.RunInput{}, err
	}
	compiled, err := e.Submission(ctx, digest)
	if err != nil {
		return contract.RunInput{}, err
	}
	above, err := e.record(ctx, in.Run)
	if err != nil {
		return contract.RunInput{}, err
	}
	step, _ := record.SplitStep(in.Step)
	isMain := above.nodes[step].Section == spec.SectionMain // else it is done in every run, all of it
	noCache, err := e.withoutCache(ctx, in.Reuse, step)
	if err != nil {
		return contract.RunInput{}, err
	}
	run := contract.RunInput{
		Run: record.ChildRun(in.Run, in.Step, in.Attempt), Name: compiled.Program.Pipeline().Name, Submission: digest,
		Graph: compiled.Program.Graph(), BudgetUSD: in.BudgetUSD,
		Reuse:  record.Reuse{NoCache: noCache || !isMain},
		Parent: record.Parent{Run: in.Run, Step: in.Step, Python: in.Python, Needs: in.Needs},
	}
	run.Reuse.From, err = e.earlierChild(ctx, in, step, isMain)
	return run, err
}

// earlierChild names the run of a child pipeline whose finished steps this one takes over: that of the attempt before, or of the run
// that is done again.
func (e *Engine) earlierChild(ctx context.Context, in contract.ChildInput, step string, isMain bool) (child string, err error) {
	switch {
	case in.Attempt > 1:
		return record.ChildRun(in.Run, in.Step, in.Attempt-1), nil
	case !isMain:
		return "", nil
	}
	at := contract.ResolveInput{StepRef: record.StepRef{Step: step}, Reuse: in.Reuse}
	err = e.earlier(ctx, at, func(at record.StepRef) (begun bool, err error) {
		child, err = NewestChild(ctx, e.Store, at.Run, in.Step)
		return child != "", err
	})
	return child, err
}

// NewestChild names the run of the last attempt of a step, or an instance, of kind pipeline; empty when none has begun.
func NewestChild(ctx context.Context, s *store.Store, run, step string) (newest string, err error) {
	for attempt := 1; ; attempt++ {
		child := record.ChildRun(run, step, attempt)
		switch err := s.GetJSON(ctx, record.RunKey(child), &record.RunRecord{}); {
		case errors.Is(err, store.ErrNotFound):
			return newest, nil
		case err != nil:
			return "", err
		}
		newest = child
	}
}

// NameChild fills in the ChildRun of a step's record, where the step is of kind pipeline and a child has begun. id names the step, or the
// instance of one, of the run.
func NameChild(ctx context.Context, s *store.Store, run, id string, step *record.StepRecord) (err error) {
	if kinds[step.Kind].isRun && step.Of == 0 {
		step.ChildRun, err = NewestChild(ctx, s, cmp.Or(step.ReusedFrom, run), id)
	}
	return err
}
