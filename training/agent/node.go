package agent

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/internal/telemetry/prom"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

const (
	// orphanEvery is how often to check whether ranks whose activity the server has timed out are still needed. orphanLook bounds each request
	// of the check.
	orphanEvery = 20 * time.Second
	orphanLook  = 10 * time.Second
	// stopTimeout bounds the stop of ranks when the agent itself is told to end, or the activity is canceled.
	stopTimeout = 10 * time.Second
	// headStart is how much later the ranks of other nodes start than those of node 0, which they connect to: PyTorch waits up to a second
	// before it tries again when rank 0 does not listen yet (SocketConnectOp in torch/csrc/distributed/c10d/socket.cpp).
	headStart = 100 * time.Millisecond
)

// node is the state of an agent. It serves one generation after the other: it prepares for each, and runs its ranks once.
type node struct {
	config protocol.AgentConfig
	store  *store.Store
	near   store.Near // the files of the last generation and those that the machine keeps, for store
	client client.Client
	log    *slog.Logger
	// resolver finds the secrets of the step.
	resolver *secret.Resolver
	// stallFloor and orphanEvery are the constants of these names, except in tests, which cannot wait that long.
	stallFloor, orphanEvery time.Duration

	preparing sync.Mutex // an attempt that has timed out may still write to the folders of the next one

	mu       sync.Mutex
	prepared *prepared
	ranks    *ranks
	halted   int                 // the newest generation that was stopped
	holder   int                 // counts the activities that have waited for the ranks
	notice   protocol.NodeNotice // set once the node has been told that it is preempted
	// rebalance is since when EC2 has recommended moving off the instance; zero if it has not.
	rebalance time.Time

	counters *prom.Counters // nil counts nothing
}

// RunRanks starts the node's ranks, waits until they end and what they left is committed, and returns how they ended. It is never retried.
func (n *node) RunRanks(ctx context.Context, in protocol.RunRanksInput) (protocol.RanksEnded, error) {
	if err := checkProtocol(in.Protocol); err != nil {
		return protocol.RanksEnded{}, err
	}
	if in.Node > 0 {
		select {
		case <-time.After(headStart):
		case <-ctx.Done():
		}
	}
	r, err := n.launch(in)
	if errors.Is(err, errHalted) {
		return protocol.RanksEnded{Code: exitStopped, Stopped: true, EndedAt: time.Now()}, nil
	} else if err != nil {
		return protocol.RanksEnded{}, err
	}
	return n.await(ctx, r)
}

// exitStopped is the exit code of a rank that has stopped without losing anything: 128 + SIGTERM.
const exitStopped = 143

// errHalted: the ranks were stopped before they were started.
var errHalted = errors.New("stopped before it was started")

// Attach waits for ranks whose activity the server has timed out.
func (n *node) Attach(ctx context.Context, in protocol.RunRanksInput) (protocol.RanksEnded, error) {
	if err := checkProtocol(in.Protocol); err != nil {
		return protocol.RanksEnded{}, err
	}
	n.mu.Lock()
	r := n.ranks
	n.mu.Unlock()
	if r == nil || r.key.Generation != in.Generation {
		return protocol.RanksEnded{}, fault.Errorf(fault.Infrastructure, "no ranks of generation %d run here", in.Generation)
	}
	return n.await(ctx, r)
}

// Stop ends the ranks and returns when they are gone. Ranks that have not been started never will be.
func (n *node) Stop(ctx context.Context, in protocol.StopInput) error {
	n.mu.Lock()
	n.halted = max(n.halted, in.Generation)
	r := n.ranks
	n.mu.Unlock()
	if r != nil && r.key.Generation == in.Generation {
		r.noteOver(in.Over)
		r.stop(ctx, in.Grace)
	}
	return nil
}

// shutdown ends the ranks when the agent ends.
func (n *node) shutdown() {
	n.mu.Lock()
	r := n.ranks
	n.mu.Unlock()
	if r != nil {
		r.mu.Lock()
		r.nodeStopped = r.stopped.IsZero()
		r.mu.Unlock()
		r.stop(context.Background(), stopTimeout)
		<-r.done
	}
}

// launch starts the ranks of the prepared generation, once.
func (n *node) launch(in protocol.RunRanksInput) (*ranks, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	switch {
	case n.prepared == nil || n.prepared.key.Generation != in.Generation:
		return nil, fault.Errorf(fault.Infrastructure, "the node is not prepared for generation %d", in.Generation)
	case n.halted >= in.Generation:
		return nil, errHalted
	case n.ranks != nil && n.ranks.key.Generation == in.Generation:
		return nil, fault.New(fault.Infrastructure, "the node's ranks have already been started", nil)
	}
	r, err := startRanks(n, n.prepared, in)
	if err != nil {
		return nil, err
	}
	n.ranks = r
	return r, nil
}

// await waits until the ranks end and returns how they ended. If the activity is canceled, it stops them first. If the server has timed the
// activity out, they continue: Attach may wait for them next.
func (n *node) await(ctx context.Context, r *ranks) (protocol.RanksEnded, error) {
	n.mu.Lock()
	n.holder++
	holder := n.holder
	n.mu.Unlock()

	heartbeat.Show(ctx, func() any { return r.progress() })
	select {
	case <-r.done:
		return r.ended, r.err
	case <-ctx.Done():
	}
	if heartbeat.GivenUp(ctx) {
		return protocol.RanksEnded{}, n.orphan(ctx, holder, r)
	}
	r.stop(context.Background(), stopTimeout)
	<-r.done
	return r.ended, r.err
}

// orphan waits until another activity waits for the ranks, or they have ended, in which case the result is kept for Attach. If they are no
// longer needed, it stops and drops them; a later Attach then only learns that they are gone, which does not count as a failure of the
// program. The node is not idle until orphan returns.
func (n *node) orphan(ctx context.Context, holder int, r *ranks) error {
	n.log.Warn("Temporal has given up the activity of these ranks, which go on", "generation", r.key.Generation, "cause", context.Cause(ctx))
	look := time.NewTicker(n.orphanEvery)
	defer look.Stop()
	for {
		select {
		case <-r.done:
			return errGivenUp
		case <-look.C:
		}
		why, err := n.unwanted(r.p)
		if err != nil {
			n.log.Warn("could not find out whether these ranks are still wanted", "error", err)
		}
		n.mu.Lock()
		taken := n.holder != holder
		if !taken && why != "" && n.ranks == r {
			n.ranks, n.prepared = nil, nil
		}
		n.mu.Unlock()
		if taken {
			return errGivenUp
		}
		if why != "" {
			n.log.Warn("stopping the ranks", "generation", r.key.Generation, "why", why)
			r.stop(context.Background(), stopTimeout)
			<-r.done
			return errGivenUp
		}
	}
}

// unwanted returns why a generation is no longer needed: a later one has been opened, or the workflow has ended, perhaps by hand. It
// returns an error if it does not know because the store or Temporal could not be asked.
func (n *node) unwanted(p *prepared) (why string, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), orphanLook)
	defer cancel()
	superseded, err := checkpoint.Superseded(ctx, n.store, p.key)
	if superseded {
		return "a later generation has been opened", nil
	}
	ctx, cancel = context.WithTimeout(context.Background(), orphanLook)
	defer cancel()
	now, describeErr := n.client.DescribeWorkflowExecution(ctx, p.workflow, "")
	if _, gone := errors.AsType[*serviceerror.NotFound](describeErr); gone {
		return "Temporal does not know their workflow", nil
	}
	switch status := now.GetWorkflowExecutionInfo().GetStatus(); {
	case describeErr != nil, status == enums.WORKFLOW_EXECUTION_STATUS_RUNNING, status == enums.WORKFLOW_EXECUTION_STATUS_PAUSED:
		return "", errors.Join(err, describeErr)
	default:
		return "their workflow has ended: " + status.String(), nil
	}
}

// awaitsPeers reports whether the node is ready and still waits for the rest of its gang, which may take long to fetch its inputs
// (prepareLimit in package workflows/gang). It reports false if this cannot be found out.
func (n *node) awaitsPeers() bool {
	n.mu.Lock()
	p, ran := n.prepared, n.ranks != nil && n.ranks.p == n.prepared
	n.mu.Unlock()
	if p == nil || ran {
		return false
	}
	why, err := n.unwanted(p)
	if err != nil {
		n.log.Warn("could not find out whether this node is still wanted", "error", err)
	}
	return why == "" && err == nil
}

var errGivenUp = errors.New("this activity has been given up by Temporal")

func checkProtocol(number int) error {
	if number == protocol.AgentProtocol {
		return nil
	}
	return fault.Errorf(fault.Invalid,
		"the worker speaks protocol %d and this agent %d: use sluice and sluice-agent of the same release", number, protocol.AgentProtocol)
}

// keyOf returns the key of a generation of a step.
func keyOf(in record.StepInput, generation int) training.Key {
	return training.Key{Run: in.Run, Step: in.Step, Generation: generation}
}
