// Package worker is the wiring: which workflows, activities, pools and targets exist, how a process reaches Temporal, and what a
// process that holds a state folder runs.
package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"k8s.io/klog/v2"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect/codec"
	"github.com/sluiceml/sluice/connect/embedded"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/store"
)

// StateDir is the state folder when nothing else is said.
const StateDir = ".sluice"

// Options says where the state is and what this process does.
type Options struct {
	// StateDir is the state folder. Default: .sluice in the working folder.
	StateDir string
	// Python is the virtual environment of the users' programs; empty for the one FindPython finds.
	Python string
	// Logger takes what Temporal's client and worker say. Default: a file in the state folder.
	Logger *slog.Logger
	// Work makes this process a worker also on a cluster. The holder of a state folder always is one.
	Work bool
	// Stateless keeps a worker on a cluster from training and rolling out: the nodes of a local pool and the gateways of targets live in
	// the process that does, so another worker must.
	Stateless bool
	// CreateNamespace creates the namespace that a cluster lacks.
	CreateNamespace bool
	// MetricsListen is the address, host:port, at which a worker answers Prometheus; empty for none.
	MetricsListen string
	// ServeListen is the address, without a port, at which the gateways of a worker serve models; empty for loopback.
	ServeListen string
	// Idle keeps the holder of a state folder from being one: only its server runs, while somebody looks at or changes what it keeps.
	Idle bool
	// Follow makes known that this process follows a run: whoever holds the state folder does not leave of itself meanwhile. It asks
	// Alone before it does.
	Follow bool
	// Deployment, when set, makes the worker a versioned one: runs stay with the build that began them. For clusters; the embedded server
	// is unversioned, since a new build must go on with open runs.
	Deployment Deployment
	// FrontendPort and UIPort of a server started here; 0 for free ones.
	FrontendPort, UIPort int

	settings     embedded.Settings               // of a server started here, and
	interceptors []interceptor.WorkerInterceptor // of this process's worker: for tests
}

// Session is a process's connection to everything: Temporal, the store and, in a holder, what it runs.
type Session struct {
	*Connection
	Store *store.Store
	// Dir is the state folder, absolute.
	Dir string

	// Restored are the triggers that this process put back on a server that had lost them.
	Restored []string

	codec    *codec.Codec
	python   *script.Interpreter
	asking   sync.WaitGroup // for what python is
	stopAsk  context.CancelFunc
	follower *holder.Follower // not nil with Options.Follow
	log      *os.File
	workers  []worker.Worker
	metrics  *metrics // nil without Options.MetricsListen
	gateways *Gateways
	failed   chan error
}

// kubernetesLog gives Kubernetes' client a log, once for the process: without it, it speaks to standard error.
var kubernetesLog sync.Once

// Open connects, starting whatever nobody runs yet: see Connect. In the holder of the state folder, and with Options.Work, it also
// starts a worker and the gateways of the targets that have releases.
func Open(ctx context.Context, o Options) (_ *Session, err error) {
	if o.StateDir == "" {
		o.StateDir = StateDir
	}
	s := &Session{failed: make(chan error, 1), python: &script.Interpreter{Env: cmp.Or(o.Python, FindPython())}}
	defer func() {
		if err != nil {
			err = errors.Join(err, s.Close())
		}
	}()
	if s.Dir, err = filepath.Abs(o.StateDir); err != nil {
		return nil, err
	}
	if o.Logger == nil {
		if o.Logger, err = s.openLog(); err != nil {
			return nil, err
		}
	}
	kubernetesLog.Do(func() { klog.SetSlogLogger(o.Logger) })
	if s.Store, err = OpenStore(ctx, s.Dir); err != nil {
		return nil, err
	}
	if o.Follow {
		if err := s.follow(ctx); err != nil {
			return nil, err
		}
	}
	if s.codec, err = codec.Open(os.Getenv(codec.KeysVariable), activities.Patient(s.Store)); err != nil {
		return nil, err
	}
	if !o.Idle {
		s.askPython(ctx)
	}
	if o.MetricsListen != "" {
		s.metrics = newMetrics(o.Logger)
	}
	s.Connection, err = Connect(ctx, ConnectOptions{
		Dir: s.Dir, Logger: o.Logger, Codec: s.codec, FrontendPort: o.FrontendPort, UIPort: o.UIPort, ServerLogLevel: slog.LevelWarn,
		Python: s.python.Env, CreateNamespace: o.CreateNamespace, Metrics: s.metrics.sdk(), settings: o.settings,
	})
	if err != nil {
		return nil, err
	}
	if s.Holder != nil { // also when Idle: what asks for the triggers must find them
		var failed error
		if s.Restored, failed = s.Schedules().Restore(ctx); failed != nil { // a trigger that cannot be put back keeps nothing else from running
			o.Logger.Error("triggers that the server had lost are not all put back", "error", failed)
		}
	}
	if s.Holder != nil && !o.Idle || o.Work {
		return s, s.work(ctx, o)
	}
	return s, nil
}

// askPython asks, while a server starts, which Python there is. The key of the first step needs it, and asks again if this fails.
func (s *Session) askPython(ctx context.Context) {
	ctx, s.stopAsk = context.WithCancel(ctx)
	s.asking.Go(func() { _, _ = s.python.Digest(ctx) })
}

// follow makes this process known as one that follows a run. One that leaves at this moment is waited for.
func (s *Session) follow(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, connectTimeout, fmt.Errorf("it has not left within %v", connectTimeout))
	defer cancel()
	s.follower, err = holder.Follow(ctx, s.Dir)
	return err
}

// Alone reports, of a session with Options.Follow, whether no other process follows a run. From then on none begins to until Close.
func (s *Session) Alone() (bool, error) { return s.follower.Alone() }

// openLog opens the log of this process's Temporal client and worker.
func (s *Session) openLog() (*slog.Logger, error) {
	if err := os.MkdirAll(s.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("state folder %s cannot be made: %w: make it writable, or name another with --state", s.Dir, err)
	}
	f, err := os.OpenFile(filepath.Join(s.Dir, "worker.log"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("state folder %s cannot be written: %w: make it writable, or name another with --state", s.Dir, err)
	}
	s.log = f
	return slog.New(slog.NewTextHandler(f, &slog.HandlerOptions{Level: slog.LevelInfo})), nil
}

// work starts the worker and the gateways.
func (s *Session) work(ctx context.Context, o Options) error {
	if err := s.sweep(); err != nil {
		return err
	}
	s.gateways = NewGateways(s.Store, s.Dir, o.Logger)
	s.gateways.host = o.ServeListen
	if s.Holder == nil {
		if err := s.ensureSearchAttributes(ctx); err != nil {
			return err
		}
	}
	queues := []string{contract.TaskQueue, contract.HostQueue}
	if o.Stateless {
		queues = queues[:1]
	}
	for _, queue := range queues {
		s.workers = append(s.workers, worker.New(s.Client, queue, worker.Options{
			WorkerStopTimeout: stopTimeout,
			DeploymentOptions: o.Deployment.options(),
			OnFatalError:      s.fail,
			// The engine's local activities are many and short; each waits for the disk.
			MaxConcurrentLocalActivityExecutionSize: 200,
			Interceptors:                            append([]interceptor.WorkerInterceptor{&heartbeat.Interceptor{}, &departures{}, &refusals{}}, o.interceptors...),
		}))
	}
	if err := s.register(); err != nil {
		return err
	}
	for _, w := range s.workers {
		if err := w.Start(); err != nil {
			return fmt.Errorf("start the worker: %w", err)
		}
	}
	if !o.Stateless {
		if err := s.gateways.Restore(ctx); err != nil { // a run that needs the target says so itself
			o.Logger.Error("what was served before is not served", "error", err)
		}
	}
	if s.metrics != nil {
		return s.metrics.listen(ctx, o.MetricsListen, s.Info.Namespace, s.gateways, o.Logger)
	}
	return nil
}

// stopTimeout is how long a worker waits for its activities when it stops: long enough for what is nearly done, and not for programs,
// which end with this process and are started again by the next worker.
const stopTimeout = 2 * time.Second

// stopWorkers stops the workers side by side, since each may wait for its activities.
func (s *Session) stopWorkers() {
	var stopping sync.WaitGroup
	for _, w := range s.workers {
		stopping.Go(w.Stop)
	}
	stopping.Wait()
}

// sweep removes the folders of attempts that a killed holder left behind.
func (s *Session) sweep() error {
	if s.Holder == nil {
		return nil // a shared state folder may be in use by other workers
	}
	if err := os.RemoveAll(filepath.Join(s.Dir, "tmp")); err != nil {
		return fmt.Errorf("clear what an earlier process left in %s: %w", s.Dir, err)
	}
	return nil
}

// Targets returns where every target that this process serves is, by name.
func (s *Session) Targets() map[string]Address {
	if s.gateways == nil {
		return nil
	}
	return s.gateways.Addresses()
}

// Troubles says, by target, why one that this process should serve is not, or not with all its releases.
func (s *Session) Troubles() map[string]string {
	if s.gateways == nil {
		return nil
	}
	return s.gateways.Troubles()
}

// fail reports that the worker cannot go on.
func (s *Session) fail(err error) {
	select {
	case s.failed <- err:
	default:
	}
}

// Failed yields the error that ended the worker of this process, if one does.
func (s *Session) Failed() <-chan error { return s.failed }

// Close stops what Open started. Runs go on when Sluice is next started.
func (s *Session) Close() error {
	var errs []error
	s.stopWorkers()
	if s.gateways != nil {
		errs = append(errs, s.gateways.Close())
	}
	if s.metrics != nil {
		errs = append(errs, s.metrics.close())
	}
	if s.Connection != nil {
		errs = append(errs, s.Connection.Close())
	}
	if s.stopAsk != nil {
		s.stopAsk()
		s.asking.Wait()
	}
	if s.follower != nil { // after the folder is free, so that those who wait find it so
		errs = append(errs, s.follower.Close())
	}
	if s.log != nil {
		errs = append(errs, s.log.Close())
	}
	return errors.Join(errs...)
}
