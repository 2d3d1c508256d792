package host

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"os"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/environment"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/worker"
)

// defaultDrain is as long as load balancers usually take to notice that a server is not ready.
const defaultDrain = 5 * time.Second

// NewServe makes `sluice serve`.
func NewServe() *cobra.Command {
	var env string
	drain := defaultDrain
	cmd := &cobra.Command{
		Use:   "serve [TARGET...]",
		Short: "Serve the released models only",
		Long: `Serve the current releases of an environment's targets, all of them unless some
are named, over the Open Inference Protocol v2. The command needs only the
store, neither Temporal nor a worker, and may run any number of times behind a
load balancer; it picks up releases and rollouts from the store. Without -e, it
serves the targets that this state folder has served before.

After SIGTERM or Ctrl-C, the gateway says at /v2/health/ready that it is not
ready, and keeps answering for the time of --drain; then it finishes the
requests in progress, for at most 20 seconds. A second signal ends the wait.`,
		Example: `  sluice serve -e environment.yaml
  sluice serve production -e environment.yaml --drain 15s
  curl localhost:8080/v2/models/production`,
		Args: cobra.ArbitraryArgs,
	}
	kit.AddEnvironment(cmd, &env)
	cmd.Flags().DurationVar(&drain, "drain", defaultDrain, "how long to keep answering after SIGTERM or Ctrl-C")
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, names []string) (err error) {
		e, err := loadEnvironment(env)
		if err != nil {
			return err
		}
		s, err := openStore(cmd, env, e)
		if err != nil {
			return err
		}
		signals := kit.Listen()
		defer signals.Close()
		ctx, stop := signals.Until(cmd.Context())
		defer stop()
		log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
		g := worker.NewGatewaysAlone(s, kit.StateDir(cmd), log, cmd.OutOrStdout())
		defer func() { err = errors.Join(err, g.Close()) }()
		targets, err := named(cmd, e, names)
		if err != nil {
			return err
		}
		for _, name := range slices.Sorted(maps.Keys(targets)) {
			if _, err := g.Serve(ctx, name, targets[name]); err != nil {
				return err
			}
		}
		if env == "" {
			if err := g.Restore(ctx); err != nil {
				return err
			}
		}
		served := g.Addresses()
		if len(served) == 0 {
			return kit.UsageError(cmd, "there is no target to serve: use an environment with -e")
		}
		said := cmd.OutOrStdout()
		if slices.ContainsFunc(slices.Collect(maps.Values(served)), func(a worker.Address) bool { return a.LogsToStdout }) {
			said = cmd.ErrOrStderr() // what reads the log expects JSON
		}
		for _, name := range slices.Sorted(maps.Keys(served)) {
			if _, err := fmt.Fprintf(said, "%s at %s\n", name, served[name]); err != nil {
				return err
			}
		}
		<-ctx.Done()
		again, stop := signals.Until(cmd.Context())
		defer stop()
		g.Drain(again, drain)
		return nil
	}
	return cmd
}

// openStore opens the store of the state folder, which is the environment's if nothing has been kept for the folder yet.
func openStore(cmd *cobra.Command, env string, e *spec.Environment) (*store.Store, error) {
	if e == nil {
		return kit.OpenStore(cmd)
	}
	if err := os.MkdirAll(kit.StateDir(cmd), 0o700); err != nil { // that of a new replica
		return nil, fmt.Errorf("create the state folder: %w", err)
	}
	if err := control.UseStore(cmd.Context(), kit.StateDir(cmd), env, e.Store.URL); err != nil {
		return nil, err
	}
	return state.OpenStore(cmd.Context(), kit.StateDir(cmd)) // in which nothing may have been released yet
}

// named are the targets of these names in an environment, all for no name.
func named(cmd *cobra.Command, e *spec.Environment, names []string) (map[string]spec.ServedTarget, error) {
	if e == nil {
		if len(names) > 0 {
			return nil, kit.UsageError(cmd, "name the environment of the targets with -e; without it, all targets that this state folder has served before are served")
		}
		return nil, nil
	}
	if len(names) == 0 {
		names = slices.Collect(maps.Keys(e.Targets))
	}
	targets := make(map[string]spec.ServedTarget, len(names))
	for _, name := range names {
		if _, ok := e.Targets[name]; !ok {
			return nil, kit.UsageError(cmd, fmt.Sprintf("the environment has no target `%s`; name one that has it with -e", name))
		}
		targets[name] = e.Serve(name)
	}
	return targets, nil
}

// loadEnvironment reads an environment file; nil for no file.
func loadEnvironment(env string) (*spec.Environment, error) {
	if env == "" {
		return nil, nil
	}
	source, err := control.ReadDocument(env)
	if err != nil {
		return nil, fmt.Errorf("read the environment: %w", err)
	}
	e, findings := environment.LoadFile(document.File{Name: env, Source: source})
	if e == nil {
		return nil, &control.LintError{Diagnostics: findings}
	}
	return e, nil
}
