package gang

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/ledger"
	"github.com/sluiceml/sluice/training/protocol"
)

// firstPause is how soon what there was none of is asked for again; the pauses double up to the tick.
const firstPause = time.Second

// noticeLimit bounds one call that passes on a notice.
const noticeLimit = 2 * time.Second

// maxPause is the longest pause between tries to reach a pool.
const maxPause = 10 * time.Second

// firstRest and lastRest bound how long an offer is not asked for that was refused for a reason that may pass; the rests double. A node
// that does not start costs money each time.
const firstRest, lastRest = 15 * time.Second, 10 * time.Minute

// Acquire requests the offers in their order, again and again, until a pool provides one or the patience is exhausted, which is an error of
// type preempted. It waits for a store that cannot be written to as it waits for pools. If no pool lacks capacity, but each is unavailable
// or refuses for a reason that may pass, that is an error of type infrastructure after the time that the pools allow for it; until then the
// error says since when (contract.Blocked).
func (t *Trainings) Acquire(ctx context.Context, in contract.AcquireInput) (contract.Acquired, error) {
	a := &acquiring{Trainings: t, in: in, begun: time.Now(), blocked: in.BlockedSince, rests: map[contract.Offer]rest{}}
	a.text.Store("asking for nodes")
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: a.text.Load().(string), Share: -1} })
	over := time.NewTimer(in.Patience)
	defer over.Stop()
	for pause := firstPause; ; pause = min(2*pause, max(in.Tick, firstPause)) {
		got, err := a.askAll(ctx)
		if err == nil || ctx.Err() != nil {
			return got, err
		}
		if err = a.judge(err); fault.TypeOf(err) != fault.Preempted {
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

// acquiring is one call of Acquire.
type acquiring struct {
	*Trainings
	in   contract.AcquireInput
	text atomic.Value // of the heartbeats
	left bool         // the environment for the agents
	// begun is when it began to ask.
	begun time.Time
	// blocked is since when no pool has reported a lack of capacity; zero while one does.
	blocked time.Time
	rests   map[contract.Offer]rest
}

// rest is for how long an offer is not requested, and why.
type rest struct {
	until time.Time
	pause time.Duration
	why   error
}

// judge combines the refusals of all offers; an error of type preempted means to continue asking.
func (a *acquiring) judge(err error) error {
	switch fault.TypeOf(err) {
	case fault.Preempted:
		a.blocked = time.Time{}
		a.text.Store("asking for nodes")
		return err
	case fault.Infrastructure:
	default:
		return err
	}
	if a.blocked.IsZero() {
		a.blocked = time.Now()
	}
	limit := a.limit()
	if waited := time.Since(a.blocked); waited > limit && !a.in.Waits {
		return fault.Final(fault.Errorf(fault.Infrastructure, "no nodes for %s, which is how long such refusals are retried (`retry_for` of the pool): %w",
			human.Duration(limit), err))
	}
	a.text.Store("retrying: " + fault.Message(err))
	since, unwritable := json.Marshal(contract.Blocked{Since: a.blocked.UTC()})
	if unwritable != nil {
		return unwritable
	}
	return fault.WithOutputs(fault.Preempted, fault.Message(err), since)
}

// limit is how long refusals that may pass are retried, by the pool that has the most patience.
func (a *acquiring) limit() time.Duration {
	var limit time.Duration
	for _, o := range a.in.Offers {
		limit = max(limit, o.RetryFor)
	}
	return limit
}

// leaveEnvironment leaves for the agents, which are started next, where secrets come from.
func (a *acquiring) leaveEnvironment(ctx context.Context) error {
	sub, err := a.Engine.Submission(ctx, a.in.Submission)
	if err != nil {
		return err
	}
	return checkpoint.PutEnvironment(ctx, a.Store, a.in.Request.Key, sub.Program.Environment())
}

// askAll asks for each offer once that does not rest. When none is to be had the error tells why of each, and is of the type that gives the
// most hope.
func (a *acquiring) askAll(ctx context.Context) (contract.Acquired, error) {
	if !a.left {
		if err := a.leaveEnvironment(ctx); err != nil {
			return contract.Acquired{}, err
		}
		a.left = true
	}
	var failed []error
	for _, o := range a.in.Offers {
		if r := a.rests[o]; time.Now().Before(r.until) {
			failed = append(failed, r.why)
			continue
		}
		at := time.Now().UTC()
		gang, err := a.ask(ctx, o)
		if err == nil {
			a.releaseOthers(ctx, a.in, o.Pool)
			o.Capacity = cmp.Or(gang.Capacity, o.Capacity)
			o.USDPerHour = cmp.Or(gang.USDPerHour, o.USDPerHour)
			o.PriceUnknown = o.PriceUnknown && o.USDPerHour == 0
			before, err := ledger.Open(ctx, a.Store, a.in.Request.Key, entryOf(o, gang))
			return contract.Acquired{At: at, Gang: gang, Offer: o, Before: before}, err
		}
		if ctx.Err() != nil {
			return contract.Acquired{}, ctx.Err()
		}
		if training.RefusalOf(err) != "" && fault.TypeOf(err) == fault.Infrastructure {
			pause := min(max(2*a.rests[o].pause, firstRest), lastRest)
			a.rests[o] = rest{until: time.Now().Add(pause), pause: pause, why: err}
		}
		failed = append(failed, err)
	}
	return contract.Acquired{}, mostRetryable(failed)
}

// ask asks one pool.
func (a *acquiring) ask(ctx context.Context, o contract.Offer) (training.Gang, error) {
	pool, err := a.pool(ctx, a.in.Submission, o.Pool)
	if err != nil {
		return training.Gang{}, err
	}
	r := a.in.Request
	r.Capacity, r.Image = o.Capacity, o.Image
	asking, cancel := a.bounded(ctx, o)
	defer cancel()
	var gang training.Gang
	if err = asking.Err(); err == nil {
		gang, err = pool.Acquire(asking, r)
	}
	err = a.enterFailed(ctx, o, err)
	if err == nil {
		return gang, nil
	}
	typ := cmp.Or(afterRefusal[training.RefusalOf(err)], fault.Infrastructure)
	if typ == fault.Infrastructure && asking.Err() != nil && ctx.Err() == nil {
		typ = fault.Preempted
		err = fmt.Errorf("spot nodes were not ready within %s, and the deadline leaves no more time for them: %w", human.Duration(a.in.SpotWithin), err)
	}
	return gang, fault.New(typ, "pool "+o.Pool+": "+err.Error(), err)
}

// afterRefusal is what follows from a refusal, as the type of an error: preempted is asked for again for as long as it takes, infrastructure for
// as long as the pool allows, after a rest, and invalid is given up.
var afterRefusal = map[training.Refusal]string{
	training.ErrNoCapacity: fault.Preempted, training.ErrPrice: fault.Preempted,
	training.ErrQuota: fault.Infrastructure, training.ErrNotStarted: fault.Infrastructure,
	training.ErrPermission: fault.Invalid, training.ErrInvalid: fault.Invalid,
}

// bounded bounds how long spot may take to start where a deadline leaves no more time for it: all tries together.
func (a *acquiring) bounded(ctx context.Context, o contract.Offer) (context.Context, context.CancelFunc) {
	if o.Capacity != spec.CapacitySpot || a.in.SpotWithin == 0 {
		return ctx, func() {}
	}
	return context.WithDeadline(ctx, a.begun.Add(a.in.SpotWithin))
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
	if _, err := t.releaseIn(ctx, release, map[string][]training.Gang{}); err != nil {
		activity.GetLogger(ctx).Warn("a pool that is not needed does not release its place", "error", err)
	}
}

// Watch returns when a node of a gang is gone. It notifies the train workflow of nodes that will go, if their pool knows in advance.
func (t *Trainings) Watch(ctx context.Context, in contract.GangInput) (training.Loss, error) {
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: "watching the nodes", Share: -1} })
	defer t.prune(ctx, in.Key, in.Keep)()
	defer t.keepGauges(ctx, in)()
	pool, err := t.pool(ctx, in.Submission, in.Pool)
	if err != nil {
		return training.Loss{}, err
	}
	gang := in.Key
	gang.Generation = cmp.Or(in.GangGeneration, gang.Generation)
	loss, err := pool.Watch(ctx, gang, func(n training.Notice) error { return passOn(ctx, in.Key.Generation, n) })
	if err == nil {
		activity.GetLogger(ctx).Info("nodes lost", "gang", in.Key.String(), "nodes", loss.Nodes, "reason", loss.Reason)
	}
	return loss, err
}

// passOn tells the workflow of a pool's notice, as the node's agent does, which may hear of it too.
func passOn(ctx context.Context, generation int, n training.Notice) error {
	ctx, cancel := context.WithTimeout(ctx, noticeLimit)
	defer cancel()
	notice := protocol.Notice{Generation: generation, Node: n.Node, Until: n.Until, Reason: n.Reason}
	err := activity.GetClient(ctx).SignalWorkflow(ctx, activity.GetInfo(ctx).WorkflowExecution.ID, "", protocol.NoticeSignal, notice)
	if err != nil {
		activity.GetLogger(ctx).Warn("the notice of a pool cannot be passed on yet", "node", n.Node, "reason", n.Reason, "error", err)
	}
	return err
}

// Release returns a gang to its pool.
func (t *Trainings) Release(ctx context.Context, in contract.ReleaseInput) (contract.Released, error) {
	var text atomic.Value
	text.Store("releasing nodes")
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: text.Load().(string), Share: -1} })
	begun, ended := time.Now(), map[string][]training.Gang{}
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		out, err := t.releaseIn(ctx, in, ended)
		if err == nil || ctx.Err() != nil || training.RefusalOf(err).Lasts() || time.Since(begun) > protocol.Patience {
			return out, err
		}
		text.Store("releasing nodes, retrying: " + fault.Message(err))
		activity.GetLogger(ctx).Warn("a gang cannot be released yet", "gang", in.Key.String(), "error", err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return out, err
		}
	}
}

// releaseIn releases the gangs in the pools and records their cost. ended has the gangs of the pools that have already released theirs,
// which are not asked again while the record cannot be stored.
func (t *Trainings) releaseIn(ctx context.Context, in contract.ReleaseInput, ended map[string][]training.Gang) (contract.Released, error) {
	var out contract.Released
	var failed []error
	for _, name := range in.Pools {
		gangs, released := ended[name]
		if !released {
			pool, err := t.pool(ctx, in.Submission, name)
			if err == nil {
				gangs, err = pool.Release(ctx, in.Key)
			}
			if err != nil {
				failed = append(failed, fmt.Errorf("pool %s: %w", name, err))
				continue
			}
			ended[name] = gangs
		}
		var err error
		if out.Paid, err = t.enterReleased(ctx, in, name, gangs); err != nil {
			failed = append(failed, fmt.Errorf("record what pool %s has released: %w", name, err))
		}
	}
	return out, errors.Join(failed...)
}
