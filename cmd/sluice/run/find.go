package run

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/worker"
)

// onOpenRun does something about the run that the first argument names, which has not ended: in a session, until it is done or somebody
// interrupts it.
func onOpenRun(cmd *cobra.Command, args []string, do func(ctx context.Context, s *control.Session, run string) error) error {
	st, err := kit.OpenStore(cmd)
	if err != nil {
		return err
	}
	open, err := control.FindOpenRuns(cmd.Context(), st, args[0])
	if err != nil {
		return err
	}
	if len(open) > 1 {
		return ambiguous(cmd, args, open)
	}
	return InSession(cmd, func(ctx context.Context, s *control.Session) error { return do(ctx, s, open[0].Run) })
}

// InSession does something in a session with Sluice, which is started if no process carries runs, until it is done or somebody interrupts
// it. It then stays for as long as other commands follow runs that this process has come to carry.
func InSession(cmd *cobra.Command, do func(ctx context.Context, s *control.Session) error) (err error) {
	ctx, stop := kit.Interruptible(cmd.Context())
	defer stop()
	s, w, err := worker.Open(ctx, control.Options{StateDir: kit.StateDir(cmd), Follow: true, Waiting: kit.SayWaiting(cmd), Exits: true}, worker.Options{})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, w.Close(), s.Close()) }()
	return errors.Join(do(ctx, s), linger(ctx, s, w, cmd.ErrOrStderr()))
}

// fewOpen is how many open runs are named where one was to be.
const fewOpen = 10

// ambiguous is the error of a name that several open runs have, with the command for each.
func ambiguous(cmd *cobra.Command, args []string, open []record.RunRecord) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%d runs of %s are open; use the name of one of them:", len(open), args[0])
	for _, r := range open[:min(len(open), fewOpen)] {
		command := slices.Concat([]string{cmd.CommandPath(), r.Run}, args[1:])
		fmt.Fprintf(&b, "\n%s   %s", strings.Join(command, " "), view.Origin(r))
	}
	if more := len(open) - fewOpen; more > 0 {
		fmt.Fprintf(&b, "\nand %d more: `sluice list --pipeline %s --status %s`", more, args[0], spec.StatusRunning)
	}
	return fault.New(fault.Invalid, b.String(), nil)
}
