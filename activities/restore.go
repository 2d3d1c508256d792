package activities

import (
	"context"
	"errors"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/store"
)

// Sync makes the records of steps durable that Judge wrote as volatile. It fails with ErrLost when one is not there.
func (e *Engine) Sync(ctx context.Context, in contract.SyncInput) error {
	e.behind.wait(in.Run)
	keys := make([]string, len(in.Ends))
	for i, at := range in.Ends {
		keys[i] = recordKey(at)
		info, err := e.Store.Driver().Stat(ctx, keys[i])
		if errors.Is(err, store.ErrNotFound) || err == nil && info.Bytes == 0 {
			return contract.Error(contract.ErrLost, "the record of "+at.ID()+" is gone", err)
		} else if err != nil {
			return err
		}
	}
	return e.Store.Driver().Sync(ctx, keys)
}

// Restore judges steps again whose records are not there. Their outputs are in history, and a judgement of the same is the same.
func (e *Engine) Restore(ctx context.Context, in contract.RestoreInput) error {
	for _, end := range in.Ends {
		var record contract.StepRecord
		err := e.Store.GetJSON(ctx, recordKey(end.At), &record)
		if errors.Is(err, store.ErrNotFound) {
			end.Volatile = false
			_, err = e.Judge(ctx, end)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
