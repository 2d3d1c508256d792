package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
)

// A step's record is read by the steps after it. Waiting for the disk at each would take a third of the time of a chain of short
// steps, and is not needed: what the record is made of is in history. So records are written without waiting, are made durable
// together before anybody relies on the store alone, and are made again when the machine has died in between.

// sync makes the records of the steps that have ended durable.
func (r *run) sync(ctx workflow.Context) {
	if len(r.unsynced) == 0 {
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	in := contract.SyncInput{Run: r.in.Run}
	for _, end := range r.unsynced {
		in.Steps = append(in.Steps, end.Step)
	}
	summary := "make the records durable"
	err := local(ctx, contract.SyncActivity, summary, in, nil)
	if contract.ErrorType(err) == contract.ErrLost {
		r.restore(ctx)
		err = local(ctx, contract.SyncActivity, summary, in, nil)
	}
	if err != nil {
		workflow.GetLogger(ctx).Error("records are not durable yet", "error", err)
		return
	}
	r.unsynced = r.unsynced[:0]
}

// restore makes records again that are not there.
func (r *run) restore(ctx workflow.Context) {
	in := contract.RestoreInput{Ends: r.unsynced}
	if err := local(ctx, contract.RestoreActivity, "make lost records again", in, nil); err != nil {
		workflow.GetLogger(ctx).Error("records were not made again", "error", err)
	}
}

// lookup runs a local activity that reads the records of earlier steps.
func (j *job) lookup(ctx workflow.Context, name, summary string, in, out any) error {
	err := local(ctx, name, summary, in, out)
	if contract.ErrorType(err) != contract.ErrLost || j.restore == nil {
		return err
	}
	j.restore(ctx)
	return local(ctx, name, summary, in, out)
}
