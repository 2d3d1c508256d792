package run

import (
	"bufio"
	"fmt"
	"io"
	"os"
	"strings"

	"github.com/spf13/cobra"
	"golang.org/x/term"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/connect/schedule"
	"github.com/sluiceml/sluice/control"
)

// applied is what `sluice schedule apply --format json` writes.
type applied struct {
	schedule.Plan
	Applied bool `json:"applied"`
}

func newScheduleApply() *cobra.Command {
	var env string
	var given []string
	var dry, yes bool
	cmd := &cobra.Command{
		Use:   "apply PIPELINE",
		Short: "Apply the triggers of a pipeline to the server",
		Long: `Show how the triggers that a pipeline declares differ from those on the server,
and apply the changes: create new ones, update changed ones, and delete those
that the pipeline no longer declares. Applying the same pipeline twice changes
nothing.

A trigger runs the pipeline, its environment and its folder as they are now.
Paused triggers stay paused.`,
		Example: `  sluice schedule apply pipeline.yaml --dry-run
  sluice schedule apply pipeline.yaml -e prod.yaml -p epochs=8 --yes`,
		Args: cobra.ExactArgs(1),
	}
	kit.AddEnvironment(cmd, &env)
	cmd.Flags().StringArrayVarP(&given, "param", "p", nil, "parameter for all triggers that do not set it themselves, name=value; may be repeated")
	cmd.Flags().BoolVar(&dry, "dry-run", false, "show what would change, and change nothing")
	cmd.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		params, err := kit.ParseParams(cmd, given)
		if err != nil {
			return err
		}
		up, err := isUp(cmd)
		if err != nil {
			return err
		}
		req := control.SubmitRequest{PipelineFile: args[0], EnvFile: env, Params: params}
		if err := control.SettleStore(cmd.Context(), kit.StateDir(cmd), &req); err != nil {
			return err
		}
		return withServer(cmd, func(s *control.Session) error {
			plan, err := s.PlanTriggers(cmd.Context(), req)
			if err != nil {
				return err
			}
			return applyPlan(cmd, s, plan, *format, dry, yes, up)
		})
	}
	return cmd
}

// applyPlan shows a plan, asks, and does what it says.
func applyPlan(cmd *cobra.Command, s *control.Session, plan schedule.Plan, format string, dry, yes, up bool) error {
	out := cmd.OutOrStdout()
	if format == "text" {
		if err := view.ThemeOf(out).TriggerPlan(out, plan.Changes); err != nil {
			return err
		}
	}
	done := false
	if !dry {
		if !yes && !plan.Empty() {
			if agreed, err := confirm(cmd, "apply these changes?"); err != nil || !agreed {
				return err
			}
		}
		if err := s.Schedules().Apply(cmd.Context(), plan); err != nil {
			return err
		}
		done = !plan.Empty()
	}
	if format == "json" {
		return view.JSON(out, applied{plan, done})
	}
	return concludeApply(out, plan, done, up)
}

// concludeApply says what was done, and what keeps triggers firing.
func concludeApply(out io.Writer, plan schedule.Plan, done, up bool) error {
	if len(plan.Changes) == 0 {
		_, err := fmt.Fprintf(out, "%s has no triggers\n", plan.Pipeline)
		return err
	}
	if !done {
		return nil
	}
	said := "applied; triggers fire while `sluice up` or a worker is running"
	if !up {
		said += ", but none is: start `sluice up`"
	}
	_, err := fmt.Fprintln(out, said)
	return err
}

// confirm asks a person at a terminal. Elsewhere nobody can be asked, and the command was given on purpose.
func confirm(cmd *cobra.Command, question string) (bool, error) {
	in, ok := cmd.InOrStdin().(*os.File)
	if !ok || !term.IsTerminal(int(in.Fd())) {
		return true, nil
	}
	if _, err := fmt.Fprint(cmd.ErrOrStderr(), question+" [y/N] "); err != nil {
		return false, err
	}
	answer, err := bufio.NewReader(in).ReadString('\n')
	if err != nil && answer == "" {
		return false, nil //nolint:nilerr // the end of the input is no consent
	}
	answer = strings.ToLower(strings.TrimSpace(answer))
	return answer == "y" || answer == "yes", nil
}
