package gang

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/ledger"
	"github.com/sluiceml/sluice/workflows/durable"
)

const (
	// patience is how long Acquire asks by itself before the workflow decides again. Each decision adds a few events to the history.
	patience = 20 * time.Minute
	// firstLook and lastLook limit how often a move from on-demand to spot is considered; the pauses double.
	firstLook, lastLook = 5 * time.Second, 10 * time.Minute
	// manyEvents is how many events a generation may add to its history, which cannot continue as new under it, before it saves events: the
	// pauses of the spot watcher then grow without limit, and a node that falls silent again is given up.
	manyEvents = 1000
)

// errLate: the attempt's timeout has passed, and there was no capacity.
var errLate = errors.New("the attempt's timeout has passed")

// acquiringPhase goes before why there is no gang yet.
const acquiringPhase = "acquiring: "

// capacityWords are what people call what was bought.
var capacityWords = map[string]string{spec.CapacitySpot: "spot", spec.CapacityOnDemand: "on-demand"}

// acquire acquires the gang. It waits for capacity until the attempt's timeout or the deadline, if there are any, which uses up no retry but
// that of the timeout.
func (t *train) acquire(ctx workflow.Context, l *generation) error {
	t.enter(ctx, "acquiring")
	t.askedAhead = false // what the generation before asked for is this one's
	if t.noticed() {
		t.dropHeld(ctx)
	}
	if next := t.carried.Next; next != nil {
		t.carried.Next = nil
		l.take(*next)
		return nil
	}
	for failed := 0; ; {
		if t.missed(ctx) {
			return t.abandon(ctx, fault.New(fault.Timeout, t.missedReason(), nil))
		}
		if left, ok := t.attemptLeft(ctx); ok && left <= 0 {
			return t.abandon(ctx, errLate)
		}
		choice, err := t.choose(ctx)
		if err != nil {
			return t.abandon(ctx, err)
		}
		if choice.Waits {
			t.phase = "waiting for spot"
			t.show(ctx)
		}
		got, err := t.ask(ctx, t.key(), choice, t.plan.MinNodes)
		t.carried.BlockedSince = blockedSince(err)
		if err == nil {
			l.take(got)
			return t.priced(ctx, got.Offer)
		}
		if fault.TypeOf(err) == fault.Invalid && choice.Waits {
			t.drop(choice.Offers) // what is refused for good is not waited for
			continue
		}
		if fault.TypeOf(err) != fault.Preempted {
			if failed++; !t.asksAgain(ctx, err, failed) {
				return t.abandon(ctx, err)
			}
			continue
		}
		failed = 0
		if t.phase = acquiringPhase + fault.Message(err); durable.IsLong(ctx) {
			return durable.ErrLong
		}
	}
}

// asksAgain reports, after a pause, whether to decide again after that many failed calls in a row. Without a deadline the same call has
// been retried; with one, something else may have to be requested by now.
func (t *train) asksAgain(ctx workflow.Context, err error, failed int) bool {
	if why := fault.Of(err); why.Final || why.Type == fault.User || ctx.Err() != nil || t.plan.Deadline.IsZero() || failed >= maxTries {
		return false
	}
	t.phase = acquiringPhase + fault.Message(err)
	return durable.Sleep(ctx, min(time.Second<<(failed-1), maxTryPause), "before asking for nodes again") == nil
}

// blockedSince returns what an error of Acquire says about the pools; zero if it says nothing.
func blockedSince(err error) time.Time {
	var blocked contract.Blocked
	if json.Unmarshal(fault.Outputs(err), &blocked) != nil {
		return time.Time{}
	}
	return blocked.Since
}

// drop gives up offers.
func (t *train) drop(offers []contract.Offer) {
	t.plan.Offers = slices.DeleteFunc(t.plan.Offers, func(o contract.Offer) bool { return slices.Contains(offers, o) })
}

// take makes an acquired gang the gang of the generation.
func (l *generation) take(got contract.Acquired) {
	l.gang = got.Gang
	l.nodes = make([]nodeState, len(got.Gang.Nodes))
	g := &l.current
	g.Nodes, g.Pool, g.Capacity, g.USDPerHour = len(got.Gang.Nodes), got.Offer.Pool, got.Offer.Capacity, got.Offer.USDPerHour
	g.PriceUnknown = got.Offer.PriceUnknown
	g.Gang, g.StartedAt = got.Generation, got.At
	l.paid, l.before = got.Before, got.Before
	if l.held() {
		l.before = l.carried.Unstarted // the generations before have the rest in their accounts
	}
	l.carried.Unstarted = fault.Costs{}
	for _, n := range got.Gang.Nodes {
		l.train.nodes = append(l.train.nodes, n.Name)
	}
}

// choose decides what to request now or, while a gang runs, what to leave it for.
func (t *train) choose(ctx workflow.Context) (contract.Choice, error) {
	return t.decide(ctx, t.carried.Generations, t.current)
}

func (t *train) decide(ctx workflow.Context, ended []spec.Generation, current spec.Generation) (contract.Choice, error) {
	in := contract.DecideInput{
		Key: t.key(), TrainPlan: t.plan, BeganAt: t.carried.BeganAt, Now: workflow.Now(ctx), Ended: ended, Current: current,
	}
	var choice contract.Choice
	err := durable.Local(ctx, contract.DecideActivity, "decide what to buy for "+t.in.Step, in, &choice)
	return choice, err
}

// ask requests a gang of one of the chosen offers, with at least that many nodes.
func (t *train) ask(ctx workflow.Context, key training.Key, choice contract.Choice, least int) (contract.Acquired, error) {
	in := contract.AcquireInput{
		Submission: t.in.Submission, Offers: choice.Offers, Pools: t.pools(), Patience: patience, Tick: choice.Tick,
		Waits: choice.Waits, SpotWithin: choice.SpotWithin, BlockedSince: t.carried.BlockedSince,
		Request: training.Request{
			Key: key, MinNodes: least, MaxNodes: t.plan.MaxNodes, Workflow: workflow.GetInfo(ctx).WorkflowExecution.ID,
			Resources: t.plan.Resources, Avoid: t.carried.Avoid,
		},
	}
	if choice.Review > 0 {
		in.Patience = min(choice.Review, patience)
	}
	if left, ok := t.attemptLeft(ctx); ok {
		in.Patience = max(min(in.Patience, left), 0)
	}
	if left := t.plan.Deadline.Sub(workflow.Now(ctx)); t.plan.StopOnMiss {
		in.Patience = max(min(in.Patience, left), 0)
	}
	tries := int32(maxTries)
	if !t.plan.Deadline.IsZero() {
		tries = 1 // and chooses anew
	}
	var got contract.Acquired
	return got, t.tryRemote(ctx, tries, contract.AcquireActivity, in, &got)
}

// abandon releases what the pools may have started or reserved for a generation that will not run.
func (t *train) abandon(ctx workflow.Context, err error) error {
	t.dropHeld(ctx)
	t.before = fault.Costs{} // it is in what the key has cost
	t.giveUp(ctx, t.key(), t.pools())
	return err
}

// giveUp releases what pools have for a generation that does not run.
func (t *train) giveUp(ctx workflow.Context, key training.Key, pools []string) {
	released, err := t.release(ctx, key, ledger.Lost{}, pools...)
	if err != nil {
		workflow.GetLogger(ctx).Error("release nodes that are not needed", "error", err)
		return
	}
	t.carried.Unstarted = released.Paid
}

// pools returns all pools that the step may use.
func (t *train) pools() []string {
	var pools []string
	for _, o := range t.plan.Offers {
		if !slices.Contains(pools, o.Pool) {
			pools = append(pools, o.Pool)
		}
	}
	return pools
}

// release returns a gang to its pool, also after a cancellation.
func (t *train) release(ctx workflow.Context, key training.Key, lost ledger.Lost, pools ...string) (contract.Released, error) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	in := contract.ReleaseInput{Pools: pools, Submission: t.in.Submission, Key: key, Lost: lost}
	var out contract.Released
	return out, t.remote(ctx, contract.ReleaseActivity, in, &out)
}

// attemptLeft is what is left of the attempt's timeout; ok is false when it has none.
func (t *train) attemptLeft(ctx workflow.Context) (left time.Duration, ok bool) {
	return time.Duration(t.in.Timeout) - workflow.Now(ctx).Sub(t.carried.AttemptAt), t.in.Timeout > 0
}

// missed reports whether a training with `on_miss: stop` has missed its deadline.
func (t *train) missed(ctx workflow.Context) bool {
	return t.plan.StopOnMiss && !workflow.Now(ctx).Before(t.plan.Deadline)
}

func (t *train) missedReason() string {
	return fmt.Sprintf("it missed its deadline, %s; its last checkpoint is kept", t.plan.Deadline.UTC().Format("2006-01-02 15:04:05 MST"))
}

// spotWatcher looks for other nodes while a gang runs: for spot while it runs on on-demand, and for on-demand while it runs on spot and the
// deadline leaves no time to lose it. A gang that it acquires is that of the next generation: the running gang is left only when there is
// another one.
type spotWatcher struct {
	asked  bool // for anything
	asking bool
	ended  bool
	found  *contract.Acquired
}

// lookOut starts the spot watcher.
func (l *generation) lookOut(ctx workflow.Context) {
	if !l.mayMove() {
		return
	}
	w := &spotWatcher{}
	l.watcher = w
	workflow.GoNamed(ctx, "spot watcher", func(ctx workflow.Context) {
		defer func() { w.ended = true }()
		pause, review, what := firstLook, time.Duration(0), "check again for spot capacity"
		if l.current.Capacity == spec.CapacitySpot {
			what = "check again whether the deadline allows spot"
		}
		for {
			next := pause
			if review > 0 && !l.hasMany(ctx) {
				next = min(review, lastLook)
			}
			if durable.Sleep(ctx, durable.Every(ctx, next), what) != nil {
				return
			}
			var done bool
			if done, review = l.looked(ctx, w); done {
				return
			}
			if pause *= 2; !l.hasMany(ctx) {
				pause = min(pause, lastLook)
			}
		}
	})
}

// mayMove reports whether the gang may be left for another.
func (l *generation) mayMove() bool {
	offers := func(capacity string) bool {
		return slices.ContainsFunc(l.plan.Offers, func(o contract.Offer) bool { return o.Capacity == capacity })
	}
	if l.current.Capacity == spec.CapacityOnDemand {
		return offers(spec.CapacitySpot)
	}
	return !l.plan.Deadline.IsZero() && offers(spec.CapacityOnDemand)
}

// looked considers a move, and tries it while it is worthwhile. It reports whether the spot watcher is finished, or else after what time to
// look again, if that is known.
func (l *generation) looked(ctx workflow.Context, w *spotWatcher) (done bool, review time.Duration) {
	for {
		choice, err := l.choose(ctx)
		if err != nil || ctx.Err() != nil || l.watcher != w {
			return true, 0
		}
		if len(choice.Offers) == 0 {
			return false, choice.Review
		}
		err = l.askNext(ctx, w, choice, l.plan.MinNodes)
		switch {
		case err == nil:
			return true, 0
		case fault.TypeOf(err) != fault.Preempted && l.current.Capacity == spec.CapacitySpot:
			return ctx.Err() != nil, choice.Tick // spot is to be left
		case fault.TypeOf(err) != fault.Preempted:
			return ctx.Err() != nil, 0 // a pool that fails is asked again later
		case l.hasMany(ctx):
			return false, 0
		}
	}
}

// moves reports whether the gang is to be left for another.
func (l *generation) moves() bool { return l.watcher != nil && l.watcher.found != nil }

// awaitWatcher waits for the end of the spot watcher, whose context has ended. A gang that it acquired belongs to the next generation if
// the running one was left for it, and is released otherwise.
func (l *generation) awaitWatcher(ctx workflow.Context, end trainEnd) {
	if l.watcher == nil {
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	if err := workflow.Await(ctx, func() bool { return l.watcher.ended }); err != nil || !l.watcher.asked {
		return
	}
	left := end.how == spec.EndMoved || l.ahead && end.errType == "" && !l.canceled
	if left {
		l.carried.Next, l.askedAhead = l.watcher.found, l.watcher.found == nil
		return
	}
	l.giveBack(ctx, l.pools())
}

// dropNext releases the gang of the next generation if there will be none.
func (t *train) dropNext(ctx workflow.Context) {
	t.dropHeld(ctx)
	if t.askedAhead {
		t.askedAhead = false
		t.giveBack(ctx, t.pools())
	}
	if next := t.carried.Next; next != nil {
		t.carried.Next = nil
		t.giveBack(ctx, []string{next.Offer.Pool})
	}
}

// giveBack releases what pools have for the generation after the current or last one.
func (t *train) giveBack(ctx workflow.Context, pools []string) {
	key := t.key()
	key.Generation++
	t.giveUp(ctx, key, pools)
}
