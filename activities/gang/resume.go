package gang

import (
	"cmp"
	"context"
	"errors"
	"strconv"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// resumeFrom finds the checkpoint that a step names, or nil, and refuses what the gang that is planned could not resume from: nothing has
// been bought yet.
func (t *Trainings) resumeFrom(ctx context.Context, sp spec.Train, plan contract.TrainPlan) (*checkpoint.Manifest, error) {
	if sp.Checkpoint.FixedSize() && plan.MinNodes != plan.MaxNodes { // the linter does not see through expressions
		return nil, fault.Errorf(fault.Invalid, "it may train on %d to %d nodes, but sharded checkpoints can only be resumed from on the number of nodes that "+
			"wrote them: use one number, or `reshard: true` if the program can load the parts of another number of nodes", plan.MinNodes, plan.MaxNodes)
	}
	if sp.ResumeFrom == "" {
		return nil, nil
	}
	m, err := checkpoint.Find(ctx, t.Store, sp.ResumeFrom)
	if errors.Is(err, checkpoint.ErrNone) || errors.Is(err, checkpoint.ErrDamaged) {
		return nil, fault.New(fault.Invalid, "`resume_from`: "+err.Error()+": `sluice checkpoint ls` lists those there are", err)
	} else if err != nil {
		return nil, err
	}
	return m, fits(m, sp, plan)
}

// fits is an error if a gang cannot resume from a checkpoint.
func fits(m *checkpoint.Manifest, sp spec.Train, plan contract.TrainPlan) error {
	layout := cmp.Or(sp.Checkpoint.Layout, spec.LayoutFolder)
	if format := formats[m.Layout]; format != formats[layout] {
		return fault.Errorf(fault.Invalid, "`resume_from`: %s/%s@%d was written with `layout: %s`, and this step has `layout: %s`: use the same layout",
			m.Run, m.Training, m.Step, m.Layout, layout)
	}
	if m.Layout == spec.LayoutSharded && !m.Reshard && !sp.Checkpoint.Reshard && (m.Nodes != plan.MinNodes || m.Nodes != plan.MaxNodes) {
		return fault.Errorf(fault.Invalid, "`resume_from`: %s/%s@%d is sharded and was written by %d nodes, and this step trains on %s: use `nodes: %d`, or "+
			"`checkpoint: {reshard: true}` if the program can load the parts of another number of nodes",
			m.Run, m.Training, m.Step, m.Nodes, span(plan.MinNodes, plan.MaxNodes), m.Nodes)
	}
	return nil
}

// formats says which layouts look the same to a program that resumes: a folder as the program wrote it.
var formats = map[string]string{
	spec.LayoutFolder: "folder", spec.LayoutSharded: "folder", spec.LayoutHuggingFace: spec.LayoutHuggingFace, spec.LayoutLightning: spec.LayoutLightning,
}

// span is a number of nodes, or a range of them.
func span(low, high int) string {
	if low == high {
		return strconv.Itoa(low)
	}
	return strconv.Itoa(low) + " to " + strconv.Itoa(high)
}
