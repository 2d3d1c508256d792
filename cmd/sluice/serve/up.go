// Package serve is the commands that keep Sluice running: up, worker, serve, codec and doctor.
package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/worker"
)

// NewUp makes `sluice up`.
func NewUp() *cobra.Command {
	var at control.Options
	var options worker.Options
	cmd := &cobra.Command{
		Use:   "up",
		Short: "Keep Sluice up: Temporal, its UI, a worker and the targets",
		Long: `Hold the state folder: run Temporal, its UI, a worker and the gateways of the targets that have a release, until Ctrl-C. Runs that
were left go on. Other commands with the same state folder use what this one runs. Everything listens on loopback only, but for what
--metrics-listen names: there the worker answers Prometheus at /metrics.

A target that cannot be served is said on the terminal and tried again. When one is still not served at the end, the exit code is 1.`,
		Example: `  sluice up
  sluice up --ui-port 8233`,
		Args: cobra.NoArgs,
	}
	cmd.Flags().IntVar(&at.FrontendPort, "port", 0, "port of Temporal's frontend (default: that of the last time, else a free one)")
	cmd.Flags().IntVar(&at.UIPort, "ui-port", 0, "port of Temporal's UI (default: that of the last time, else a free one)")
	metricsListen(cmd, &options)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		state := kit.StateDir(cmd)
		at.StateDir = state
		if connect.ClusterNamed() {
			return kit.UsageError(cmd, "the environment names a Temporal cluster, so there is nothing to hold here: use `sluice worker`")
		}
		if info, held, err := holder.Find(state); err != nil {
			return err
		} else if held {
			return fmt.Errorf("the state folder %s is held by process %d already; it serves this folder's commands as it is", state, info.PID)
		}
		return stay(cmd, at, options, func(s *control.Session, w *worker.Worker) error {
			if s.Holder == nil {
				return fmt.Errorf("the state folder %s was taken by process %d just now", state, s.Info.PID)
			}
			return printAddresses(cmd.OutOrStdout(), s, w)
		})
	}
	return cmd
}

func metricsListen(cmd *cobra.Command, options *worker.Options) {
	cmd.Flags().StringVar(&options.MetricsListen, "metrics-listen", "", "address for Prometheus, such as 127.0.0.1:9464 (default: none)")
}

func printAddresses(out io.Writer, s *control.Session, w *worker.Worker) error {
	if _, err := fmt.Fprintf(out, "Temporal  %s\nUI        %s\n", s.Info.TemporalAddress, s.WorkflowURL("", "")); err != nil {
		return err
	}
	targets := w.Targets()
	for _, target := range slices.Sorted(maps.Keys(targets)) {
		if _, err := fmt.Fprintf(out, "target    %s at %s\n", target, targets[target]); err != nil {
			return err
		}
	}
	for _, trigger := range s.Restored {
		if _, err := fmt.Fprintf(out, "trigger   %s put back: Temporal's database had lost it\n", trigger); err != nil {
			return err
		}
	}
	_, err := fmt.Fprintln(out, "up; Ctrl-C stops")
	return err
}

// NewWorker is the production form: a worker beside a cluster of the user's.
func NewWorker() *cobra.Command {
	var at control.Options
	options := worker.Options{Work: true}
	cmd := &cobra.Command{
		Use:   "worker",
		Short: "Work for a Temporal cluster",
		Long: `Work for a Temporal cluster until SIGTERM or Ctrl-C. The cluster is named by TEMPORAL_ADDRESS, or by a profile of Temporal's own
configuration file (TEMPORAL_PROFILE, TEMPORAL_CONFIG_FILE), with TLS and API keys as there. SLUICE_STORE names the store that all
workers share. Search attributes that the namespace lacks are created, and with --create-namespace the namespace itself.

The nodes of a local pool and the gateways of targets live in the process of a worker. Where several workers share the load, run one
that trains and serves, and the others with --stateless.

With --metrics-listen the worker answers Prometheus at /metrics. Models are served on loopback, unless --serve-listen names another
address; whoever reaches that address can ask them.

With --deployment and --build-id the worker takes part in Temporal's Worker Versioning: a run stays with the build that began it, and new
runs go to the build that ` + "`sluice worker set-current`" + ` names. Keep workers of the old build until its runs have ended:
` + "`sluice worker versions`" + ` counts them.`,
		Example: `  TEMPORAL_ADDRESS=temporal.internal:7233 SLUICE_STORE=file:///mnt/sluice sluice worker
  sluice worker --stateless
  sluice worker --deployment sluice --build-id 2026-11-21
  sluice worker set-current --deployment sluice --build-id 2026-11-21`,
		Args: cobra.NoArgs,
	}
	addDeployment(cmd, &options.Deployment)
	cmd.Flags().BoolVar(&options.Stateless, "stateless", false, "take no part in training and rollouts")
	cmd.Flags().BoolVar(&at.CreateNamespace, "create-namespace", false, "create the namespace if the cluster lacks it; ended workflows are kept for 3 days")
	metricsListen(cmd, &options)
	cmd.Flags().StringVar(&options.ServeListen, "serve-listen", "", "address at which models are served, without a port (default: 127.0.0.1)")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if !connect.ClusterNamed() {
			return kit.UsageError(cmd, "no Temporal cluster is named: set TEMPORAL_ADDRESS or TEMPORAL_PROFILE, or use `sluice up`, which brings its own")
		}
		if err := options.Deployment.Check(); err != nil {
			return kit.UsageError(cmd, err.Error())
		}
		if _, port, err := net.SplitHostPort(options.ServeListen); err == nil {
			return kit.UsageError(cmd, "--serve-listen is an address without a port, since each target has its own: leave `:"+port+"` out")
		}
		at.StateDir = kit.StateDir(cmd)
		return stay(cmd, at, options, func(s *control.Session, _ *worker.Worker) error {
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "working for %s, namespace %s%s; Ctrl-C stops\n", s.Info.TemporalAddress, s.Info.Namespace, saysBuild(cmd.Context(), s, options.Deployment))
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
		said += fmt.Sprintf(" (new runs begin on it after: sluice worker set-current --deployment %s --build-id %s)", d.Name, d.BuildID)
	}
	return said
}

// stay opens a session and a worker, says so by ready, and keeps both until a signal comes or the worker fails.
func stay(cmd *cobra.Command, at control.Options, o worker.Options, ready func(*control.Session, *worker.Worker) error) (err error) {
	ctx, stop := kit.Interruptible(cmd.Context())
	defer stop()
	s, w, err := worker.Open(ctx, at, o)
	if err != nil {
		if errors.Is(err, context.Canceled) && ctx.Err() != nil {
			return nil
		}
		return err
	}
	defer func() { err = errors.Join(err, w.Close(), s.Close()) }()
	if err := ready(s, w); err != nil {
		return err
	}
	return watch(ctx, w, cmd.ErrOrStderr())
}

// lookEvery spaces looks at whether all targets are served.
const lookEvery = time.Second

// watch waits for the end of ctx or of the worker, and says what happens to the targets meanwhile. The error tells of those that are
// not served at the end.
func watch(ctx context.Context, w *worker.Worker, notes io.Writer) error {
	again := time.Tick(lookEvery)
	said := map[string]string{}
	for {
		now := w.Troubles()
		for _, target := range slices.Sorted(maps.Keys(now)) {
			if said[target] != now[target] {
				fmt.Fprintf(notes, "sluice: target %s: %s; it is tried again\n", target, now[target]) //nolint:errcheck // the exit code says so too
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
			_, err := fmt.Fprintln(notes, "sluice: stopping; runs go on when Sluice is next started")
			if len(said) > 0 {
				err = errors.Join(err, kit.ExitWith(kit.ExitInfrastructure))
			}
			return err
		case err := <-w.Failed():
			return fmt.Errorf("the worker has stopped: %w", err)
		}
	}
}
