package gang

import (
	"cmp"
	"fmt"
	"net" //nolint:depguard // JoinHostPort writes an address, and no more
	"slices"
	"strconv"
	"time"

	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
	"github.com/sluiceml/sluice/workflows/durable"
)

const (
	// pollLimit is how long a node's agent may take to take up a command that a running agent takes up in milliseconds.
	pollLimit = 5 * time.Second
	// bootLimit is how long an agent may take from its start to its first command.
	bootLimit = 2 * time.Minute
	// prepareLimit bounds fetching workspace, inputs and checkpoint. A node that has them waits for the others (agent, awaitsPeers).
	prepareLimit = 24 * time.Hour
	// ranksHeartbeat is how soon a node is given up that says nothing; its agent reports every 2 s.
	ranksHeartbeat = 15 * time.Second
	// attachHeartbeat is the same for a node that was silent before, and attachLimit how long its agent may take to take up Attach: it may
	// ask for work again up to 10 s after the server has come back, and that after its connection has been made anew.
	attachHeartbeat = 6 * time.Second
	attachLimit     = 30 * time.Second
	// watchHeartbeat is how soon Watch moves to another worker.
	watchHeartbeat = 6 * time.Second
	// cancelStop and failureStop are how long ranks may take to end after a cancel, and after the failure of one of them.
	cancelStop  = 10 * time.Second
	failureStop = 5 * time.Second
	// moveStop is how long ranks may take to leave a checkpoint where nothing presses.
	moveStop = 2 * time.Minute
	// noticeMargin is kept free between the end of a stop and the end of the node, for what remains to be uploaded; a fifth of a short
	// notice.
	noticeMargin = 2 * time.Second
	// commitLimit is how long ranks that have been stopped may take to commit what they left, after a cancel or a limit of the step. Otherwise
	// their agents bound it by its size.
	commitLimit = 10 * time.Minute
	// lossLimit is how long to wait, when a rank has failed, for the news that a node is gone: the peers of a lost rank fail first.
	lossLimit = 2 * time.Second
)

// generation is one running generation. Its coroutines record what they observe; live waits for the events that matter.
type generation struct {
	*train
	seal checkpoint.Seal
	gang training.Gang
	// paid is what has been paid for that the pool knows by the gang's generation, and is not this one's.
	paid fault.Costs

	nodes      []nodeState
	loss       *training.Loss
	lostAt     time.Time        // when the loss was seen
	notice     *protocol.Notice // that a node will go
	fault      *protocol.Notice // that a GPU is broken
	idle       *protocol.Notice // that the GPUs are hardly used, where they are to be released then
	canceled   bool
	late       bool // the attempt's timeout has passed
	overBudget bool // the step has cost what it may
	overdue    bool // the step's deadline has passed, and it is to stop then

	began   int          // length of the history when the ranks were started
	watcher *spotWatcher // nil where there is nothing to look out for
	ahead   bool         // it asks for the next gang since this one got a notice
}

// nodeState is what is known of one node of a gang.
type nodeState struct {
	prepared bool
	port     int
	unusable string // why the checkpoint cannot be resumed from
	started  bool
	ended    bool // its ranks, or their preparation, are over: result or err says how
	result   protocol.RanksEnded
	err      error
	gone     bool // the node cannot be reached any more
}

// live prepares the nodes, runs the ranks until the first reason to end, stops those that still run and returns how it ended.
func (l *generation) live(ctx workflow.Context) trainEnd {
	// What runs on the nodes is ended by Stop, gracefully, and not by a cancel of this workflow.
	nodes, drop := workflow.NewDisconnectedContext(ctx)
	defer drop()
	l.watch(nodes)
	l.hear(nodes)

	l.enter(ctx, "preparing")
	for i := range l.nodes {
		workflow.Go(nodes, func(ctx workflow.Context) { l.prepare(ctx, i) })
	}
	l.await(ctx, func() bool { return l.mustEnd() || l.all(func(n *nodeState) bool { return n.prepared }) })
	if !l.mustEnd() {
		l.enter(ctx, "running")
		l.current.RanAt = workflow.Now(ctx)
		l.began = workflow.GetInfo(ctx).GetCurrentHistoryLength()
		for i := range l.nodes {
			workflow.Go(nodes, func(ctx workflow.Context) { l.run(ctx, i) })
		}
		l.lookOut(nodes)
		l.await(ctx, func() bool { return l.mustEnd() || l.all(func(n *nodeState) bool { return n.ended }) })
		l.current.StoppedAt = workflow.Now(ctx)
	}
	if l.pending() {
		l.enter(ctx, "stopping")
		l.askAhead(nodes)
		l.stop(ctx, nodes)
	}
	l.waitForLoss(nodes)
	return l.classify()
}

// await waits for cond, a cancel of the workflow, or the first of the limits of time and money.
func (l *generation) await(ctx workflow.Context, cond func() bool) {
	first := l.firstLimit(ctx)
	var err error
	ok := true
	if first != nil {
		ok, err = durable.Await(ctx, max(first.left, time.Millisecond), first.name, cond)
	} else {
		err = workflow.Await(ctx, cond)
	}
	l.canceled = l.canceled || err != nil
	if err == nil && !ok {
		*first.passed = true
	}
}

// limit is something that ends a generation when its time has come.
type limit struct {
	name   string
	left   time.Duration
	passed *bool
}

// firstLimit is the limit that is reached first, or nil.
func (l *generation) firstLimit(ctx workflow.Context) *limit {
	var limits []limit
	if left, ok := l.affords(ctx); ok {
		limits = append(limits, limit{"budget", left, &l.overBudget})
	}
	if left, ok := l.attemptLeft(ctx); ok {
		limits = append(limits, limit{"timeout", left, &l.late})
	}
	if l.plan.StopOnMiss {
		limits = append(limits, limit{"deadline", l.plan.Deadline.Sub(workflow.Now(ctx)), &l.overdue})
	}
	if len(limits) == 0 {
		return nil
	}
	first := slices.MinFunc(limits, func(a, b limit) int { return cmp.Compare(a.left, b.left) })
	return &first
}

// mustEnd reports whether there is a reason to end the generation before all ranks have finished.
func (l *generation) mustEnd() bool {
	if l.canceled || l.late || l.overBudget || l.overdue || l.loss != nil || l.left() {
		return true
	}
	return slices.ContainsFunc(l.nodes, func(n nodeState) bool {
		return n.unusable != "" || n.ended && (n.err != nil || !finished(n.result) || n.result.Unfinished != "")
	})
}

// finished reports whether ranks ended with 0.
func finished(r protocol.RanksEnded) bool { return r.Code == 0 && r.Signal == 0 }

func (l *generation) all(cond func(*nodeState) bool) bool {
	return !slices.ContainsFunc(l.nodes, func(n nodeState) bool { return !cond(&n) })
}

// pending reports whether ranks may still run on a node that can be reached.
func (l *generation) pending() bool {
	return !l.all(func(n *nodeState) bool { return !n.started || n.ended || n.gone })
}

// watch notes the loss of nodes as the pool sees it.
func (l *generation) watch(ctx workflow.Context) {
	workflow.GoNamed(ctx, "watch", func(ctx workflow.Context) {
		ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
			StartToCloseTimeout: 365 * 24 * time.Hour,
			HeartbeatTimeout:    watchHeartbeat,
			RetryPolicy:         &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumInterval: 10 * time.Second},
			Summary:             fmt.Sprintf("watch, generation %d", l.current.Index),
		})
		in := contract.GangInput{Pool: l.current.Pool, Submission: l.in.Submission, Key: l.key(), GangGeneration: l.current.Gang, Keep: l.plan.Keep, Gang: l.gang}
		in.Gang.Capacity, in.Gang.USDPerHour = l.current.Capacity, l.current.USDPerHour
		var loss training.Loss
		if err := workflow.ExecuteActivity(ctx, contract.WatchActivity, in).Get(ctx, &loss); err != nil {
			return // the generation is over, or nothing can be seen of the pool: heartbeats tell
		}
		l.loss, l.lostAt = &loss, workflow.Now(ctx)
		for i := range l.nodes {
			if len(loss.Nodes) == 0 || slices.Contains(loss.Nodes, i) {
				l.nodes[i].gone = true
			}
		}
	})
}

// hear records notices for nodes of this generation. Notices for other generations are late and are ignored.
func (l *generation) hear(ctx workflow.Context) {
	workflow.GoNamed(ctx, "notices", func(ctx workflow.Context) {
		over := false
		for !over {
			selector := workflow.NewSelector(ctx)
			selector.AddReceive(ctx.Done(), func(workflow.ReceiveChannel, bool) { over = true })
			selector.AddReceive(l.notices, func(c workflow.ReceiveChannel, _ bool) {
				var notice protocol.Notice
				c.Receive(ctx, &notice)
				l.notes(ctx, notice)
			})
			selector.Select(ctx)
		}
	})
}

// prepare makes one node ready.
func (l *generation) prepare(ctx workflow.Context, i int) {
	node := &l.nodes[i]
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              l.gang.Nodes[i].Queue,
		ScheduleToStartTimeout: l.bootLimit(),
		StartToCloseTimeout:    prepareLimit,
		HeartbeatTimeout:       ranksHeartbeat,
		RetryPolicy: &temporal.RetryPolicy{
			InitialInterval: time.Second, MaximumAttempts: 3, NonRetryableErrorTypes: []string{fault.Invalid, fault.User},
		},
		Summary: fmt.Sprintf("prepare node %d, generation %d", i, l.current.Index),
	})
	in := protocol.PrepareInput{Protocol: protocol.AgentProtocol, Step: l.in.StepInput, Seal: l.seal, Node: i}
	var out protocol.PrepareOutput
	durable.Admit(ctx, in)
	if err := workflow.ExecuteActivity(ctx, protocol.PrepareActivity, in).Get(ctx, &out); err != nil {
		node.gone = node.gone || fault.TypeOf(err) == fault.Timeout || fault.TypeOf(err) == fault.Preempted || l.held() && fault.TypeOf(err) != fault.User
		node.err, node.ended = err, true
		return
	}
	node.port, node.unusable, node.prepared = out.MasterPort, out.Unusable, out.Unusable == ""
}

// run runs one node's ranks to their end. If the node falls silent, it tries to attach to see whether the node is really gone.
func (l *generation) run(ctx workflow.Context, i int) {
	node := &l.nodes[i]
	node.started = true
	in := protocol.RunRanksInput{
		Protocol: protocol.AgentProtocol, Generation: l.current.Index, Node: i, Nodes: len(l.nodes),
		MasterAddress: l.gang.Nodes[0].Address, MasterPort: l.nodes[0].port,
	}
	for j, peer := range l.gang.Nodes {
		in.Peers = append(in.Peers, net.JoinHostPort(peer.Address, strconv.Itoa(l.nodes[j].port)))
	}
	options := workflow.ActivityOptions{
		TaskQueue:              l.gang.Nodes[i].Queue,
		ScheduleToStartTimeout: bootLimit,
		StartToCloseTimeout:    365 * 24 * time.Hour,
		HeartbeatTimeout:       ranksHeartbeat,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                fmt.Sprintf("ranks of node %d, generation %d", i, l.current.Index),
	}
	name := protocol.RunRanksActivity
	for {
		durable.Admit(ctx, in)
		began := workflow.Now(ctx)
		err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, options), name, in).Get(ctx, &node.result)
		// An agent that is frozen may take up Attach, for it had asked for work before, and stay as silent as it was.
		silent := name == protocol.AttachActivity && workflow.Now(ctx).Sub(began) < ranksHeartbeat
		if !durable.WorkerLost(err) || node.gone || silent || l.hasMany(ctx) {
			// Whoever cannot be attached to, or does not take up a command, is out of reach.
			node.gone = node.gone || err != nil && (name == protocol.AttachActivity || fault.TypeOf(err) == fault.Timeout)
			node.err, node.ended = err, true
			return
		}
		name, options.ScheduleToStartTimeout, options.HeartbeatTimeout = protocol.AttachActivity, attachLimit, attachHeartbeat
		options.Summary = fmt.Sprintf("attach to node %d, generation %d", i, l.current.Index)
	}
}

// hasMany reports whether many events have been added to the history since the ranks were started.
func (l *generation) hasMany(ctx workflow.Context) bool {
	return workflow.GetInfo(ctx).GetCurrentHistoryLength()-l.began >= manyEvents+10*len(l.nodes)
}

// stop ends the ranks on every node that can be reached, and waits until they have committed what they leave.
func (l *generation) stop(ctx, nodes workflow.Context) {
	grace := l.grace(nodes)
	for i := range l.nodes {
		if node := &l.nodes[i]; node.started && !node.ended && !node.gone {
			workflow.Go(nodes, func(ctx workflow.Context) { l.stopNode(ctx, i, grace) })
		}
	}
	committed := func() bool { return !l.pending() }
	ok, err := durable.Await(nodes, grace+commitLimit, "time limit of the stop", committed)
	if err == nil && !ok && !l.canceled && !l.late && !l.overBudget && !l.overdue {
		l.await(ctx, committed)
	}
	if l.pending() {
		workflow.GetLogger(ctx).Warn("ranks that were stopped have not exited")
	}
}

func (l *generation) stopNode(ctx workflow.Context, i int, grace time.Duration) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue:              l.gang.Nodes[i].Queue,
		ScheduleToStartTimeout: pollLimit,
		StartToCloseTimeout:    grace + pollLimit,
		RetryPolicy:            &temporal.RetryPolicy{MaximumAttempts: 1},
		Summary:                fmt.Sprintf("stop node %d within %v, generation %d", i, grace.Round(time.Millisecond), l.current.Index),
	})
	in := protocol.StopInput{Generation: l.current.Index, Grace: grace, Over: l.over()}
	if err := workflow.ExecuteActivity(ctx, protocol.StopActivity, in).Get(ctx, nil); err != nil {
		l.nodes[i].gone = true
	}
}

// over lists the nodes that commit nothing more.
func (l *generation) over() []int {
	var over []int
	for i, n := range l.nodes {
		if !n.started || n.ended || n.gone {
			over = append(over, i)
		}
	}
	return over
}

// grace is how long the ranks may take to end.
func (l *generation) grace(ctx workflow.Context) time.Duration {
	switch {
	case l.canceled || l.late || l.overBudget:
		return cancelStop
	case l.fault != nil && l.loss == nil && l.notice == nil:
		return faultStop
	case l.overdue, (l.moves() || l.idle != nil) && l.loss == nil && l.notice == nil:
		return moveStop
	case l.notice != nil && l.loss == nil:
		left := l.notice.Until.Sub(workflow.Now(ctx))
		return max(left-min(noticeMargin, left/5), time.Second)
	}
	return failureStop
}

// waitForLoss gives the pool time to say that a node is gone, where ranks failed in a way that this would explain.
func (l *generation) waitForLoss(ctx workflow.Context) {
	failed := slices.ContainsFunc(l.nodes, func(n nodeState) bool {
		return n.ended && (n.err != nil || l.failed(n.result) || n.result.Signal != 0 && !n.result.Stopped)
	})
	if !failed || l.loss != nil || len(l.nodes) == 1 && l.nodes[0].err == nil {
		return
	}
	if l.all((*nodeState).isWell) && slices.ContainsFunc(l.nodes, func(n nodeState) bool { return endedItself(n.result) }) {
		return
	}
	if ok, err := durable.Await(ctx, lossLimit, "check for lost nodes", func() bool { return l.loss != nil }); err == nil && ok {
		workflow.GetLogger(ctx).Info("the failure of a rank follows from the loss of a node", "reason", l.loss.Reason)
	}
}
