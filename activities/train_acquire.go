package activities

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

// firstPause is how soon what there was none of is asked for again; the pauses double up to the tick.
const firstPause = time.Second

// maxPause is the longest pause between tries to reach a pool.
const maxPause = 10 * time.Second

// Acquire asks for what is offered, in that order, again and again until there is some of it or the patience is at its end, which is an
// error of type preempted. Pools of which none can be asked are waited for too, and a store that cannot be written: when the patience ends
// then, the error is of type infrastructure.
func (t *Trainings) Acquire(ctx context.Context, in contract.AcquireInput) (contract.Acquired, error) {
	var text atomic.Value
	text.Store("asking for nodes")
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: text.Load().(string), Share: -1} })
	heard := time.Now() // of any pool
	left := false       // the environment for the agents
	over := time.NewTimer(in.Patience)
	defer over.Stop()
	for pause := firstPause; ; pause = min(2*pause, max(in.Tick, firstPause)) {
		var got contract.Acquired
		var err error
		if !left {
			err = t.leaveEnvironment(ctx, in)
			left = err == nil
		}
		if left {
			got, err = t.askAll(ctx, in)
		}
		switch typ := fault.TypeOf(err); {
		case typ == fault.Preempted:
			heard = time.Now()
			text.Store("asking for nodes")
		case typ == fault.Infrastructure && err != nil && ctx.Err() == nil && time.Since(heard) < protocol.Patience:
			away := "the pool"
			if !left {
				away = "the store"
			}
			text.Store("waiting for " + away + ": " + fault.Message(err))
		default:
			return got, err
		}
		select {
		case <-time.After(pause):
		case <-over.C:
			return contract.Acquired{}, err
		case <-ctx.Done():
			return contract.Acquired{}, ctx.Err()
		}
	}
}

// leaveEnvironment leaves for the agents, which are started next, where secrets come from.
func (t *Trainings) leaveEnvironment(ctx context.Context, in contract.AcquireInput) error {
	sub, err := t.Engine.Submission(ctx, in.Submission)
	if err != nil {
		return err
	}
	return checkpoint.PutEnvironment(ctx, t.Store, in.Request.Key, sub.Program.Environment())
}

// askAll asks for each offer once. When none is to be had the error tells why of each, and is of the type that gives the most hope.
func (t *Trainings) askAll(ctx context.Context, in contract.AcquireInput) (contract.Acquired, error) {
	var failed []error
	for _, o := range in.Offers {
		at := time.Now().UTC()
		gang, err := t.ask(ctx, in, o)
		if err == nil {
			t.releaseOthers(ctx, in, o.Pool)
			o.Capacity = cmp.Or(gang.Capacity, o.Capacity)
			o.USDPerHour = cmp.Or(gang.USDPerHour, o.USDPerHour)
			o.PriceUnknown = o.PriceUnknown && o.USDPerHour == 0
			return contract.Acquired{At: at, Gang: gang, Offer: o}, nil
		}
		if ctx.Err() != nil {
			return contract.Acquired{}, ctx.Err()
		}
		failed = append(failed, err)
	}
	return contract.Acquired{}, mostRetryable(failed)
}

// ask asks one pool.
func (t *Trainings) ask(ctx context.Context, in contract.AcquireInput, o contract.Offer) (training.Gang, error) {
	pool, err := t.pool(ctx, in.Submission, o.Pool)
	if err != nil {
		return training.Gang{}, err
	}
	r := in.Request
	r.Capacity, r.Image = o.Capacity, o.Image
	gang, err := pool.Acquire(ctx, r)
	typ := fault.Infrastructure
	switch {
	case err == nil:
		return gang, nil
	case errors.Is(err, training.ErrTooLarge), errors.Is(err, training.ErrRefused), errors.Is(err, training.ErrNoAgent):
		typ = fault.Invalid
	case errors.Is(err, training.ErrNoCapacity):
		typ = fault.Preempted
	}
	return gang, fault.New(typ, "pool "+o.Pool+": "+err.Error(), err)
}

// mostRetryable makes one error of those of all offers: no capacity now, then a pool that failed, then one that will never do.
func mostRetryable(failed []error) error {
	typ := fault.Invalid
	says := make([]string, len(failed))
	for i, err := range failed {
		says[i] = fault.Message(err)
		switch one := fault.TypeOf(err); {
		case one == fault.Preempted, typ == fault.Invalid:
			typ = one
		}
	}
	return fault.New(typ, strings.Join(slices.Compact(says), "; "), errors.Join(failed...))
}

// releaseOthers gives up what pools other than the one that gave the gang may keep for it: a place in a queue, or a gang that an attempt
// of this activity got whose worker died. That one cannot be reached now does not keep the gang from training.
func (t *Trainings) releaseOthers(ctx context.Context, in contract.AcquireInput, pool string) {
	others := slices.DeleteFunc(slices.Clone(in.Pools), func(name string) bool { return name == pool })
	release := contract.ReleaseInput{Pools: others, Submission: in.Submission, Key: in.Request.Key}
	if err := t.releaseIn(ctx, release); err != nil {
		activity.GetLogger(ctx).Warn("a pool that is not needed does not release its place", "error", err)
	}
}

// Watch returns when a node of a gang is gone.
func (t *Trainings) Watch(ctx context.Context, in contract.GangInput) (training.Loss, error) {
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: "watching the nodes", Share: -1} })
	defer t.prune(ctx, in.Key, in.Keep)()
	defer t.keepGauges(ctx, in)()
	pool, err := t.pool(ctx, in.Submission, in.Pool)
	if err != nil {
		return training.Loss{}, err
	}
	loss, err := pool.Watch(ctx, in.Key)
	if err == nil {
		activity.GetLogger(ctx).Info("nodes lost", "gang", in.Key.String(), "nodes", loss.Nodes, "reason", loss.Reason)
	}
	return loss, err
}

// Release gives a gang back.
func (t *Trainings) Release(ctx context.Context, in contract.ReleaseInput) error {
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: "releasing nodes", Share: -1} })
	begun := time.Now()
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		err := t.releaseIn(ctx, in)
		if err == nil || ctx.Err() != nil || errors.Is(err, training.ErrRefused) || time.Since(begun) > protocol.Patience {
			return err
		}
		activity.GetLogger(ctx).Warn("a gang cannot be released yet", "gang", in.Key.String(), "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

func (t *Trainings) releaseIn(ctx context.Context, in contract.ReleaseInput) error {
	var failed []error
	for _, name := range in.Pools {
		pool, err := t.pool(ctx, in.Submission, name)
		if err == nil {
			err = pool.Release(ctx, in.Key)
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("pool %s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}
