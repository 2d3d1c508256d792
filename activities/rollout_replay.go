package activities

import (
	"context"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/serving/replay"
)

// Replayed is the heartbeat of a replay: how many rows were sent, from which another worker goes on.
type Replayed struct {
	contract.Progress
	Sent int64 `json:"sent"`
}

// Replay sends a dataset's rows to the target, over and over, until it is cancelled. How far it came is in the details of the cancel.
func (r *Rollouts) Replay(ctx context.Context, in contract.RolloutReplay) error {
	before := Replayed{Sent: in.Sent}
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &before); err != nil {
			return fmt.Errorf("what an earlier attempt sent: %w", err)
		}
	}
	var sent atomic.Int64
	sent.Store(before.Sent)
	heartbeat.Show(ctx, func() any {
		n := sent.Load()
		return Replayed{Sent: n, Progress: contract.Progress{Text: fmt.Sprintf("%d requests replayed", n), Share: -1}}
	})
	dir, cleanup, err := AttemptDir(ctx, r.State, in.Step)
	if err != nil {
		return err
	}
	defer cleanup()
	rows := filepath.Join(dir, "rows")
	if err := r.Store.Fetch(ctx, in.Traffic.Replay, rows); err != nil {
		return typed(ctx, err)
	}
	target, spec, err := r.target(ctx, in.Step) // it may have to be served by this process now
	if err != nil {
		return err
	}
	err = replay.Run(ctx, replay.Options{
		URL: target.URL(), Model: spec.Target, Dir: rows, Split: in.Traffic.Split, Label: in.Traffic.Label, RPS: in.Traffic.RPS,
		Start: before.Sent, Progress: sent.Store,
	})
	if ctx.Err() != nil {
		return temporal.NewCanceledError(contract.RolloutReplayed{Sent: sent.Load()})
	}
	return typed(ctx, err)
}
