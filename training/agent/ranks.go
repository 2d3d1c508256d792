package agent

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/internal/stepargs"
	"github.com/sluiceml/sluice/store/steplog"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/delegate"
	"github.com/sluiceml/sluice/training/protocol"
)

const (
	// lookEvery is how often the ranks' metrics and checkpoints are checked.
	lookEvery = 200 * time.Millisecond
	// tailLines of a rank's output go into the error of a rank that fails.
	tailLines = 20
)

// ranks are the processes of one generation on this node.
type ranks struct {
	key     training.Key
	node    *node
	p       *prepared
	launch  launch
	proc    *proc.Process
	stored  *steplog.Writer
	said    *output        // what the ranks print
	started *output        // what proc prints: the only rank, or a launcher
	out     io.WriteCloser // started, without secrets
	pipes   []*pipe        // carry the output of the ranks of a launcher; none without one
	metrics *follower
	commits *committer
	gpus    *gpuWatch // nil where the step has none

	oomKills int64     // before the start, as counted by the kernel
	memoryAt time.Time // when their memory was last checked

	startedAt time.Time
	scannedAt time.Time // when checkHang last scanned their files
	wroteAt   time.Time // when one of their files was last written, as of the last check by checkHang

	mu      sync.Mutex
	stopped time.Time // when the ranks were told to stop while they were running
	// nodeStopped is true if they were told to stop only because the agent itself ends.
	nodeStopped bool
	lost        []int  // the nodes that commit nothing more, according to the request to stop
	silent      string // for how long they have made no progress, when that is too long
	hung        bool   // they were killed for it
	over        string // why it was killed for its memory

	marked  int64 // the steps that the pool was told of; only used by watch
	refusal error // why the node ended its ranks itself; only used by supervise

	done  chan struct{} // closed when ended and err are set
	ended protocol.RanksEnded
	err   error
}

// startRanks starts the node's ranks and supervises them until they have ended.
func startRanks(n *node, p *prepared, in protocol.RunRanksInput) (*ranks, error) {
	r := &ranks{
		key: p.key, node: n, p: p, oomKills: oomKills("/"),
		startedAt: time.Now(), metrics: follow(p.dirs.metrics, p.dirs.before, p.seal.FromStep()), done: make(chan struct{}),
	}
	r.metrics.mask = p.mask
	r.commits = newCommitter(n.store, r, in.Nodes)
	if err := r.start(n.config, in); err != nil {
		if fault.TypeOf(err) == fault.User || errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			return nil, fault.New(fault.User, "command: "+err.Error(), err)
		}
		return nil, fault.New(fault.Infrastructure, err.Error(), err)
	}
	r.gpus = watchGPUs(r)
	go r.supervise()
	return r, nil
}

func (r *ranks) start(c protocol.AgentConfig, in protocol.RunRanksInput) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	if r.launch, err = launchOf(r.p, in, self); err != nil {
		return err
	}
	work, env := r.p.folder.Work, rankEnv(c, r.p, r.launch)
	path, err := script.LookPath(r.launch.argv[0], work, env)
	if err != nil {
		return err
	}
	if err := r.openOutput(in.Nodes); err != nil {
		return err
	}
	r.proc, err = proc.Start(context.Background(), proc.Command{
		Path: path, Args: r.launch.argv[1:], Env: env, Dir: work, Stdout: r.out, Stderr: r.out,
	})
	if err != nil {
		err = errors.Join(err, r.closeOutput())
		r.stored.Close()
	}
	return err
}

// supervise watches the ranks until they have ended, then commits what they left and collects what they made.
func (r *ranks) supervise() {
	defer close(r.done)
	defer r.stored.Close()
	defer r.commits.arrivals.close()
	quit, committed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(committed)
		r.commits.loop(quit)
	}()
	exit, err := r.watch()
	close(quit)
	<-committed
	leaked, scrubErr := r.metrics.scrub()
	err = errors.Join(err, r.closeOutput(), scrubErr)
	end, endErr := r.outcome(exit)
	err = errors.Join(err, endErr)
	r.gpus.stop(!end.ok() && !r.wasTold())

	checkpoints, _ := shapeOf(r.p.dirs.checkpoints) // of none there is nothing to upload
	outputs, _ := shapeOf(r.p.folder.Output)
	ctx, cancel := context.WithTimeout(context.Background(), uploadLimit(checkpoints.bytes+outputs.bytes))
	defer cancel()
	r.ended = r.ending(end, r.commits.last(ctx, end.ok() || r.wasTold()))
	r.refusal = cmp.Or(r.refusal, r.commits.refusal())
	switch {
	case r.refusal != nil:
		r.err = r.refusal
	case err != nil && !errors.Is(err, proc.ErrLost):
		r.err = fault.New(fault.Infrastructure, "rank "+fmt.Sprint(r.p.index)+": "+err.Error(), err)
	case r.p.step.BySluice() && end.Code > 0 && !r.wasTold():
		r.err = delegate.ExitError(end.Code, r.said.tail)
	case !end.ok():
		tail := r.said.tail
		if tail.String() == "" {
			tail = r.started.tail
		}
		r.ended.Tail, r.ended.Last = tail.String()+r.p.folder.PythonOf(tail.String()), tail.Last()
	case leaked:
		r.err = fault.New(fault.User, "the program wrote the value of a secret to $SLUICE_METRICS, which everyone can read in the run's records", nil)
	case r.ended.Stopped && r.ended.Short(r.p.spec.TotalSteps):
		// The program exited with 0 before it was finished, so there may not be any outputs yet.
	case r.p.index == 0:
		r.err = fault.Masked(r.p.mask, r.collect(ctx))
		if fault.TypeOf(r.err) == fault.User && r.ended.Short(r.p.spec.TotalSteps) {
			r.ended.Unfinished, r.err = fault.Message(r.err), nil
		}
	default:
		r.err = r.refuseShards()
	}
}

// watch checks the ranks until they have ended.
func (r *ranks) watch() (proc.Exit, error) {
	tick := time.Tick(lookEvery)
	for {
		select {
		case <-r.proc.Done():
			r.metrics.read(true)
			r.commits.arrivals.note(r.metrics.state().Step)
			return r.proc.Wait()
		case now := <-tick:
			r.checkMemory(now)
			r.clear(now)
			r.metrics.read(false)
			r.commits.arrivals.note(r.metrics.state().Step)
			r.markTraining()
			if r.refusal == nil {
				if r.refusal = cmp.Or(r.refuseShards(), r.commits.refusal()); r.refusal != nil {
					r.proc.Kill()
				}
			}
			r.checkHang(now)
		}
	}
}

// clear kills the ranks and the launcher that outlive the other ranks of the node for too long.
func (r *ranks) clear(now time.Time) {
	if !r.launch.watched() {
		return
	}
	ends, err := readEnds(r.launch.dir)
	if limit := patience(ends, r.launch.ranks, r.wasTold()); err == nil && !limit.IsZero() && now.After(limit) {
		r.proc.Kill()
	}
}

// markTraining tells the pool that training is under way, and how far.
func (r *ranks) markTraining() {
	made := r.metrics.made()
	if made == r.marked {
		return
	}
	r.marked = made
	if err := os.WriteFile(filepath.Join(r.node.config.Dir, protocol.TrainingFile), strconv.AppendInt(nil, made, 10), 0o644); err != nil {
		r.node.log.Warn("could not record the progress of training", "error", err)
	}
}

// outcome returns how the node's ranks ended.
func (r *ranks) outcome(exit proc.Exit) (rankEnd, error) {
	end := rankEnd{Code: exit.Code, Signal: int(exit.Signal), EndedAt: r.proc.EndedAt()}.orKilled()
	if !r.launch.watched() {
		return end, nil
	}
	ends, err := readEnds(r.launch.dir)
	return outcome(ends, r.launch.ranks, end), err
}

// wasTold reports whether the ranks have been told to stop.
func (r *ranks) wasTold() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.stopped.IsZero()
}

func (r *ranks) ending(end rankEnd, commitErr error) protocol.RanksEnded {
	r.mu.Lock()
	defer r.mu.Unlock()
	e := protocol.RanksEnded{
		// A rank that ended before it was told to stop does not count as stopped: it may be the reason why the others were.
		Code: end.Code, Signal: end.Signal, Stopped: !r.stopped.IsZero() && end.EndedAt.After(r.stopped), Hung: r.hung, EndedAt: end.EndedAt,
		Ranks: r.launch.ranks, Local: end.Local, OverMemory: cmp.Or(r.over, r.starved(end)),
		Step: r.metrics.state().Step, Of: r.metrics.state().Of, CommittedStep: r.commits.committed(), Work: r.metrics.slowest(),
		Began: r.began(),
	}
	if last := r.said.last.Load(); last != 0 {
		e.SaidAt = time.Unix(0, last)
	}
	e.NodeStopped = e.Stopped && r.nodeStopped
	if r.hung {
		e.HungWhy = r.silent
	}
	if commitErr != nil {
		e.CommitError = commitErr.Error()
	}
	e.GPUs, e.Fault = r.gpus.summary()
	return e
}

// began returns the first step that the ranks made, as far as their metrics say, or the checkpoints that they have left; nil if none.
func (r *ranks) began() *int64 {
	first := r.metrics.began()
	found, _ := r.commits.layout.find(r.p.dirs.checkpoints)
	for _, w := range found {
		if first == nil && w.step <= r.p.seal.FromCheckpoint() && !slices.Contains(r.p.linked, w.name) {
			first = &w.step
		}
	}
	return first
}

// collect stores the declared outputs and the metrics of a program that has finished.
func (r *ranks) collect(ctx context.Context) error {
	if r.p.step.BySluice() {
		if err := delegate.Check(r.p.spec.Outputs, r.p.folder.Output, r.p.mask); err != nil {
			return err
		}
	}
	outputs, err := script.Collect(ctx, r.node.store, r.p.spec.Outputs, r.p.folder.Output)
	if err == nil && r.p.step.Kind == spec.KindEvaluate { // those of a training are read when all of its generations are known
		outputs["metrics"], err = script.Metrics(r.p.dirs.metrics, r.p.spec.Metrics)
	}
	if err == nil {
		err = script.RefuseSecrets(outputs, r.p.mask)
	}
	if fault.TypeOf(err) == fault.User {
		return fault.New(fault.User, err.Error(), err)
	} else if err != nil {
		return fault.New(fault.Infrastructure, "store the outputs: "+err.Error(), err)
	}
	lines, err := r.metrics.upTo(math.MaxInt64)
	if err == nil {
		defer lines.Close()
		r.ended.Metrics, _, err = r.node.store.PutBlob(ctx, lines)
	}
	if err != nil {
		return fault.New(fault.Infrastructure, "store the metrics: "+err.Error(), err)
	}
	r.ended.Outputs = outputs
	return nil
}

// stop tells the ranks to stop, kills them after grace, and returns when they are gone. Another call can only shorten the wait.
func (r *ranks) stop(ctx context.Context, grace time.Duration) {
	r.mu.Lock()
	first := r.stopped.IsZero() && !isClosed(r.proc.Done())
	if first {
		r.stopped = time.Now()
	}
	r.mu.Unlock()
	if first {
		if err := r.tell(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			r.node.log.Warn("signal the ranks to stop", "error", err)
		}
	}
	select {
	case <-r.proc.Done():
		return
	case <-time.After(grace):
	case <-ctx.Done():
	}
	r.proc.Kill()
	<-r.proc.Done()
}

// tell tells the ranks to stop. A launcher is not told once it has started ranks. Where no process catches SIGTERM, it ends all of them.
func (r *ranks) tell() error {
	if r.launch.watched() {
		if err := os.WriteFile(filepath.Join(r.launch.dir, stopFile), nil, 0o644); err != nil {
			return err
		}
		if started, err := filepath.Glob(filepath.Join(r.launch.dir, startedFiles+"*")); err != nil || len(started) > 0 {
			return err
		}
	}
	if tellRank(r.proc.PID()) {
		return nil
	}
	return r.proc.SignalGroup(syscall.SIGTERM)
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// progress returns the details of a heartbeat.
func (r *ranks) progress() protocol.TrainProgress {
	m := r.metrics.state()
	p := protocol.TrainProgress{
		Generation: r.key.Generation, Node: r.p.index,
		Step: m.Step, Of: m.Of, Loss: m.Loss, StepsPerSecond: m.Rate, CommittedStep: r.commits.committed(), Work: r.metrics.slowest(),
		CommitError: r.commits.failure(),
	}
	if from := r.p.seal.FromStep(); from > 0 {
		p.Resumed = protocol.Resumption{From: from, Began: r.began()}
	}
	if r.p.step.BySluice() {
		if told, ok := stepargs.ReadProgress(r.p.dirs.root); ok {
			p.Doing = &protocol.Progress{Text: r.p.mask.Text(told.Text), Share: told.Share}
		}
	}
	p.GPUs, p.Idle = r.gpus.current()
	r.node.mu.Lock()
	if since := r.node.rebalance; !since.IsZero() {
		p.Risk = "EC2 recommends to rebalance since " + since.UTC().Format("15:04 UTC")
	}
	r.node.mu.Unlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	p.Hang = r.silent
	return p
}
