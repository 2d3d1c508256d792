// Package host has the commands that keep Sluice running: up, worker, serve, codec and doctor.
package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/connect"
	folder "github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/worker"
)

// NewUp makes `sluice up`.
func NewUp() *cobra.Command {
	var at control.Options
	var options worker.Options
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Run Temporal, its UI, a worker and the targets",
		Long: `Hold the state folder: run Temporal, its UI, a worker and the gateways of the
targets that have a release, until Ctrl-C. Interrupted runs continue. Other
commands with the same state folder use this process. It listens on loopback
only, except for the address given with --metrics-listen, where the worker
serves Prometheus metrics at /metrics.

A line is printed when a run starts, continues or ends, and when a target
serves another release. If a target cannot be served, that is reported, and it
is retried. If one is not served when the command ends, the exit code is 1.

If another process already holds the folder, the command exits with 1
immediately. With --wait it waits until that process has ended and takes over.
Use this for a service: a ` + "`sluice run`" + ` that was started while the service
restarted holds the folder until its run has ended.`,
		Example: `  sluice up
  sluice up --wait --state /srv/sluice/.sluice
  sluice up --ui-port 8233`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&at.FrontendPort, "port", 0, "port of Temporal's frontend (default: the last one used, or a free one)")
	cmd.Flags().IntVar(&at.UIPort, "ui-port", 0, "port of Temporal's UI (default: the last one used, or a free one)")
	wait := cmd.Flags().Bool("wait", false, "if another process holds the state folder, wait until it has ended")
	metricsListen(cmd, &options)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		at.StateDir = kit.StateDir(cmd)
		if max(at.FrontendPort, at.UIPort) > 65535 || min(at.FrontendPort, at.UIPort) < 0 {
			return kit.UsageError(cmd, "--port and --ui-port must be from 0 to 65535")
		}
		if connect.ClusterNamed() {
			return kit.UsageError(cmd, "the environment variables select a Temporal cluster, so Sluice does not run its own: use `sluice worker`")
		}
		log := &eventLog{out: cmd.OutOrStdout()}
		options.Notice = log.line
		for {
			err := awaitFolder(cmd, at.StateDir, *wait)
			if err == nil {
				err = stay(cmd, at, options, log, func(s *control.Session, w *worker.Worker) error {
					if s.Holder == nil {
						return heldError(at.StateDir, s.Info.PID)
					}
					if err := printAddresses(cmd.OutOrStdout(), s, w); err != nil {
						return err
					}
					return log.resumed(cmd.Context(), s)
				})
			}
			switch {
			case errors.Is(err, context.Canceled): // while it waited
				return nil
			case !*wait || !errors.Is(err, holder.ErrHeld):
				return err
			}
		}
	}
	return cmd
}

// heldError says that another process holds the state folder. It is a holder.ErrHeld.
func heldError(state string, pid int) error {
	return fmt.Errorf("the state folder %s is %w, %d; commands with this folder already use that process\n"+
		"help: use `sluice up --wait` to take over when that process has ended", state, holder.ErrHeld, pid)
}

// awaitEvery is the interval between checks whether the holder of a state folder has ended.
const awaitEvery = 200 * time.Millisecond

// awaitFolder returns when no process holds the state folder or, with wait, when that has become true or a signal asks this process to end.
func awaitFolder(cmd *cobra.Command, state string, wait bool) error {
	if err := folder.Check(state); err != nil {
		return err
	}
	ctx, stop := kit.Interruptible(cmd.Context())
	defer stop()
	said := 0
	for range poll.Every(ctx, awaitEvery) {
		info, held, err := holder.Find(state)
		switch {
		case err != nil || !held:
			return err
		case !wait:
			return heldError(state, info.PID)
		case said != info.PID:
			said = info.PID
			if _, err := fmt.Fprintf(cmd.ErrOrStderr(), "sluice: waiting for process %d, which holds the state folder %s, to end\n", info.PID, state); err != nil {
				return err
			}
		}
	}
	return context.Cause(ctx)
}

// eventLog prints a line for each event, from several goroutines.
type eventLog struct {
	mu  sync.Mutex
	out io.Writer
}

func (l *eventLog) line(text string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	fmt.Fprintf(l.out, "%s  %s\n", time.Now().Format(time.RFC3339), text) //nolint:errcheck // it happens all the same
}

// resumed prints which runs of an earlier process continue.
func (l *eventLog) resumed(ctx context.Context, s *control.Session) error {
	all, err := record.Runs(ctx, s.Store)
	own, _ := record.Apart(all)
	for _, r := range slices.Backward(own) { // the oldest first
		if r.Status != spec.StatusRunning {
			continue
		}
		if closed, err := s.CloseLost(ctx, r.Run); err == nil && !closed {
			l.line("run " + r.Run + " continues")
		}
	}
	return err
}

func metricsListen(cmd *cobra.Command, options *worker.Options) {
	cmd.Flags().StringVar(&options.MetricsListen, "metrics-listen", "", "address to serve Prometheus metrics on, such as 127.0.0.1:9464 (default: none)")
}

func printAddresses(out io.Writer, s *control.Session, w *worker.Worker) error {
	var b strings.Builder
	fmt.Fprintf(&b, "state     %s\nTemporal  %s\nUI        %s\n", s.Dir, s.Info.TemporalAddress, view.ThemeOf(out).Page(s.WorkflowURL("", "")))
	b.WriteString(saysMetrics(w))
	targets := w.Targets()
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		fmt.Fprintf(&b, "target    %s at %s\n", target, targets[target])
	}
	for _, trigger := range s.Restored {
		fmt.Fprintf(&b, "trigger   %s restored: it was missing from Temporal's database\n", trigger)
	}
	_, err := fmt.Fprintln(out, b.String()+"up; Ctrl-C stops")
	return err
}

// saysMetrics says where the worker answers Prometheus, whose port it may have chosen itself.
func saysMetrics(w *worker.Worker) string {
	at := w.MetricsAddress()
	if at == "" {
		return ""
	}
	return fmt.Sprintf("metrics   http://%s/metrics\n", at)
}

// NewWorker makes `sluice worker`, the form for production: a worker for a Temporal cluster of the user's.
func NewWorker() *cobra.Command {
	var at control.Options
	options := worker.Options{Work: true}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Run a worker for a Temporal cluster",
		Long: `Run a worker for a Temporal cluster until SIGTERM or Ctrl-C. The cluster is set
with TEMPORAL_ADDRESS, or with a profile in Temporal's own configuration file
(TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE), including TLS and API keys.
SLUICE_STORE is the store that all workers share. Missing search attributes are
created in the namespace, and with --create-namespace the namespace itself. If
the cluster or its database does not answer, the worker says so and waits.

The nodes of a local pool, and the gateways of targets that have no ` + "`url`" + ` in
the environment, live in a worker's process. If several workers share the load,
run one that trains and serves, and the others with --stateless. Rollouts to
targets whose gateways are replicas of ` + "`sluice serve`" + ` run on any worker.

With --metrics-listen the worker serves Prometheus metrics at /metrics. Models
are served on loopback unless --serve-listen sets another address; anyone who
can connect to that address can use them.

With --deployment and --build-id the worker uses Temporal's Worker Versioning:
a run stays on the build that started it, and new runs go to the build set with
` + "`sluice worker set-current`" + `. Keep workers of the old build until its runs have
ended: ` + "`sluice worker versions`" + ` counts them.`,
		Example: `  export TEMPORAL_ADDRESS=temporal.internal:7233 SLUICE_STORE=file:///mnt/sluice
  sluice worker
  sluice worker --stateless
  sluice worker --deployment sluice --build-id 2026-11-21
  sluice worker set-current --deployment sluice --build-id 2026-11-21`,
		Args: cobra.NoArgs,
	}
	addDeployment(cmd, &options.Deployment)
	cmd.Flags().BoolVar(&options.Stateless, "stateless", false, "do not run train steps, nor rollouts to targets that have no url")
	cmd.Flags().BoolVar(&at.CreateNamespace, "create-namespace", false, "create the namespace if it is missing, with a retention of 3 days")
	metricsListen(cmd, &options)
	cmd.Flags().StringVar(&options.ServeListen, "serve-listen", "", "address to serve models on, without a port (default: 127.0.0.1)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !connect.ClusterNamed() {
			return kit.UsageError(cmd, "no Temporal cluster is set: set TEMPORAL_ADDRESS or TEMPORAL_PROFILE, or use `sluice up`, which runs its own")
		}
		if err := options.Deployment.Check(); err != nil {
			return kit.UsageError(cmd, err.Error())
		}
		if _, port, err := net.SplitHostPort(options.ServeListen); err == nil {
			return kit.UsageError(cmd, "--serve-listen must be an address without a port, since each target has its own: remove `:"+port+"`")
		}
		at.StateDir = kit.StateDir(cmd)
		return stay(cmd, at, options, nil, func(s *control.Session, w *worker.Worker) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "%sworker for %s, namespace %s%s; Ctrl-C stops\n", saysMetrics(w), s.Info.TemporalAddress, s.Info.Namespace, saysBuild(cmd.Context(), s, options.Deployment))
			return err
		})
	}
	kit.AddStrict(cmd, newWorkerVersions(), newWorkerSetCurrent())
	return cmd
}

// saysBuild says which build a worker is, and what it lacks to get new runs.
func saysBuild(ctx context.Context, s *control.Session, d worker.Deployment) string {
	if d.Name == "" {
		return ""
	}
	said := fmt.Sprintf(" as build %s of deployment %s", d.BuildID, d.Name)
	if current, err := worker.CurrentBuild(ctx, s.Connection, d.Name); err == nil && current != d.BuildID { // who may not ask has to know
		said += fmt.Sprintf(" (to start new runs on it: sluice worker set-current --deployment %s --build-id %s)", d.Name, d.BuildID)
	}
	return said
}

// stay opens a session and a worker, calls ready, and keeps both until a signal arrives or the worker fails. Changes of what is served are
// printed to log, unless it is nil.
func stay(cmd *cobra.Command, at control.Options, o worker.Options, log *eventLog, ready func(*control.Session, *worker.Worker) error) (err error) {
	ctx, stop := kit.Interruptible(cmd.Context())
	defer stop()
	s, w, err := open(ctx, at, o, cmd.ErrOrStderr())
	if err != nil {
		if ctx.Err() != nil && (errors.Is(err, context.Canceled) || connect.IsAway(err)) {
			return nil
		}
		return err
	}
	defer func() { err = errors.Join(err, w.Close(), s.Close()) }()
	if err := ready(s, w); err != nil {
		return err
	}
	return watch(ctx, w, log, cmd.ErrOrStderr())
}

// openEvery spaces attempts to join a cluster that does not answer.
const openEvery = 2 * time.Second

// open opens a session and a worker. A worker waits for a cluster that does not answer, or whose database does not, until ctx ends.
func open(ctx context.Context, at control.Options, o worker.Options, notes io.Writer) (s *control.Session, w *worker.Worker, err error) {
	said := ""
	for range poll.Every(ctx, openEvery) {
		if s, w, err = worker.Open(ctx, at, o); !o.Work || !connect.IsAway(err) {
			break
		}
		if err.Error() != said {
			said = err.Error()
			fmt.Fprintf(notes, "sluice: %s; retrying\n", said) //nolint:errcheck // it is tried again all the same
		}
	}
	return s, w, err
}

// serving writes what serves otherwise than before, and returns what does now.
func (l *eventLog) serving(before, now map[string]string) map[string]string {
	for _, target := range slices.Sorted(maps.Keys(now)) {
		if now[target] != before[target] {
			l.line("target " + target + " serves " + now[target])
		}
	}
	for _, target := range slices.Sorted(maps.Keys(before)) {
		if now[target] == "" {
			l.line("target " + target + " serves no release")
		}
	}
	return now
}

// lookEvery spaces looks at whether all targets are served.
const lookEvery = time.Second

// watch waits for the end of ctx or of the worker, and says what happens to the targets meanwhile. The error tells of those that are
// not served at the end.
func watch(ctx context.Context, w *worker.Worker, log *eventLog, notes io.Writer) error {
	again := time.Tick(lookEvery)
	said, serves := map[string]string{}, map[string]string{}
	for {
		if log != nil {
			serves = log.serving(serves, w.Serving())
		}
		now := w.Troubles()
		for _, target := range slices.Sorted(maps.Keys(now)) {
			if said[target] != now[target] {
				fmt.Fprintf(notes, "sluice: target %s: %s; retrying\n", target, now[target]) //nolint:errcheck // the exit code says so too
			}
		}
		for _, target := range slices.Sorted(maps.Keys(said)) {
			if _, still := now[target]; !still {
				fmt.Fprintf(notes, "sluice: target %s is served again at %s\n", target, w.Targets()[target].URL) //nolint:errcheck // it is served all the same
			}
		}
		said = now
		select {
		case <-again:
		case <-ctx.Done():
			_, err := fmt.Fprintln(notes, "sluice: stopping; runs continue when Sluice is next started")
			if len(said) > 0 {
				err = errors.Join(err, kit.ExitWith(kit.ExitInfrastructure))
			}
			return err
		case err := <-w.Failed():
			return fmt.Errorf("the worker has stopped: %w", err)
		}
	}
}
