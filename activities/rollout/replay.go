package rollout

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync/atomic"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/serving/answer"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/replay"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/protocol"
)

// Replayed is the heartbeat of a replay: the number of rows sent, from which another worker continues.
type Replayed struct {
	protocol.Progress
	Sent int64 `json:"sent"`
}

// Replay sends a dataset's rows to the target repeatedly until it is canceled. The details of the cancellation say how many rows it sent.
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
		return Replayed{Sent: n, Progress: protocol.Progress{Text: fmt.Sprintf("%d requests replayed", n), Share: -1}}
	})
	target, spec, err := r.target(ctx, in.Step) // it may have to be served by this process now
	if err != nil {
		return err
	}
	options, cleanup, err := r.traffic(ctx, in.Step, spec.Target, target, in.Traffic)
	if err != nil {
		return err
	}
	defer cleanup()
	options.Start, options.Progress = before.Sent, sent.Store
	return replayEnd(ctx, replay.Run(ctx, options), sent.Load())
}

// replayEnd is how the replayed traffic ended, after so many requests.
func replayEnd(ctx context.Context, err error, sent int64) error {
	return heartbeat.Ended(ctx, unfit(ctx, err), contract.RolloutReplayed{Sent: sent})
}

// unfit makes a problem of the rows, which no other attempt can fix, a user error.
func unfit(ctx context.Context, err error) error {
	if errors.Is(err, replay.ErrIncomparable) {
		return fault.New(fault.User, err.Error(), nil)
	}
	if errors.Is(err, replay.ErrRefused) {
		return fault.New(fault.User, "traffic: "+err.Error()+
			"\nhelp: if its gateways run elsewhere, give them and the workers the same key of labels in $SLUICE_LABEL_KEY", nil)
	}
	if errors.Is(err, replay.ErrUnfit) {
		return fault.New(fault.User, "traffic: "+err.Error(), nil)
	}
	return activities.Typed(ctx, err)
}

// traffic downloads the rows to replay to a folder of this attempt, which cleanup removes.
func (r *Rollouts) traffic(
	ctx context.Context, in record.StepInput, model string, target *gateway.Target, traffic spec.Traffic,
) (o replay.Options, cleanup func(), err error) {
	o, err = r.client(target, model)
	if err != nil {
		return o, nil, err
	}
	dir, cleanup, err := activities.AttemptDir(ctx, r.State, in)
	if err != nil {
		return o, nil, err
	}
	rows := filepath.Join(dir, "rows")
	if err := r.Store.Fetch(ctx, traffic.Replay, rows); err != nil {
		cleanup()
		return o, nil, activities.Typed(ctx, err)
	}
	o.Dir, o.Split, o.Label, o.RPS, o.Seed = rows, traffic.Split, traffic.Label, traffic.RPS, traffic.Seed
	return o, cleanup, nil
}

// client returns the client with which rollouts send requests to a target's gateways.
func (r *Rollouts) client(target *gateway.Target, model string) (replay.Options, error) {
	key, err := gateway.EnsureLabelKey(r.State)
	if err != nil {
		return replay.Options{}, fault.New(fault.Infrastructure, err.Error(), err)
	}
	return replay.Options{
		URL: target.URL(), TLS: target.TLS(), Model: model,
		Authorization: gateway.LabelHeader(key), AlwaysAuthorized: target.Front.Restricted(),
	}, nil
}

// probe reports why the rows to replay, or their labels, do not fit the candidate. It is called before the candidate gets any traffic.
func (r *Rollouts) probe(ctx context.Context, in record.StepInput, spec spec.Rollout, opened contract.RolloutOpened, target *gateway.Target) error {
	if spec.Traffic.Replay.IsZero() {
		return nil
	}
	options, cleanup, err := r.traffic(ctx, in, spec.Target, target, spec.Traffic)
	if err != nil {
		return err
	}
	defer cleanup()
	options.Compare = spec.Compare
	options.Check = answersCheck(spec, opened.Previous)
	return unfit(ctx, replay.Probe(ctx, options, opened.Version))
}

// answersCheck says what is wrong with the candidate's first answers, beside a release that serves or none: they are compared with labels,
// and with the other release's where a check reads that.
func answersCheck(sp spec.Rollout, previous string) func([]oip.Tensor) error {
	rules := answer.Rules(sp.Compare)
	return func(outputs []oip.Tensor) error {
		if sp.Traffic.Label != "" {
			if err := rules.CheckLabelledAnswers(outputs); err != nil {
				return err
			}
		}
		if readsAgreement(sp) && previous != "" {
			return rules.CheckAnswers(outputs)
		}
		return nil
	}
}
