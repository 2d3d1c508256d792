package gang

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training/protocol"
)

const (
	// faultStop is how long ranks may take to leave a checkpoint when a GPU of one of them has broken: those that compute with it may hang.
	faultStop = 30 * time.Second
	// maxAvoided is how many machines with broken GPUs are avoided: all, but that a history must not grow without bound.
	maxAvoided = 64
	// maxGPUEvents is how many errors of GPUs are kept of a generation.
	maxGPUEvents = 16
)

// notes takes a notice of this generation, the first of each cause.
func (l *generation) notes(ctx workflow.Context, notice protocol.Notice) {
	if notice.Generation != l.current.Index {
		return
	}
	switch {
	case notice.Cause == protocol.CauseFault && l.fault == nil:
		l.fault = &notice
	case notice.Cause == protocol.CauseIdle && l.idle == nil:
		l.idle = &notice
	case notice.Cause == "" && l.notice == nil:
		l.notice = &notice
	case notice.Cause == "" && l.notice.Node == notice.Node: // the node and the pool have both told
		l.notice.Reason = cmp.Or(l.notice.Reason, notice.Reason)
		return
	default:
		return
	}
	countNotice(ctx, notice)
}

// left reports whether the nodes are told to stop, as far as that is no failure.
func (l *generation) left() bool {
	return l.notice != nil || l.fault != nil || l.idle != nil || l.moves()
}

// wasFaulty: a GPU broke, whatever the ranks made of it. That is nobody's fault, and the next generation goes without it.
func (l *generation) wasFaulty(end *trainEnd) bool {
	node, why := -1, ""
	if l.fault != nil {
		node, why = l.fault.Node, l.fault.Reason
	}
	for i := range l.nodes {
		if fault := l.nodes[i].result.Fault; node < 0 && fault != "" {
			node, why = i, fault
		}
	}
	if node < 0 {
		return false
	}
	end.how, end.errType, end.reason = spec.EndNodeLost, "", fmt.Sprintf("node %d: %s", node, why)
	return true
}

// wasIdle: stopped because the GPUs were hardly used.
func (l *generation) wasIdle(end *trainEnd) bool {
	if l.idle == nil {
		return false
	}
	end.how, end.errType = spec.EndIdle, fault.User
	end.reason = fmt.Sprintf("node %d: %s, and `idle` says to release them; the last checkpoint is kept", l.idle.Node, l.idle.Reason)
	return true
}

// avoid has the next gangs go without the machines whose GPUs broke.
func (l *generation) avoid() {
	for i, n := range l.nodes {
		if n.result.Fault != "" || l.fault != nil && l.fault.Node == i {
			l.avoidMachine(l.gang.Nodes[i].Machine)
		}
	}
}

// avoidMachine has the next gangs go without a machine; "" is none.
func (t *train) avoidMachine(machine string) {
	if machine == "" || slices.Contains(t.carried.Avoid, machine) {
		return
	}
	t.carried.Avoid = append(t.carried.Avoid, machine)
	t.carried.Avoid = t.carried.Avoid[max(0, len(t.carried.Avoid)-maxAvoided):]
}

// gpus is what the GPUs of all nodes did, as far as these could say.
func (l *generation) gpus() spec.GPUUse {
	var sum spec.GPUUse
	known := 0
	for _, n := range l.nodes {
		use := n.result.GPUs
		if use == nil {
			continue
		}
		count := float64(use.Count)
		if !use.UtilizationUnknown {
			sum.Utilization += count * use.Utilization
			known += use.Count
		}
		sum.PowerMean += count * use.PowerMean
		sum.Throttled += count * use.Throttled
		sum.Count += use.Count
		sum.Model = use.Model
		sum.Memory = max(sum.Memory, use.Memory)
		sum.MemoryPeak = max(sum.MemoryPeak, use.MemoryPeak)
		sum.TemperatureMax = max(sum.TemperatureMax, use.TemperatureMax)
		sum.ECCUncorrected += use.ECCUncorrected
		sum.IdleSeconds = max(sum.IdleSeconds, use.IdleSeconds)
		sum.Events = append(sum.Events, use.Events[:min(len(use.Events), maxGPUEvents-len(sum.Events))]...)
	}
	if sum.Count == 0 {
		return sum
	}
	sum.Utilization, sum.UtilizationUnknown = sum.Utilization/float64(max(1, known)), known == 0
	sum.PowerMean, sum.Throttled = sum.PowerMean/float64(sum.Count), sum.Throttled/float64(sum.Count)
	return sum
}
