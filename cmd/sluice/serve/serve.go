package serve

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/worker"
)

// NewServe makes `sluice serve`.
func NewServe() *cobra.Command {
	var env string
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the released models only",
		Long: `Serve the targets of an environment from the store: their current releases, by
the Open Inference Protocol v2, on loopback. Temporal is not needed; a release
made elsewhere with the same store is picked up automatically. Without -e, the
targets that this state folder has served before are served.`,
		Example: `  sluice serve -e environment.yaml
  curl localhost:8080/v2/models/production`,
		Args: cobra.NoArgs,
	}
	kit.AddEnvironment(cmd, &env)
	cmd.ValidArgsFunction = cobra.NoFileCompletions
	cmd.RunE = func(cmd *cobra.Command, _ []string) (err error) {
		s, err := kit.OpenStore(cmd)
		if err != nil {
			return err
		}
		ctx, stop := kit.Interruptible(cmd.Context())
		defer stop()
		log := slog.New(slog.NewTextHandler(cmd.ErrOrStderr(), &slog.HandlerOptions{Level: slog.LevelWarn}))
		g := worker.NewGateways(s, kit.StateDir(cmd), log)
		defer func() { err = errors.Join(err, g.Close()) }()
		targets, err := loadTargets(env)
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
		for _, name := range slices.Sorted(maps.Keys(served)) {
			if _, err := fmt.Fprintf(cmd.OutOrStdout(), "%s at %s\n", name, served[name]); err != nil {
				return err
			}
		}
		<-ctx.Done()
		return nil
	}
	return cmd
}

// loadTargets reads the targets of an environment file; none for no file.
func loadTargets(env string) (map[string]spec.Target, error) {
	if env == "" {
		return nil, nil
	}
	source, err := control.ReadDocument(env)
	if err != nil {
		return nil, fmt.Errorf("read the environment: %w", err)
	}
	e, findings := dsl.LoadEnvironment(document.File{Name: env, Source: source})
	if e == nil {
		return nil, &control.LintError{Diagnostics: findings}
	}
	return e.Targets, nil
}
