package engine

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// Sync makes the records durable that Verdict wrote without waiting for the disk. It fails with a fault of type lost if one of them is
// missing.
func (e *Engine) Sync(ctx context.Context, in contract.SyncInput) error {
	e.behind.wait(in.Run)
	keys := make([]string, len(in.Ends))
	err := store.Each(ctx, len(keys), func(ctx context.Context, i int) error {
		keys[i] = record.Key(in.Ends[i])
		info, err := e.Store.Driver().Stat(ctx, keys[i])
		if errors.Is(err, store.ErrNotFound) || err == nil && info.Bytes == 0 {
			return fault.New(fault.Lost, "the record of "+in.Ends[i].ID()+" no longer exists", err)
		}
		return err
	})
	if err != nil {
		return err
	}
	return e.Store.Driver().Sync(ctx, keys)
}

// Record writes missing records of steps. Their outputs are in history, and evaluating the same outputs gives the same verdict.
func (e *Engine) Record(ctx context.Context, in contract.RecordInput) error {
	for _, end := range in.Ends {
		var rec record.StepRecord
		err := e.Store.GetJSON(ctx, record.Key(end.StepRef), &rec)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
			end.Unsynced = false
			_, err = e.Verdict(ctx, end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// flush writes the records of steps that ended before what is to be done now. Steps evaluated by the worker that did them are recorded
// only so: what a worker does that was given up for dead must change nothing, and what a workflow hands on is in its history.
func (e *Engine) flush(ctx context.Context, ends []contract.StepEnd) error {
	for _, end := range ends {
		if _, err := e.Verdict(ctx, end); err != nil {
			return fmt.Errorf("record the end of %s: %w", end.ID(), err)
		}
	}
	return nil
}
