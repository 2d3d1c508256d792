package write

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
)

// NewPlan makes `sluice plan`.
func NewPlan() *cobra.Command {
	var req control.SubmitRequest
	var given []string
	var against string
	cmd := &cobra.Command{
		Use:   "plan FILE",
		Short: "Show the steps of a pipeline, their order and gates",
		Long: `Show what a pipeline would do: its steps in the order in which they may start,
what each waits for, and the gate it must pass. Steps with the same number run
in parallel. Nothing is run, and nothing needs to be running.

Under each step the plan shows what a run would do with it now: reuse the
outputs of an earlier run (cached), run it because its spec, inputs or files
have changed since (changed, with what has changed), or run it for another
reason (runs). What happens to the steps after one that runs is only known when
that has ended. Times and costs are those of earlier runs. The line "default"
lists limits that the step does not set, with their default values. --against
shows what a rerun of that run would reuse now that the files were edited, with
that run's parameters.

--format mermaid draws the graph, for Markdown.`,
		Example: `  sluice plan pipeline.yaml
  sluice plan pipeline.yaml -p epochs=8
  sluice plan pipeline.yaml --against spam-filter
  sluice plan --format mermaid pipeline.yaml`,
		Args: cobra.ExactArgs(1),
	}
	kit.AddEnvironment(cmd, &req.EnvFile)
	cmd.Flags().StringArrayVarP(&given, "param", "p", nil, "parameter of the pipeline, name=value; may be repeated")
	cmd.Flags().StringVar(&against, "against", "", "show what a rerun of this run would reuse")
	kit.Must(cmd.RegisterFlagCompletionFunc("against", func(cmd *cobra.Command, _ []string, prefix string) ([]string, cobra.ShellCompDirective) {
		return kit.CompleteRuns(cmd, nil, prefix)
	}))
	kit.Must(cmd.RegisterFlagCompletionFunc("param", kit.CompleteParams))
	format := kit.AddFormat(cmd, "mermaid")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		var err error
		if req.Params, err = kit.ParseParams(cmd, given); err != nil {
			return err
		}
		req.PipelineFile = args[0]
		program, planned, err := preEvaluate(cmd, req, against)
		if err != nil {
			return err
		}
		if err := kit.SayLarge(cmd, req); err != nil {
			return err
		}
		out := cmd.OutOrStdout()
		plan := view.NewPlan(program, planned)
		if plan.Withheld, err = control.Withheld(req.PipelineFile); err != nil {
			return err
		}
		switch *format {
		case "json":
			return view.JSON(out, plan)
		case "mermaid":
			return view.Mermaid(out, plan)
		}
		return view.ThemeOf(out).Plan(out, plan)
	}
	return cmd
}

// preEvaluate compiles a pipeline and says what a run of it would do. Where only parameters are missing there is no plan of the run, and a line
// that says so.
func preEvaluate(cmd *cobra.Command, req control.SubmitRequest, against string) (*dsl.Program, contract.Plan, error) {
	ctx := cmd.Context()
	s, err := plannedStore(cmd, &req, against)
	if err != nil {
		program, failed := req.Program()
		if failed != nil || against != "" || fault.TypeOf(err) == fault.Invalid {
			return nil, contract.Plan{}, errors.Join(failed, err)
		}
		_, failed = fmt.Fprintf(cmd.ErrOrStderr(), "sluice: the plan cannot show what would run: %v\n", err)
		return program, contract.Plan{}, failed
	}
	if against != "" {
		run, err := control.FindRun(ctx, s, against)
		if err != nil {
			return nil, contract.Plan{}, err
		}
		against = run.Run
	}
	program, planned, err := control.Plan(ctx, s, kit.StateDir(cmd), req, against)
	var missing *control.LintError
	if program != nil && errors.As(err, &missing) && len(req.Params) == 0 {
		_, err = fmt.Fprintf(cmd.ErrOrStderr(), "sluice: the plan cannot show what would run: %s\n  help: set it with -p name=value\n", missing.Diagnostics[0].Message)
	}
	return program, planned, err
}

// plannedStore opens the store that a run would be kept in; an empty one when nothing was ever run.
func plannedStore(cmd *cobra.Command, req *control.SubmitRequest, against string) (*store.Store, error) {
	url, err := control.EnvironmentStore(kit.StateDir(cmd), req)
	if err != nil {
		return nil, err
	}
	if url != "" {
		return store.Open(cmd.Context(), url)
	}
	s, err := kit.OpenStore(cmd)
	if errors.Is(err, kit.ErrNoRuns) && against == "" {
		return store.Open(cmd.Context(), "mem://nothing-has-run")
	}
	return s, err
}
