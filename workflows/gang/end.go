package gang

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training/protocol"
	"github.com/sluiceml/sluice/workflows/durable"
)

// exitStopped is the exit code by which a script says that it was stopped and has left a checkpoint.
const exitStopped = 143

// trainEnd describes how a generation ended.
type trainEnd struct {
	how    spec.GenerationEnd
	reason string // one line
	tail   string // what the rank to blame printed last
	// errType is empty if the end uses up no retry.
	errType string
	// failure is the step's error, when its retries are used up; pause is how long to wait before the next attempt if they are not.
	failure error
	pause   time.Duration
	// ran: the ranks were started on some node. unusable: the checkpoint could not be resumed from.
	ran, unusable bool
	// step is the last one reported, committed that of the newest committed checkpoint, as far as node 0 could say.
	step, committed int64
	// began is the first one reported, nil if none was.
	began *int64
	// unread: node 0 ran, and its agent could not say how far it came.
	unread  bool
	outputs map[string]any
	metrics string
}

// message is the error for the user.
func (e trainEnd) message() string {
	if e.tail == "" || strings.HasSuffix(e.reason, ": "+strings.TrimSpace(e.tail)) {
		return e.reason
	}
	return e.reason + "\n" + e.tail
}

// isLast reports whether the training ends with this generation because it has finished, or failed for good.
func (e trainEnd) isLast() bool { return e.how == spec.EndFinished || e.failure != nil }

// unreleased warns of nodes that outlast their training. Its result does not depend on them, and its account counts them up to its end only.
func unreleased(pool string, err error) string {
	return fmt.Sprintf("pool %s did not confirm the release of its nodes, so look there whether they still run; what they cost from now on is not counted: %s",
		pool, fault.Message(err))
}

// classify determines how the generation ended, from all ranks. Causes come before their consequences: if a node is lost, errors of its
// peers follow from that, and a rank that a signal killed makes the others exit with an error.
func (l *generation) classify() trainEnd {
	end := trainEnd{}
	end.ran = slices.ContainsFunc(l.nodes, func(n nodeState) bool { return n.started })
	if len(l.nodes) > 0 {
		node := &l.nodes[0]
		zero := node.result
		end.unread = node.started && (!node.ended || node.err != nil)
		end.step, end.committed, end.outputs, end.metrics = zero.Step, zero.CommittedStep, zero.Outputs, zero.Metrics
		end.began = zero.Began
	}
	if end.ran && l.exitedZero() && !l.cutShort() {
		end.how, end.reason = spec.EndFinished, ""
		return end
	}
	for _, explains := range []func(*trainEnd) bool{
		l.wasEnded, l.wasRefused, l.wasUnusable, l.wasFaulty, l.wasLost, l.wasIdle, l.wasShutDown, l.starved, l.hung, l.wasNotResumable, l.crashed, l.userFailed, l.nodeFailed, l.wasNoticed, l.wasMoved, l.wasStopped,
	} {
		if explains(&end) {
			return end
		}
	}
	end.how, end.reason, end.errType = spec.EndCrashed, "the generation ended for an unknown reason", fault.Infrastructure
	return end
}

// exitedZero reports whether the ranks of every node ended with 0.
func (l *generation) exitedZero() bool {
	return l.all(func(n *nodeState) bool { return n.ended && n.err == nil && finished(n.result) })
}

// cutShort reports whether ranks that ended with 0 were told to stop before their last step: a script that saves and returns when it is
// stopped also exits with 0. If the number of steps is unknown, a stop is assumed; the next generation resumes from the last checkpoint,
// and ends at once if nothing is left to do.
func (l *generation) cutShort() bool {
	zero := l.nodes[0].result
	told := slices.ContainsFunc(l.nodes, func(n nodeState) bool { return n.result.Stopped })
	return told && zero.Short(l.plan.TotalSteps) || zero.Unfinished != ""
}

// wasEnded: by a person, or by a limit of the step or the run.
func (l *generation) wasEnded(end *trainEnd) bool {
	switch {
	case l.canceled:
		end.how, end.reason = spec.EndCanceled, "canceled"
	case l.late:
		end.how, end.reason, end.errType = spec.EndTimeout, "it took longer than its timeout", fault.Timeout
	case l.overBudget:
		end.how, end.reason, end.errType = spec.EndBudget, "it has used up the rest of the run's budget", fault.Budget
	case l.overdue:
		end.how, end.reason, end.errType = spec.EndDeadline, l.missedReason(), fault.Timeout
	default:
		return false
	}
	return true
}

// wasRefused: the agent or the step's spec is wrong, and trying again does not help. An agent that has served before is of an earlier
// release.
func (l *generation) wasRefused(end *trainEnd) bool {
	for i := range l.nodes {
		if err := l.nodes[i].err; err != nil && fault.TypeOf(err) == fault.Invalid && !l.held() {
			end.how, end.reason, end.errType = spec.EndUserError, fault.Message(err), fault.Invalid
			return true
		}
	}
	return false
}

func (l *generation) wasUnusable(end *trainEnd) bool {
	for i := range l.nodes {
		if why := l.nodes[i].unusable; why != "" {
			end.how, end.reason, end.errType, end.unusable = spec.EndDamaged, why, "", true
			end.ran = true // not a false start: the next generation takes the checkpoint before
			return true
		}
	}
	return false
}

func (l *generation) wasLost(end *trainEnd) bool {
	i := slices.IndexFunc(l.nodes, func(n nodeState) bool { return n.gone && (!n.ended || n.err != nil) })
	if i < 0 {
		return false
	}
	end.how, end.errType, end.reason = spec.EndNodeLost, "", l.whyGone(i)
	return true
}

// whyGone says why a node cannot be reached any more, or is of no use.
func (l *generation) whyGone(i int) string {
	n := &l.nodes[i]
	switch {
	case l.loss != nil:
		return l.loss.Reason
	case n.err != nil && fault.TypeOf(n.err) == fault.Preempted:
		return fmt.Sprintf("node %d cannot be used: %s", i, fault.Message(n.err))
	case l.held() && n.err != nil && fault.TypeOf(n.err) != fault.Timeout:
		return fmt.Sprintf("node %d cannot be used again: %s", i, fault.Message(n.err))
	case !n.prepared && durable.NotTaken(n.err):
		return fmt.Sprintf("the agent of node %d did not ask Temporal for work within %v", i, l.bootLimit())
	}
	return fmt.Sprintf("node %d has stopped responding", i)
}

// wasShutDown: somebody ended the machine, or the agent on it, without a notice.
func (l *generation) wasShutDown(end *trainEnd) bool {
	i := slices.IndexFunc(l.nodes, func(n nodeState) bool { return n.result.NodeStopped })
	if i < 0 || l.left() {
		return false
	}
	end.how, end.errType, end.reason = spec.EndNodeLost, "", fmt.Sprintf("node %d was stopped from outside Sluice", i)
	return true
}

// first returns the node whose ranks ended first of those that cond holds for, or -1.
func (l *generation) first(cond func(protocol.RanksEnded) bool) int {
	at := -1
	for i := range l.nodes {
		n := &l.nodes[i]
		if n.ended && n.err == nil && cond(n.result) && (at < 0 || failedBefore(n.result, l.nodes[at].result)) {
			at = i
		}
	}
	return at
}

// together is how close the ends of two ranks may be without showing which failed first: a process closes its connections, which ends its
// peers, some time before it ends itself.
const together = 500 * time.Millisecond

// failedBefore reports whether a failed before b. Of ranks that ended together, the one that fell silent first failed first, because its
// peers printed errors of their own afterwards.
func failedBefore(a, b protocol.RanksEnded) bool {
	if a.EndedAt.Sub(b.EndedAt).Abs() < together && !a.SaidAt.IsZero() && !b.SaidAt.IsZero() {
		return a.SaidAt.Before(b.SaidAt)
	}
	return a.EndedAt.Before(b.EndedAt)
}

// who is what node i tells of, as the subject of a sentence.
func (l *generation) who(i int) string {
	if work := l.in.Kind.Work(); work != "" {
		return "the " + work
	}
	return fmt.Sprintf("rank %d", l.rank(i))
}

// rank is the number of the rank that node i tells of, among all ranks.
func (l *generation) rank(i int) int {
	r := l.nodes[i].result
	return i*max(1, r.Ranks) + r.Local
}

// blames gives as the reason what the first rank that cond holds for did, if there is one.
func (l *generation) blames(
	end *trainEnd, how spec.GenerationEnd, errType string, cond func(protocol.RanksEnded) bool, did func(protocol.RanksEnded) string,
) bool {
	i := l.first(cond)
	if i < 0 {
		return false
	}
	r := l.nodes[i].result
	end.how, end.errType, end.reason, end.tail = how, errType, l.who(i)+" "+did(r), r.Tail
	return true
}

// starved: a rank was killed for want of memory, which the same program will want again.
func (l *generation) starved(end *trainEnd) bool {
	return l.blames(end, spec.EndCrashed, fault.User, func(r protocol.RanksEnded) bool { return r.OverMemory != "" },
		func(r protocol.RanksEnded) string { return "was killed: " + r.OverMemory })
}

func (l *generation) hung(end *trainEnd) bool {
	return l.blames(end, spec.EndHung, fault.Infrastructure, func(r protocol.RanksEnded) bool { return r.Hung },
		func(r protocol.RanksEnded) string { return "hung: " + r.HungWhy })
}

// wasNotResumable: the ranks failed before they made a step from the checkpoint that they were given, and so they did before with the same
// one: it may not be whole, so the next generation takes the one before. The first time it is tried again, since other reasons are as
// likely, and pass. If they fail with the one before, too, the checkpoint is not to blame.
func (l *generation) wasNotResumable(end *trainEnd) bool {
	if l.seal.Resume == nil || l.seal.Resume.Training != "" || end.began != nil || end.committed > l.current.FromStep || l.left() {
		return false
	}
	if !l.crashed(end) && (l.first(l.failed) < 0 || !l.userFailed(end)) {
		return false
	}
	tried := false
	for _, g := range slices.Backward(l.carried.Generations) {
		if g.ToStep > g.FromStep || g.CommittedStep > g.FromStep || g.NotResumed {
			break
		}
		if g.End == spec.EndDamaged && !g.RanAt.IsZero() {
			return false
		}
		tried = tried || g.Checkpoint == l.current.Checkpoint && (g.End == spec.EndCrashed || g.End == spec.EndUserError)
	}
	end.errType = ""
	end.reason = fmt.Sprintf("before its first step from the checkpoint of step %d, %s", l.current.FromStep, end.reason)
	if tried {
		end.how, end.unusable = spec.EndDamaged, true
		end.reason += "; it did so twice, so the next generation resumes from the checkpoint before"
	}
	return true
}

func (l *generation) crashed(end *trainEnd) bool {
	isKilled := func(r protocol.RanksEnded) bool { return r.Signal != 0 && !r.Stopped && !l.isConsequence(r) }
	return l.blames(end, spec.EndCrashed, fault.Infrastructure, isKilled, func(r protocol.RanksEnded) string {
		return fmt.Sprintf("was killed by signal %d (%s)", r.Signal, syscall.Signal(r.Signal))
	})
}

func (l *generation) userFailed(end *trainEnd) bool {
	end.how, end.errType = spec.EndUserError, fault.User
	for i := range l.nodes {
		if err := l.nodes[i].err; err != nil && fault.TypeOf(err) == fault.User {
			end.reason = fault.Message(err)
			return true
		}
	}
	i := l.first(l.failed)
	if why := l.unfinished(); i < 0 && why != "" {
		end.reason = why
		return true
	} else if i < 0 {
		return false
	}
	r := l.nodes[i].result
	end.reason, end.tail = fmt.Sprintf("%s ended with exit code %d", l.who(i), r.Code), r.Tail
	if r.Last != "" {
		end.reason += ": " + r.Last
	}
	return true
}

// unfinished says what node 0 lacks that ended with 0 by itself. Where the nodes were being told to stop, its ranks have agreed to that with
// their peers, and left before they were told themselves.
func (l *generation) unfinished() string {
	if len(l.nodes) == 0 || l.left() {
		return ""
	}
	return l.nodes[0].result.Unfinished
}

// failed reports whether a rank failed by itself. Where ranks were told to stop one may have agreed to it with its peers, and exited so,
// before it was told itself.
func (l *generation) failed(r protocol.RanksEnded) bool {
	if r.Code == exitStopped && (l.left() || slices.ContainsFunc(l.nodes, func(n nodeState) bool { return n.result.Stopped })) {
		return false
	}
	return r.Code > 0 && !r.Stopped && !l.isConsequence(r)
}

// isConsequence reports whether a rank ended because a peer had left that was stopped on a notice or for a move: one that handles no SIGTERM
// closes its connections before the next node is even told.
func (l *generation) isConsequence(r protocol.RanksEnded) bool {
	return l.left() && !r.Stopped && !finished(r) && slices.ContainsFunc(l.nodes, func(n nodeState) bool {
		return n.ended && n.err == nil && n.result.Stopped && n.result.EndedAt.Before(r.EndedAt.Add(together))
	})
}

// nodeFailed: a node could not do its part, and says why.
func (l *generation) nodeFailed(end *trainEnd) bool {
	for i := range l.nodes {
		if err := l.nodes[i].err; err != nil {
			end.how, end.errType, end.reason = spec.EndCrashed, fault.Infrastructure, fmt.Sprintf("node %d: %s", i, fault.Message(err))
			return true
		}
	}
	return false
}

// wasNoticed: stopped on a notice. Unless every rank said that it has left a checkpoint the node counts as lost, for its work is.
func (l *generation) wasNoticed(end *trainEnd) bool {
	if l.notice == nil {
		return false
	}
	end.how, end.errType, end.reason = spec.EndNotice, "", cmp.Or(l.notice.Reason, fmt.Sprintf("node %d received a preemption notice", l.notice.Node))
	for i := range l.nodes {
		n := &l.nodes[i]
		if n.started && (!n.ended || n.result.Code != exitStopped && !finished(n.result)) {
			end.how = spec.EndNodeLost
			if work := l.in.Kind.Work(); work != "" { // which saves no checkpoints
				end.reason += fmt.Sprintf(", and the %s had not finished", work)
			} else {
				end.reason += fmt.Sprintf(", and rank %d did not stop in time with a checkpoint", l.rank(i))
			}
			return true
		}
	}
	if why := l.nodes[0].result.CommitError; why != "" {
		end.how = spec.EndNodeLost
		end.reason += ", and the last checkpoint could not be committed: " + why
	}
	return true
}

// wasStopped: another party than this workflow stopped the ranks, and they ended normally.
func (l *generation) wasStopped(end *trainEnd) bool {
	if !end.ran || !l.exitedZero() {
		return false
	}
	end.how, end.errType = spec.EndCrashed, fault.Infrastructure
	end.reason = fmt.Sprintf("something other than Sluice asked the nodes to stop, and the ranks exited with 0 at step %d", end.step)
	if last := cmp.Or(l.plan.TotalSteps, l.nodes[0].result.Of); last > 0 {
		end.reason += fmt.Sprintf(" of %d", last)
	}
	return true
}

// wasMoved: stopped because there is a cheaper gang to continue with. Work that a rank did not save is repeated, and there is no other
// consequence.
func (l *generation) wasMoved(end *trainEnd) bool {
	if !l.moves() {
		return false
	}
	end.how, end.errType = spec.EndMoved, ""
	end.reason = "spot is available again in pool " + l.watcher.found.Offer.Pool
	if l.current.Capacity == spec.CapacitySpot {
		end.reason = "the deadline leaves no time to lose spot nodes and the work since their last checkpoint"
	}
	return true
}
