package engine

import (
	"context"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/retention"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/protocol"
)

// keptAtOnce is the maximum number of runs that the end of one run removes. If there are more, later ends remove them.
const keptAtOnce = 20

// Keep applies the pipeline's `keep`: it removes the checkpoints of the run's successful trainings, and older runs.
func (e *Engine) Keep(ctx context.Context, in contract.KeepInput) error {
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: "removing older runs", Share: -1} })
	sub, err := e.Submission(ctx, in.Submission)
	if err != nil {
		return err
	}
	all, err := record.Runs(ctx, e.Store)
	if err != nil {
		return err
	}
	if err := retention.RemoveCheckpoints(ctx, e.Store, all, in.Run); err != nil {
		return err
	}
	needed, err := retention.Needed(ctx, e.Store, all)
	if err != nil {
		return err
	}
	p := sub.Program.Pipeline()
	expired, err := retention.Spare(ctx, e.Store, all, retention.Expired(all, needed, p.Name, p.Keep, time.Now()))
	if err != nil {
		return err
	}
	for _, run := range expired[:min(keptAtOnce, len(expired))] {
		if err := retention.Remove(ctx, e.Store, all, run, e.Logs); err != nil {
			return err
		}
	}
	return nil
}
