package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/workflows/durable"
)

// The record of a step is read by later steps. Waiting for the disk after each step would take a third of the time of a chain of short
// steps, and is unnecessary, because history contains everything that a record is made of. Records are therefore written asynchronously,
// made durable together before anything relies on the store alone, and written again if the machine crashed in between. A step that was
// evaluated by the activity that executed it has no record yet: the next activity of the run writes it.

// journal holds the ends of jobs whose records are not durable yet.
type journal struct {
	run  string
	ends []contract.StepEnd
	// synced is how many ends there were before those.
	synced int
	// unwritten are the ends whose records no activity has been asked to write yet.
	unwritten []contract.StepEnd
}

// add adds an end; written says whether its record has been written.
func (l *journal) add(end contract.StepEnd, written bool) {
	l.ends = append(l.ends, end)
	if !written {
		l.unwritten = append(l.unwritten, end)
	}
}

// takeUnwritten returns the ends whose records the next activity must write.
func (l *journal) takeUnwritten() []contract.StepEnd {
	if l == nil {
		return nil
	}
	ends := l.unwritten
	l.unwritten = nil
	return ends
}

// write writes records when no other activity follows that could do so. If it fails, sync tries again.
func (l *journal) write(ctx workflow.Context) {
	ends := l.takeUnwritten()
	if len(ends) == 0 {
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if err := durable.Local(ctx, contract.RecordActivity, "write records", contract.RecordInput{Ends: ends}, nil); err != nil {
		workflow.GetLogger(ctx).Warn("records have not been written yet", "error", err)
	}
}

// sync makes the records durable. If it fails, the caller must not continue with anything that relies on the store alone.
func (l *journal) sync(ctx workflow.Context) error {
	if l == nil || len(l.ends) == 0 {
		return nil
	}
	l.write(ctx)
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	in, upTo := contract.SyncInput{Run: l.run}, l.synced+len(l.ends)
	for _, end := range l.ends { // others may end meanwhile, and sync
		in.Ends = append(in.Ends, end.StepRef)
	}
	if err := l.local(ctx, contract.SyncActivity, "make the records durable", in, nil); err != nil {
		return fault.New(fault.Infrastructure, "the records of its steps could not be made durable: "+fault.Message(err), nil)
	}
	if upTo > l.synced {
		l.ends, l.synced = l.ends[upTo-l.synced:], upTo
	}
	return nil
}

// local runs a local activity that needs the records of earlier steps, once more if some were missing and had to be written again.
func (l *journal) local(ctx workflow.Context, name, summary string, in, out any) error {
	err := durable.Local(ctx, name, summary, in, out)
	if fault.TypeOf(err) != fault.Lost || l == nil {
		return err
	}
	if err := durable.Local(ctx, contract.RecordActivity, "recreate lost records", contract.RecordInput{Ends: l.ends}, nil); err != nil {
		return err
	}
	return durable.Local(ctx, name, summary, in, out)
}
