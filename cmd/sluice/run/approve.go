package run

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/store/record"
)

// NewApprove makes `sluice approve`.
func NewApprove() *cobra.Command {
	var given []string
	cmd := newDecide(true, &given)
	cmd.Use = "approve RUN [STEP]"
	cmd.Short = "Approve a step that is waiting for a decision"
	cmd.Long = `Approve an approval step, or let a step pass whose gate asks a person (on_fail:
hold). ` + "`sluice show`" + ` shows what is waiting, for whom and until when; STEP can
be omitted if only one step of the run is waiting. RUN may be the name of a
pipeline if one run of it is open. An instance is written as fit.3, and a step
of a child pipeline by the name of the child's run.

You decide as user:NAME, with your user name on this machine. The pipeline and
the environment define who may decide, and the form's fields are validated: a
decision that is not allowed is rejected and has no effect. The run's record
keeps who decided, when and why.`
	cmd.Example = `  sluice approve spam-filter
  sluice approve spam-filter sign --field tier=gold --reason "good numbers"`
	cmd.Flags().StringArrayVar(&given, "field", nil, "field of the form, name=value; may be repeated")
	return cmd
}

// NewReject makes `sluice reject`.
func NewReject() *cobra.Command {
	cmd := newDecide(false, nil)
	cmd.Use = "reject RUN [STEP]"
	cmd.Short = "Reject a step that is waiting for a decision"
	cmd.Long = `Reject an approval step, or a step whose gate asks a person (on_fail: hold).
The step then fails, as it would with a gate that fails. See
` + "`sluice approve --help`" + ` for how to name a step, and who may decide.`
	cmd.Example = `  sluice reject spam-filter sign --reason "too slow on long mails"`
	return cmd
}

// newDecide is what approve and reject have in common.
func newDecide(approve bool, given *[]string) *cobra.Command {
	var reason string
	cmd := &cobra.Command{Args: cobra.RangeArgs(1, 2), ValidArgsFunction: completeWaiting}
	cmd.Flags().StringVar(&reason, "reason", "", "reason, for the run's record")
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		d := contract.Decide{Approve: approve, Reason: reason}
		var err error
		if d.By, err = kit.Whoami(); err != nil {
			return err
		}
		if given != nil {
			if d.Fields, err = kit.ParsePairs(cmd, "--field", "field", *given); err != nil {
				return err
			}
		}
		return decide(cmd, *format, args, d)
	}
	return cmd
}

// decide finds what waits, and says the word. A run is not to answer what it asks people, so its own programs decide nothing.
func decide(cmd *cobra.Command, format string, args []string, d contract.Decide) error {
	if proc.Kept() {
		return kit.Invalidf("programs started by a run cannot approve or reject: a person must decide, outside the run")
	}
	return onOpenRun(cmd, args, func(ctx context.Context, s *control.Session, run string) error {
		return decideIn(ctx, cmd, s, run, format, kit.Arg(args, 1), d)
	})
}

func decideIn(ctx context.Context, cmd *cobra.Command, s *control.Session, run, format, step string, d contract.Decide) error {
	at, err := s.FindWaiting(ctx, run, step)
	if err != nil {
		return err
	}
	decision, err := s.Decide(ctx, at, d)
	switch {
	case fault.TypeOf(err) == fault.Invalid && d.Approve && len(at.Approval.Fields) > 0:
		_, command := view.Question(at, time.Now())
		return fault.New(fault.Invalid, fault.Message(err)+"\nhelp: "+command, err)
	case err != nil:
		return err
	}
	out := cmd.OutOrStdout()
	if format == "json" {
		return view.JSON(out, struct {
			Run  string `json:"run"`
			Step string `json:"step"`
			record.Decision
		}{at.Run, at.Step, decision})
	}
	if err := view.ThemeOf(out).Decided(out, at.Run, at.Step, decision); err != nil || s.Holder == nil {
		return err
	}
	_, err = fmt.Fprintln(out, NotCarried) // this process holds the folder, and ends now
	return err
}

// completeWaiting offers open runs for a first argument, and what waits in the run for a second.
func completeWaiting(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	const done = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	if len(args) == 0 {
		return kit.CompleteOpenRuns(cmd, args, prefix)
	}
	st, err := kit.OpenStore(cmd)
	if err != nil || len(args) > 1 {
		return nil, done
	}
	open, err := control.FindOpenRuns(cmd.Context(), st, args[0])
	if err != nil || len(open) > 1 {
		return nil, done
	}
	run := open[0]
	s, leave, _, _ := AttachTo(cmd.Context(), control.Options{StateDir: kit.StateDir(cmd), Patience: completePatience})
	if s == nil {
		return nil, done
	}
	defer leave()
	state, err := s.State(cmd.Context(), run.Run)
	if err != nil {
		return nil, done
	}
	all, _ := s.Waiting(cmd.Context(), run.Run, state)
	var names []string
	for _, a := range all {
		names = append(names, a.Step+"\t"+a.Question())
	}
	return names, done
}
