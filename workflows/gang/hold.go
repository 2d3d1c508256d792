package gang

import (
	"cmp"
	"slices"
	"syscall"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/ledger"
	"github.com/sluiceml/sluice/training/protocol"
)

// maxHold is the longest pause before an attempt during which a gang is kept for it. Nodes that have to wait longer cost more than new ones.
const maxHold = 2 * time.Minute

// goesOn reports whether the next generation continues with this one's gang: its ranks failed, may be retried soon, and no node is to
// blame.
func (l *generation) goesOn(ctx workflow.Context, end trainEnd) bool {
	failed := end.how == spec.EndCrashed || end.how == spec.EndUserError || end.how == spec.EndHung || end.how == spec.EndDamaged
	if !failed || end.failure != nil || ctx.Err() != nil || end.pause > maxHold || l.loss != nil || l.left() || !l.all((*nodeState).isWell) {
		return false
	}
	if left, ok := l.affords(ctx); ok && left <= end.pause {
		return false
	}
	return !l.plan.StopOnMiss || workflow.Now(ctx).Add(end.pause).Before(l.plan.Deadline)
}

// isWell reports whether the node worked until the ranks ended, so that their failure is the program's.
func (n *nodeState) isWell() bool {
	return n.started && n.ended && !n.gone && (n.err == nil || fault.TypeOf(n.err) == fault.User) && n.result.Fault == "" && !n.result.NodeStopped
}

// hold keeps the gang for the next generation, which pays for it from the end of this one.
func (l *generation) hold() {
	g := l.current
	l.carried.Next = &contract.Acquired{
		At: g.EndedAt, Gang: l.gang, Generation: l.gangKey().Generation, Before: l.paid,
		Offer: contract.Offer{Pool: g.Pool, Capacity: g.Capacity, USDPerHour: g.USDPerHour, PriceUnknown: g.PriceUnknown},
	}
}

// held reports whether the gang is that of the generation before.
func (l *generation) held() bool { return l.current.Gang > 0 }

// gangKey is the key by which the pool knows the generation's gang.
func (l *generation) gangKey() training.Key {
	key := l.key()
	key.Generation = cmp.Or(l.current.Gang, key.Generation)
	return key
}

// bootLimit is how long a node may take to its first command: where it has served a generation before, its agent runs.
func (l *generation) bootLimit() time.Duration {
	if l.held() {
		return attachLimit
	}
	return bootLimit
}

// dropHeld releases the gang that is kept for the next generation, if it is that of the one before, to whose account its time goes then.
func (t *train) dropHeld(ctx workflow.Context) {
	next := t.carried.Next
	if next == nil || next.Generation == 0 {
		return
	}
	t.carried.Next = nil
	key := t.key()
	key.Generation = next.Generation
	released, err := t.release(ctx, key, ledger.Lost{}, next.Offer.Pool)
	if err != nil {
		workflow.GetLogger(ctx).Error("release nodes that were kept for the next generation", "error", err)
	}
	last := &t.carried.Generations[len(t.carried.Generations)-1]
	kept := last.EndedAt
	last.EndedAt = workflow.Now(ctx)
	last.CostUSD += paidSince(next.Before, released, float64(last.Nodes)*last.EndedAt.Sub(kept).Hours()*last.USDPerHour)
}

// noticed reports whether the gang that is kept for the next generation is to be left, as far as anybody has said so since the one before
// ended. What comes later an agent says again to the generation that it prepares its node for.
func (t *train) noticed() bool {
	next := t.carried.Next
	if next == nil || next.Generation == 0 {
		return false
	}
	var notice protocol.Notice
	for t.notices.ReceiveAsync(&notice) {
		isOfGang := notice.Generation >= next.Generation && notice.Generation < t.current.Index && notice.Node < len(next.Gang.Nodes)
		switch {
		case !isOfGang, notice.Cause == protocol.CauseIdle:
			continue
		case notice.Cause == protocol.CauseFault:
			t.avoidMachine(next.Gang.Nodes[notice.Node].Machine)
		}
		return true
	}
	return false
}

// ownSignals end a process for what it did itself, or at the wish of somebody who wants this one gone. Others may follow from the loss of a
// peer, as SIGABRT does from a watchdog in the program, or come to all processes of a machine that shuts down.
var ownSignals = []syscall.Signal{syscall.SIGKILL, syscall.SIGSEGV, syscall.SIGBUS, syscall.SIGFPE, syscall.SIGILL}

// endedItself reports whether the ranks' end explains those on all other nodes: there is no need to look for lost ones.
func endedItself(r protocol.RanksEnded) bool {
	return !r.Stopped && slices.Contains(ownSignals, syscall.Signal(r.Signal))
}
