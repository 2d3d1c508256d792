// Package run has the commands that run pipelines: run, clean, rerun, cancel, rm, approve, reject and schedule.
package run

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/worker"
)

// NewRun makes `sluice run`.
func NewRun() *cobra.Command {
	var req control.SubmitRequest
	var given []string
	cmd := &cobra.Command{
		Use:   "run PIPELINE",
		Short: "Run a pipeline and show its progress",
		Long: `Run a pipeline and show its progress. This process starts what is needed:
Temporal, its UI, a worker and the gateways of the targets. If another Sluice
process holds the state folder, the run is started there.

A run is durable: after a crash, or a lost connection, the same command resumes
the run, as long as the pipeline, the parameters and the files are unchanged.
If other commands follow their runs in this process, it does not exit before
those runs have ended too. If it executes more runs that are still open when it
exits, they go on in a Sluice process in the background, which it starts.

--detach returns when the run has begun. The run goes on in the process that
holds the state folder, or else in one in the background. A process in the
background is a ` + "`sluice up`" + ` that writes to up.log in the state folder; it stays
until it is stopped with ` + "`kill PID`" + `. The command prints its PID, and later
` + "`sluice doctor`" + ` does.

Ctrl-C cancels the run and waits for its end; a second Ctrl-C exits without
waiting. Ctrl-\ (SIGQUIT), SIGTERM and SIGHUP end this command but not the run,
which continues when Sluice is next started, or immediately if another process
holds the state folder; the exit code is then 128 plus the signal number, such
as 131 after Ctrl-\.

A step that did exactly the same in an earlier run is not run again: its result
is reused. --from reruns a step and all that depend on it, --only reruns just
the named steps, --no-cache reruns everything.

The exit code tells how the run ended: see ` + "`sluice help exit-codes`" + `.`,
		Example: `  sluice run pipeline.yaml
  sluice run pipeline.yaml -e environments/prod.yaml -p epochs=8 -p min_f1=0.97
  sluice run pipeline.yaml --from fit
  sluice run pipeline.yaml --detach`,
		Args: cobra.ExactArgs(1),
	}
	kit.AddEnvironment(cmd, &req.EnvFile)
	cmd.Flags().StringVar(&req.From, "from", "", "rerun this step and all that depend on it")
	cmd.Flags().StringSliceVar(&req.Only, "only", nil, "rerun only these steps; there must be results of the others to reuse")
	cmd.Flags().BoolVar(&req.NoCache, "no-cache", false, "do not reuse results of earlier runs")
	cmd.Flags().StringArrayVarP(&given, "param", "p", nil, "parameter of the pipeline, name=value; may be repeated")
	kit.Must(cmd.RegisterFlagCompletionFunc("param", kit.CompleteParams))
	kit.Must(cmd.RegisterFlagCompletionFunc("from", kit.CompleteSteps))
	kit.Must(cmd.RegisterFlagCompletionFunc("only", kit.CompleteSteps))
	how := addFollowing(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if req.Params, err = kit.ParseParams(cmd, given); err != nil {
			return err
		}
		req.PipelineFile = args[0]
		if err := control.Compile(&req); err != nil {
			return err // before anything is started
		}
		if err := kit.SayLarge(cmd, req); err != nil {
			return err
		}
		if unpriced := req.Unpriced(); len(unpriced) > 0 {
			if _, err := fmt.Fprintln(cmd.ErrOrStderr(), unpriced.Text(false)); err != nil {
				return err
			}
		}
		if err := control.SettleStore(cmd.Context(), kit.StateDir(cmd), &req); err != nil {
			return err
		}
		return launch(cmd, *how, func(ctx context.Context, s *control.Session) (control.Submitted, error) {
			return s.Submit(ctx, req)
		})
	}
	return cmd
}

// following are the flags of commands that start a run and follow it.
type following struct {
	format               *string
	detach, failDeclined bool
}

func addFollowing(cmd *cobra.Command) *following {
	var f following
	cmd.Flags().BoolVar(&f.detach, "detach", false, "return when the run has begun; it goes on in the background")
	cmd.Flags().BoolVar(&f.failDeclined, "fail-declined", false, "exit with 4, as for a failed gate, if the run is declined")
	f.format = kit.AddFormat(cmd)
	return &f
}

// launch opens a session, starts a run in it by submit and follows the run, or leaves it to a Sluice in the background.
func launch(cmd *cobra.Command, how following, submit func(context.Context, *control.Session) (control.Submitted, error)) (err error) {
	signals := kit.Listen()
	defer signals.Close()
	ctx, stop := signals.Until(cmd.Context())
	defer stop()
	state := kit.StateDir(cmd)
	behind := background{state: state, notes: cmd.ErrOrStderr()}
	if how.detach {
		if err := behind.ensure(ctx); err != nil {
			return err
		}
	}
	at := control.Options{StateDir: state, Follow: true, Waiting: kit.SayWaiting(cmd), Exits: true}
	s, w, err := worker.Open(ctx, at, worker.Options{})
	if err != nil {
		return err
	}
	left := 0 // runs that are to go on without this process
	defer func() {
		err = errors.Join(err, w.Close(), s.Close())
		stop()
		ctx, stop := signals.Until(cmd.Context())
		defer stop()
		if lost := behind.takeOver(ctx, left); how.detach { // now that the folder is free
			err = errors.Join(err, lost)
		} else {
			behind.tell(lost)
		}
	}()
	sub, err := submit(ctx, s)
	if err != nil {
		return err
	}
	f := newFollower(s, w, sub, *how.format, cmd.OutOrStdout(), cmd.ErrOrStderr())
	f.failDeclined = how.failDeclined
	if err := f.announce(); err != nil {
		return err
	}
	if how.detach {
		left, err = detached(ctx, s, sub.Run)
		return err
	}
	stop() // from here on the follower hears the signals
	for {
		if err := f.follow(cmd.Context(), signals.C); !errors.Is(err, errOrphaned) {
			if f.over && s.Holder != nil {
				s.Deliver(cmd.Context(), sub.Run)
				ctx, stop := signals.Until(cmd.Context())
				defer stop()
				err = errors.Join(err, linger(ctx, s, w, cmd.ErrOrStderr()))
				if ctx.Err() == nil {
					var unknown error
					left, unknown = s.OpenRuns(ctx)
					behind.tell(unknown)
				}
			}
			return err
		}
		next, nextWorker, err := worker.Open(cmd.Context(), at, worker.Options{})
		if err != nil {
			return err
		}
		err = errors.Join(w.Close(), s.Close())
		s, w = next, nextWorker
		if err = errors.Join(err, f.adopt(s, w)); err != nil {
			return err
		}
	}
}

// NewRerun starts a finished run again.
func NewRerun() *cobra.Command {
	var req control.RerunRequest
	cmd := &cobra.Command{
		Use:   "rerun [RUN]",
		Short: "Run a pipeline again, reusing the steps that succeeded",
		Long: `Start a new run with what an earlier run was submitted with: its pipeline,
environment, parameters and files as they were then; or, with --file, with an
edited pipeline and the files beside it. The results of steps that succeeded,
and would do the same again, are reused. A train step that did not finish goes
on from its last checkpoint, if it would do the same again. --from reruns that
step and all that depend on it, and --only reruns the steps it names; a train
step then starts from the beginning. A run that has not ended, for example
because Sluice was killed, continues instead. --detach is that of ` + "`sluice run`" + `.`,
		Example: `  sluice rerun
  sluice rerun spam-filter-20260314-091500-1f3a --from fit
  sluice rerun spam-filter --file pipeline.yaml -e environment.yaml`,
		Args:              cobra.MaximumNArgs(1),
		ValidArgsFunction: kit.CompleteRuns,
	}
	cmd.Flags().StringVar(&req.File, "file", "", "run this pipeline instead of the submitted one")
	kit.AddEnvironment(cmd, &req.EnvFile)
	cmd.Flags().StringVar(&req.From, "from", "", "rerun this step and all that depend on it")
	cmd.Flags().StringSliceVar(&req.Only, "only", nil, "rerun only these steps; there must be results of the others to reuse")
	cmd.Flags().StringArrayP("param", "p", nil, "rejected, with what to do instead")
	kit.Must(cmd.Flags().MarkHidden("param"))
	kit.Must(cmd.RegisterFlagCompletionFunc("from", kit.CompleteStepsOfRun))
	kit.Must(cmd.RegisterFlagCompletionFunc("only", kit.CompleteStepsOfRun))
	how := addFollowing(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if cmd.Flags().Changed("param") {
			return kit.Invalidf("a rerun keeps the parameters of its run\n" +
				"help: `sluice run PIPELINE -p name=value` starts a run with others, and reuses the steps that do the same as before")
		}
		_, old, err := kit.FindRun(cmd, args)
		if err != nil {
			return err
		}
		req.Run = old.Run
		return launch(cmd, *how, func(ctx context.Context, s *control.Session) (control.Submitted, error) {
			return s.Rerun(ctx, req)
		})
	}
	return cmd
}
