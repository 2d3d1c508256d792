package release

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	runs "github.com/sluiceml/sluice/cmd/sluice/run"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/report"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

// NewRollout makes `sluice rollout`.
func NewRollout() *cobra.Command {
	return kit.Group(&cobra.Command{
		Use:   "rollout",
		Short: "Watch, pause, promote, abort and roll back releases of targets",
		Long: `A ` + "`rollout`" + ` step moves the traffic of a target to a model in stages, and takes
it back if a test fails. These commands show where a rollout is, act on it, and
take an earlier release back after it. Who acted, when and why is recorded.`,
		Example: `  sluice rollout status spam
  sluice rollout pause spam --reason "the dashboard looks odd"
  sluice rollout resume spam
  sluice rollout abort spam
  sluice rollout rollback spam --reason "invoices end up in spam"
  sluice rollout history spam`,
	}, newRolloutStatus(), newRolloutPause(), newRolloutResume(), newRolloutPromote(), newRolloutAbort(), newRolloutRollback(), newRolloutHistory())
}

func newRolloutPause() *cobra.Command {
	return newOrder(contract.RolloutPause, &cobra.Command{
		Use:   "pause TARGET",
		Short: "Hold a rollout in its stage until it is resumed",
		Long: `Hold a rollout in its stage, with its traffic as it is, until it is resumed. The
tests continue: a candidate that is found worse is still rolled back. A pause
does not count for the max_wait of the stage. If the model is still being
loaded, the rollout holds before its first stage.`,
		Example: `  sluice rollout pause spam --reason "the dashboard looks odd"`,
	})
}

func newRolloutResume() *cobra.Command {
	return newOrder(contract.RolloutResume, &cobra.Command{
		Use:     "resume TARGET",
		Short:   "Resume a rollout that is paused",
		Long:    `Resume a rollout that is paused. If it is not paused, nothing changes.`,
		Example: `  sluice rollout resume spam`,
	})
}

func newRolloutPromote() *cobra.Command {
	return newOrder(contract.RolloutPromote, &cobra.Command{
		Use:   "promote TARGET",
		Short: "Give the candidate of a rollout all traffic now",
		Long: `Give the candidate of a rollout all traffic now, without the remaining tests and
stages, and wait until that has happened. The rollout step succeeds.`,
		Example: `  sluice rollout promote spam --reason "the fix cannot wait"`,
	})
}

func newRolloutAbort() *cobra.Command {
	return newOrder(contract.RolloutAbort, &cobra.Command{
		Use:   "abort TARGET",
		Short: "End the rollout and give all traffic back to the previous release",
		Long: `Give all traffic back to the previous release now, and wait until that has
happened. The rollout step fails, as it does when a test rolls the candidate
back.`,
		Example: `  sluice rollout abort spam --reason "customers complain"`,
	})
}

// newOrder makes a command that gives an order to a running rollout.
func newOrder(action string, cmd *cobra.Command) *cobra.Command {
	cmd.Args, cmd.ValidArgsFunction = cobra.ExactArgs(1), completeTargets
	format := kit.AddFormat(cmd)
	reason := cmd.Flags().String("reason", "", "reason, for the rollout's record")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := openTarget(cmd, args[0])
		if err != nil {
			return err
		}
		o := contract.RolloutOrder{Action: action, Reason: *reason}
		if o.By, err = person(); err != nil {
			return err
		}
		var now contract.RolloutState
		err = runs.InSession(cmd, func(ctx context.Context, session *control.Session) error {
			now, err = session.OrderRollout(ctx, args[0], o)
			return err
		})
		if errors.Is(err, control.ErrNoRollout) {
			var end routing.Outcome
			if end, err = noRollout(cmd.Context(), s, args[0], o); err == nil {
				now = contract.RolloutState{Version: end.Version, Phase: "done", Decision: end.Decision, Reason: end.Reason}
			}
		}
		if err != nil {
			return err
		}
		return kit.Print(cmd, *format, now, func(out io.Writer) error { return orderedText(out, args[0], action, now) })
	}
	return cmd
}

// person returns the name of the user who acts. A run must not end rollouts: that is what gates and tests are for.
func person() (string, error) {
	if proc.Kept() {
		return "", kit.Invalidf("programs started by a run cannot act on rollouts: a person must, outside the run")
	}
	return kit.Whoami()
}

// noRollout says what there is in place of a running rollout: how the last one ended, which is no error if that is what was wanted. One that
// Temporal has lost is aborted here.
func noRollout(ctx context.Context, s *store.Store, target string, o contract.RolloutOrder) (routing.Outcome, error) {
	if o.Action == contract.RolloutAbort {
		reason := "aborted by " + o.By
		if o.Reason != "" {
			reason += ": " + o.Reason
		}
		if end, done, err := control.Withdraw(ctx, s, target, o.By, reason); err != nil {
			return end, err
		} else if done {
			doc, err := routing.Current(ctx, s, target)
			if err == nil {
				_, _, err = awaitTraffic(ctx, s, doc)
			}
			return end, err
		}
	}
	releases, err := routing.Releases(ctx, s, target)
	if err != nil {
		return routing.Outcome{}, err
	}
	text, help := "no rollout is running at target "+target, "\nhelp: `sluice rollout history "+target+"` shows what happened"
	for _, r := range releases { // newest first
		if r.End.Decision == "" {
			continue
		}
		switch {
		case o.Action == contract.RolloutPromote && r.End.Decision == routing.Promoted, o.Action == contract.RolloutAbort && r.End.Decision == routing.RolledBack:
			return r.End, nil
		case o.Action == contract.RolloutAbort:
			help = "\nhelp: `sluice rollout rollback " + target + "` takes the release before it back"
		}
		text += fmt.Sprintf(": the last one, of release %s, ended on %s as %s", r.Version, kit.Time(r.End.At), outcomeText(r.End))
		break
	}
	return routing.Outcome{}, kit.Invalidf("%s%s", text, help)
}

func orderedText(out io.Writer, target, action string, now contract.RolloutState) error {
	var text string
	switch {
	case action == contract.RolloutPause && now.Phase == "loading":
		text = "is paused before its first stage; `sluice rollout resume " + target + "` lets it begin"
	case action == contract.RolloutPause:
		text = fmt.Sprintf("is paused in stage %d of %d (%s); `sluice rollout resume %s` resumes it", now.Stage, now.Stages, report.StageText(now.Shadow, now.Weight), target)
	case action == contract.RolloutResume:
		text = fmt.Sprintf("continues in stage %d of %d", now.Stage, now.Stages)
	case now.Decision == routing.Promoted:
		text = "has all traffic"
	case now.Previous != "":
		text = "was rolled back: release " + now.Previous + " has all traffic"
	default:
		text = "was rolled back"
	}
	if now.Phase == "done" && now.Reason != "" {
		text += " (" + now.Reason + ")"
	}
	name := "the candidate"
	if now.Version != "" {
		name = "release " + now.Version
	}
	_, err := fmt.Fprintf(out, "%s: %s %s\n", target, name, text)
	return err
}

// rolledBack is what `rollout rollback` did.
type rolledBack struct {
	Target   string `json:"target"`
	Release  string `json:"release"`
	Revision int64  `json:"revision"`
	By       string `json:"by"`
	Reason   string `json:"reason,omitempty"`
	// Done: each gateway serves the revision, or its lease on an earlier one has run out. Gateways is how many serve it.
	Done     bool `json:"done"`
	Gateways int  `json:"gateways"`
}

func newRolloutRollback() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "rollback TARGET",
		Short: "Give all traffic to an earlier release again",
		Long: `Give all traffic of a target to a release that was promoted before: the newest
one of another model before the serving release, or the one of --to, which may
also be newer and have the same model. A release that is still loaded serves
within a second. One that is not is loaded first, as a new release with its
model, while the current one continues to serve.

The command returns when every gateway of the target, on any machine, has
reported that it serves the release, or has been silent for the 5 seconds of its
lease. It only needs the store: it works while no worker runs. While a rollout
is running it is refused; abort the rollout first.`,
		Example: `  sluice rollout rollback spam --reason "invoices end up in spam"
  sluice rollout rollback spam --to 3`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeTargets,
	}
	format := kit.AddFormat(cmd)
	to := cmd.Flags().String("to", "", "release that is to serve; default: the one promoted before the serving release, of another model")
	reason := cmd.Flags().String("reason", "", "reason, for the target's history")
	kit.Must(cmd.RegisterFlagCompletionFunc("to", completeReleases))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := openTarget(cmd, args[0])
		if err != nil {
			return err
		}
		by, err := person()
		if err != nil {
			return err
		}
		doc, err := control.RollBack(cmd.Context(), s, args[0], *to, by, *reason)
		if err != nil {
			return err
		}
		serving, _ := doc.Serving()
		done := rolledBack{Target: args[0], Release: serving.Version, Revision: doc.Revision, By: by, Reason: *reason}
		if done.Gateways, done.Done, err = awaitTraffic(cmd.Context(), s, doc); err != nil {
			return err
		}
		return kit.Print(cmd, *format, done, done.text)
	}
	return cmd
}

func (d rolledBack) text(out io.Writer) error {
	var text string
	switch {
	case !d.Done:
		text = "gets all traffic as soon as the gateways have loaded it"
	case d.Gateways == 0:
		text = "gets all traffic; no gateway is running"
	default:
		text = "has all traffic, at " + human.Plural(int64(d.Gateways), "gateway")
	}
	_, err := fmt.Fprintf(out, "%s: release %s %s (revision %d)\n", d.Target, d.Release, text, d.Revision)
	return err
}

// completeReleases offers the releases of the target that is the first argument.
func completeReleases(cmd *cobra.Command, args []string, _ string) ([]string, cobra.ShellCompDirective) {
	const done = cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
	s, err := kit.OpenStore(cmd)
	if err != nil || len(args) == 0 {
		return nil, done
	}
	releases, err := routing.Releases(cmd.Context(), s, args[0])
	if err != nil {
		return nil, cobra.ShellCompDirectiveError
	}
	var names []string
	for _, r := range releases {
		if r.End.Decision == routing.Promoted {
			names = append(names, r.Version+"\t"+r.Run+"/"+r.Step)
		}
	}
	return names, done
}

// awaitTimeout bounds the wait until gateways have loaded a release and serve it.
const awaitTimeout = 30 * time.Second

// awaitTraffic waits until all gateways of a target serve what its document says, or the leases of those that do not answer have run out. It
// returns how many serve it; done is false when it takes longer than a person waits.
func awaitTraffic(ctx context.Context, s *store.Store, doc routing.Document) (gateways int, done bool, err error) {
	waiting, cancel := context.WithTimeout(ctx, awaitTimeout)
	defer cancel()
	gateways, err = gateway.NewTarget(s, doc.Target, "", "").Await(waiting, doc)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return 0, false, nil
	}
	if _, ok := errors.AsType[*gateway.LoadError](err); ok {
		err = fault.New(fault.User, err.Error()+"\nhelp: the previous release keeps serving; `sluice rollout rollback "+doc.Target+" --to RELEASE` rolls back to another release", err)
	}
	return gateways, err == nil, err
}
