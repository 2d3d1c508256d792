package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/workflows/durable"
)

// A step's record is read by the steps after it. Waiting for the disk at each would take a third of the time of a chain of short
// steps, and is not needed: what the record is made of is in history. So records are written without waiting, are made durable
// together before anybody relies on the store alone, and are made again when the machine has died in between. A step that was evaluated
// where it was done has no record yet: whatever activity comes next writes it along the way.

// journal holds the ends of jobs whose records are not durable yet.
type journal struct {
	run  string
	ends []contract.StepEnd
	// unwritten are those of ends whose records nobody was asked to write.
	unwritten []contract.StepEnd
}

// add takes an end; written says whether its record has been.
func (l *journal) add(end contract.StepEnd, written bool) {
	l.ends = append(l.ends, end)
	if !written {
		l.unwritten = append(l.unwritten, end)
	}
}

// takeUnwritten returns the ends whose records are to be written by who is asked to do something now.
func (l *journal) takeUnwritten() []contract.StepEnd {
	if l == nil {
		return nil
	}
	ends := l.unwritten
	l.unwritten = nil
	return ends
}

// write has records written when nobody is asked to do anything that could write them along the way. Where that fails, sync tries again.
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

// sync makes the records durable. Whoever would rely on the store alone must not go on when it fails.
func (l *journal) sync(ctx workflow.Context) error {
	if len(l.ends) == 0 {
		return nil
	}
	l.write(ctx)
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	in := contract.SyncInput{Run: l.run}
	for _, end := range l.ends {
		in.Ends = append(in.Ends, end.StepRef)
	}
	summary := "make the records durable"
	err := durable.Local(ctx, contract.SyncActivity, summary, in, nil)
	if fault.TypeOf(err) == fault.Lost {
		if err = l.restore(ctx); err == nil {
			err = durable.Local(ctx, contract.SyncActivity, summary, in, nil)
		}
	}
	if err != nil {
		return fault.New(fault.Infrastructure, "the records of its steps could not be made durable: "+fault.Message(err), nil)
	}
	l.ends = l.ends[:0]
	return nil
}

// restore makes records again that are not there.
func (l *journal) restore(ctx workflow.Context) error {
	return durable.Local(ctx, contract.RecordActivity, "recreate lost records", contract.RecordInput{Ends: l.ends}, nil)
}

// lookup runs a local activity that reads the records of earlier steps.
func (j *job) lookup(ctx workflow.Context, name, summary string, in, out any) error {
	err := durable.Local(ctx, name, summary, in, out)
	if fault.TypeOf(err) != fault.Lost || j.journal == nil {
		return err
	}
	if err := j.journal.restore(ctx); err != nil {
		return err
	}
	return durable.Local(ctx, name, summary, in, out)
}
