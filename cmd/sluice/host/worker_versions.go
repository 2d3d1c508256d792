package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"strconv"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/worker"
)

// addDeployment gives a command the flags that name a build of a worker deployment.
func addDeployment(cmd *cobra.Command, d *worker.Deployment) {
	addDeploymentName(cmd, &d.Name)
	cmd.Flags().StringVar(&d.BuildID, "build-id", os.Getenv(worker.BuildIDVariable), "build of the worker deployment, also set by $"+worker.BuildIDVariable)
}

func addDeploymentName(cmd *cobra.Command, name *string) {
	cmd.Flags().StringVar(name, "deployment", os.Getenv(worker.DeploymentVariable), "name of the worker deployment, also set by $"+worker.DeploymentVariable)
}

func newWorkerVersions() *cobra.Command {
	var deployment string
	cmd := &cobra.Command{
		Use:   "versions",
		Short: "List the builds of a worker deployment and their open runs",
		Long: `List the builds of a worker deployment, newest first. New runs go to the
current build. A former current build is draining while runs that started on it
are open, and its workers are still needed; once it is drained they can be
stopped. Temporal updates this status every few minutes, so it lags behind the
count of open runs.`,
		Example: `  sluice worker versions --deployment sluice
  sluice worker versions --deployment sluice --format json |
    jq '.[] | select(.open_runs > 0) | .build_id'`,
		Args: cobra.NoArgs,
	}
	addDeploymentName(cmd, &deployment)
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if deployment == "" {
			return kit.UsageError(cmd, "no worker deployment is set: set --deployment or $"+worker.DeploymentVariable)
		}
		return withCluster(cmd, func(ctx context.Context, c *connect.Connection) error {
			builds, err := worker.Builds(ctx, c, deployment)
			if err != nil {
				return err
			}
			return kit.Print(cmd, *format, builds, func(out io.Writer) error {
				return kit.Table(out, "build\tstatus\topen runs\tfirst seen", func(w io.Writer) {
					for _, b := range builds {
						kit.Row(w, b.BuildID, string(b.Status), strconv.FormatInt(b.OpenRuns, 10), kit.Time(b.FirstSeen))
					}
				})
			})
		})
	}
	return cmd
}

func newWorkerSetCurrent() *cobra.Command {
	var d worker.Deployment
	cmd := &cobra.Command{
		Use:   "set-current",
		Short: "Set the build of a worker deployment that new runs use",
		Long: `Make a build the current one of its worker deployment: new runs, including
those of triggers, start on it, and open runs stay on the build that they
started on. Start the workers of the build first. To roll back, make the old
build the current one again.`,
		Example: `  sluice worker set-current --deployment sluice --build-id 2026-11-21`,
		Args:    cobra.NoArgs,
	}
	addDeployment(cmd, &d)
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if d == (worker.Deployment{}) {
			return kit.UsageError(cmd, "no build is set: set --deployment and --build-id")
		}
		if err := d.Check(); err != nil {
			return kit.UsageError(cmd, err.Error())
		}
		return withCluster(cmd, func(ctx context.Context, c *connect.Connection) error {
			before, hosts, err := worker.MakeCurrent(ctx, c, d, func(what string) {
				fmt.Fprintln(cmd.ErrOrStderr(), "sluice: waits "+what) //nolint:errcheck // it goes on
			})
			if err != nil {
				return err
			}
			said := fmt.Sprintf("build %s is now the current one of deployment %s\n", d.BuildID, d.Name)
			if before != "" && before != d.BuildID {
				said += fmt.Sprintf("build %s keeps its open runs: `sluice worker versions --deployment %s` counts them\n", before, d.Name)
			}
			if _, err := fmt.Fprint(cmd.OutOrStdout(), said); err != nil || hosts {
				return err
			}
			_, err = fmt.Fprintf(cmd.ErrOrStderr(), "sluice: no worker of build %s runs train steps, or rollouts to targets that have no `url`: they wait until one without --stateless is started\n", d.BuildID)
			return err
		})
	}
	return cmd
}

// withCluster acts on the cluster that the environment names.
func withCluster(cmd *cobra.Command, act func(context.Context, *connect.Connection) error) error {
	if !connect.ClusterNamed() {
		return kit.UsageError(cmd, "no Temporal cluster is set: set TEMPORAL_ADDRESS or TEMPORAL_PROFILE. The worker of `sluice up` is not versioned")
	}
	ctx, stop := kit.Interruptible(cmd.Context())
	defer stop()
	c, err := connect.Dial(ctx, connect.Options{Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		return err
	}
	return errors.Join(act(ctx, c), c.Close())
}
