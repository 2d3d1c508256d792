// Package worker is what a worker of Sluice is: which workflows, activities, pools and targets it has, how it starts and how it stops. A
// process that holds a state folder is one, and so are those that work for a cluster.
package worker

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"k8s.io/klog/v2"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/fault/boundary"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/script"
)

// Options says what the worker of this process does.
type Options struct {
	// Work makes this process a worker also on a cluster. The holder of a state folder always is one.
	Work bool
	// Stateless keeps a worker on a cluster from what lives in the process that does it, so that another worker must: the nodes of a local
	// pool, with all trainings, and the gateways of targets that have no URL, with the rollouts to them.
	Stateless bool
	// MetricsListen is the address, host:port, at which a worker answers Prometheus; empty for none.
	MetricsListen string
	// ServeListen is the address, without a port, at which the gateways of a worker serve models; empty for loopback.
	ServeListen string
	// Deployment, when set, makes the worker a versioned one: runs stay with the build that began them. For clusters; the embedded server
	// is unversioned, since a new build must go on with open runs.
	Deployment Deployment
	// Notice takes a line for each run that begins or ends in this process; nil for nobody. Runs of child pipelines are their parents'.
	Notice func(string)

	interceptors []interceptor.WorkerInterceptor // for tests
}

// Worker is what a process does for the runs of its session: it carries them on, and serves the targets that have releases. A nil Worker
// does nothing.
type Worker struct {
	session  *control.Session
	pythons  *script.Pythons
	asking   sync.WaitGroup // for what python is
	stopAsk  context.CancelFunc
	workers  []worker.Worker
	metrics  *metrics // nil without Options.MetricsListen
	gateways *Gateways
	failed   chan error
	notice   func(string) // Options.Notice; nil for nobody
	// executions are what the steps of this worker do.
	executions activities.Executions
	// closing is what closes the records of runs that were ended from outside, and ends what they left, until stopClosing.
	closing     sync.WaitGroup
	stopClosing context.CancelFunc
}

// kubernetesLog gives Kubernetes' client a log, once for the process: without it, it speaks to standard error.
var kubernetesLog sync.Once

// Open connects as control.Open does. In the holder of the state folder, and with Options.Work, it also starts a worker and the gateways of
// the targets that have releases; in others the worker is nil. The worker is to be closed before the session.
func Open(ctx context.Context, at control.Options, o Options) (_ *control.Session, _ *Worker, err error) {
	if err := state.CheckPython(); err != nil && at.Python == "" && (o.Work || !connect.ClusterNamed()) {
		return nil, nil, err
	}
	w := &Worker{failed: make(chan error, 1), pythons: &script.Pythons{Own: cmp.Or(at.Python, state.FindPython()), Named: state.PythonNamed()}, notice: o.Notice}
	at.Python = w.pythons.Own
	if o.MetricsListen != "" {
		at.Metrics = func(log *slog.Logger) client.MetricsHandler {
			w.metrics = newMetrics(log)
			return w.metrics.handler
		}
	}
	w.askPython(ctx)
	defer func() {
		if err != nil {
			err = errors.Join(err, w.Close())
			if w.session != nil {
				err = errors.Join(err, w.session.Close())
			}
		}
	}()
	if w.session, err = control.Open(ctx, at); err != nil {
		return nil, nil, err
	}
	if w.session.Holder == nil && !o.Work {
		return w.session, nil, w.Close()
	}
	return w.session, w, w.start(ctx, o)
}

// askPython asks, while a server starts, which Python there is. The key of the first step needs it, and asks again if this fails.
func (w *Worker) askPython(ctx context.Context) {
	ctx, w.stopAsk = context.WithCancel(ctx)
	w.asking.Go(func() { _, _ = w.pythons.Digest(ctx, "") })
}

// start starts the worker and the gateways.
func (w *Worker) start(ctx context.Context, o Options) error {
	s := w.session
	kubernetesLog.Do(func() { klog.SetSlogLogger(s.Log) })
	sweep(s)
	w.gateways = NewGateways(s.Store, s.Dir, s.Log)
	w.gateways.host = o.ServeListen
	if s.Holder == nil {
		if err := s.EnsureSearchAttributes(ctx); err != nil {
			return err
		}
	}
	host, err := os.Hostname()
	if err != nil {
		return fmt.Errorf("get the name of this machine: %w", err)
	}
	w.executions.Identity = fmt.Sprintf("%d@%s@%s", os.Getpid(), host, rand.Text()[:8]) // in containers all may be process 1 of one machine
	queues := []string{contract.TaskQueue, contract.HostQueue}
	if o.Stateless {
		queues = queues[:1]
	}
	for _, queue := range queues {
		w.workers = append(w.workers, worker.New(s.Client, queue, worker.Options{
			Identity:          w.executions.Identity,
			WorkerStopTimeout: stopTimeout,
			DeploymentOptions: o.Deployment.options(),
			OnFatalError:      w.fail,
			// The engine's local activities are many and short; each waits for the disk.
			MaxConcurrentLocalActivityExecutionSize: 200,
			Interceptors:                            append([]interceptor.WorkerInterceptor{&boundary.Interceptor{}, &heartbeat.Interceptor{}, &ends{}}, o.interceptors...),
		}))
	}
	if err := w.register(); err != nil {
		return err
	}
	if !o.Stateless { // before a rollout asks for one of them
		if err := w.gateways.Restore(ctx); err != nil { // a run that needs the target says so itself
			s.Log.Error("the targets that were served before could not be served", "error", err)
		}
	}
	for _, each := range w.workers {
		if err := each.Start(); err != nil {
			return fmt.Errorf("start the worker: %w", err)
		}
	}
	background, stop := context.WithCancel(context.WithoutCancel(ctx))
	w.stopClosing = stop
	w.closeLost(background)
	w.sweepInstances(background)
	if w.metrics != nil {
		return w.metrics.listen(ctx, o.MetricsListen, s.Info.Namespace, w.gateways, s.Log)
	}
	return nil
}

// stopTimeout is how long a worker waits for its activities when it stops: long enough for what is nearly done, and not for programs,
// which end with this process and are started again by the next worker.
const stopTimeout = 2 * time.Second

// stopWorkers stops the workers side by side, since each may wait for its activities.
func (w *Worker) stopWorkers() {
	var stopping sync.WaitGroup
	for _, each := range w.workers {
		stopping.Go(each.Stop)
	}
	stopping.Wait()
}

// sweep removes the folders of attempts that a killed process left behind.
func sweep(s *control.Session) {
	var err error
	if s.Holder == nil { // a shared state folder may be in use by other workers
		err = activities.SweepAttempts(s.Dir)
	} else {
		err = script.RemoveFolder(filepath.Join(s.Dir, "tmp"))
	}
	if err != nil {
		s.Log.Warn("could not remove everything that an earlier worker left", "error", err)
	}
}

// Targets returns where every target that this process serves is, by name.
func (w *Worker) Targets() map[string]Address { return ofGateways(w, (*Gateways).Addresses) }

// Serving says, by target, which releases of it answer requests.
func (w *Worker) Serving() map[string]string { return ofGateways(w, (*Gateways).Serving) }

// Troubles says, by target, why one that this process should serve is not, or not with all its releases.
func (w *Worker) Troubles() map[string]string { return ofGateways(w, (*Gateways).Troubles) }

// ofGateways asks the gateways of a process, if it has any.
func ofGateways[T any](w *Worker, ask func(*Gateways) map[string]T) map[string]T {
	if w == nil || w.gateways == nil {
		return nil
	}
	return ask(w.gateways)
}

// fail reports that the worker cannot go on.
func (w *Worker) fail(err error) {
	select {
	case w.failed <- err:
	default:
	}
}

// Failed yields the error that ended the worker, if one does.
func (w *Worker) Failed() <-chan error {
	if w == nil {
		return nil
	}
	return w.failed
}

// Close stops what Open started beside the session. Runs go on when Sluice is next started.
func (w *Worker) Close() error {
	if w == nil {
		return nil
	}
	var errs []error
	if w.stopClosing != nil {
		w.stopClosing()
	}
	w.closing.Wait()
	w.stopWorkers()
	w.executions.Close()
	if w.gateways != nil {
		errs = append(errs, w.gateways.Close())
	}
	if w.metrics != nil {
		errs = append(errs, w.metrics.close())
	}
	w.stopAsk()
	w.asking.Wait()
	return errors.Join(errs...)
}
