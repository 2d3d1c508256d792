package look

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/store/steplog"
)

// followEvery spaces the polls of a run and its logs: each lists a part of the store.
const followEvery = time.Second

// NewLogs makes `sluice logs`.
func NewLogs() *cobra.Command {
	var follow bool
	cmd := &cobra.Command{
		Use:   "logs [RUN] [STEP]",
		Short: "Print the logs of the programs of a run",
		Long: `Print the standard output and standard error of the programs of a run, step by
step. If the only argument names a step of the newest run, only the logs of that
step are printed; fit.3 is one instance of a step with several; see
` + "`sluice show --help`" + ` for how to name a run. For a step that was reused from an
earlier run the logs are those of that run, and for a child pipeline those of
the child's run.

Logs come from the store, wherever the programs run, about three seconds after
they were printed. Where a generation of a training has several ranks, each line
begins with its generation, node and rank: g2 n1 r3; --generation, --node and
--rank select from them. If a training lost a gang, a line after its output says
which and why, and another one that the next generation begins; --follow prints
them as soon as that has happened. The logs of the agents of a local pool's
nodes are in the state folder, under logs.

With --timestamps every line begins with the time when it was written, to the
second. With --format json every line is one JSON object: its step, text, time,
and as its log the attempt of the program, or the generation, node and rank of
the training. An object with end tells how a generation ended, and one with
begins that it begins.`,
		Example: `  sluice logs
  sluice logs fit
  sluice logs fit.3
  sluice logs spam-filter fit -f --timestamps
  sluice logs fit -f --rank 3
  sluice logs fit --generation 2 --node 1`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: kit.CompleteRunSteps,
	}
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "follow the logs until the run has ended")
	timestamps := cmd.Flags().Bool("timestamps", false, "begin every line with the time when it was written")
	selection := addSelection(cmd)
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		selected, err := selection()
		if err != nil {
			return err
		}
		s, run, step, err := kit.FindStep(cmd, args)
		if err != nil {
			return err
		}
		if run, step, err = inChild(cmd.Context(), s, run, step); err != nil {
			return err
		}
		l := &logs{
			step: step, run: run, store: s, timestamps: *timestamps,
			json: *format == "json", out: cmd.OutOrStdout(), errOut: cmd.ErrOrStderr(), selection: selected,
			told: map[string]int{}, begun: map[string]int{}, readers: map[string]*steplog.Reader{},
			asker: asker{stateDir: kit.StateDir(cmd), states: map[string]contract.TrainState{}},
		}
		if err := l.checkSelection(); err != nil {
			return err
		}
		defer l.asker.close()
		if !follow {
			if err := l.copy(cmd.Context()); err != nil {
				return err
			}
			if !l.printed {
				if err := l.silent(cmd.Context()); err != nil {
					return err
				}
			}
			return l.children(cmd)
		}
		ctx, stop := kit.Interruptible(cmd.Context())
		defer stop()
		return l.follow(ctx)
	}
	return cmd
}

// inChild turns a step of kind pipeline into its child's run, whole.
func inChild(ctx context.Context, s *store.Store, run record.Run, step string) (record.Run, string, error) {
	id, index := record.SplitStep(step)
	i := slices.IndexFunc(run.Graph, func(n spec.Node) bool { return n.ID == id && n.Kind == spec.KindPipeline })
	if step == "" || i < 0 {
		return run, step, nil
	}
	if run.Graph[i].Fan != spec.FanNone && index < 0 {
		return run, step, fault.Errorf(fault.Invalid, "each instance of `%s` is a separate run\n"+
			"help: select one, such as `sluice logs %s %s.0`", step, run.Run, step)
	}
	v, err := viewOf(ctx, s, run, step, 0)
	switch {
	case err != nil:
		return run, step, err
	case v.Step.ChildRun == "":
		return run, step, fault.Errorf(fault.Invalid, "the child run of `%s` has not started", step)
	}
	child, err := record.LoadRun(ctx, s, v.Step.ChildRun)
	return child, "", err
}

// silent says that nothing was written by what was asked for, and which steps have written something.
func (l *logs) silent(ctx context.Context) error {
	if err := l.missing(); err != nil {
		return err
	}
	said := "no step of " + l.run.Run + " has written any output"
	if l.selects() {
		said = "no output of " + l.run.Run + " matches the selection"
	} else if l.step != "" {
		said = "step `" + l.step + "` of " + l.run.Run + " has written no output"
		var wrote []string
		for place, node := range l.run.Graph {
			if node.ID == l.step {
				continue
			}
			from := cmp.Or(l.run.Steps[place].ReusedFrom, l.run.Run)
			stored, err := steplog.List(ctx, l.store, from, node.ID)
			if err != nil {
				return err
			}
			if len(stored) > 0 {
				wrote = append(wrote, node.ID)
			}
		}
		if len(wrote) > 0 {
			said += "\n  help: these have: " + strings.Join(wrote, ", ")
		}
	}
	_, err := fmt.Fprintf(l.errOut, "sluice: %s\n", said)
	return err
}

// children says where the logs of a run's child pipelines are.
func (l *logs) children(cmd *cobra.Command) error {
	if l.step != "" {
		return nil
	}
	for _, node := range l.run.Graph {
		if node.Kind != spec.KindPipeline {
			continue
		}
		id := node.ID
		if node.Fan != spec.FanNone {
			id += ".N"
		}
		_, err := fmt.Fprintf(cmd.ErrOrStderr(), "sluice: `%s` is a child pipeline: `sluice logs %s %s` prints its logs\n", node.ID, l.run.Run, id)
		if err != nil {
			return err
		}
	}
	return nil
}

// logs copies a run's logs, each from where it was left.
type logs struct {
	step        string
	run         record.Run
	store       *store.Store
	timestamps  bool
	json        bool // a JSON object for each line
	out, errOut io.Writer
	printed     bool           // a line was
	last        string         // the heading printed last
	told        map[string]int // the last generation of which was said how it ended, by the step or instance
	begun       map[string]int // the last one of which was said that it begins
	asker       asker

	selection steplog.Selection
	readers   map[string]*steplog.Reader // by the step or instance
	warned    bool                       // that the selection has no output yet
}

// follow copies what is written until the run has ended.
func (l *logs) follow(ctx context.Context) error {
	for range poll.Every(ctx, followEvery) {
		run, err := record.LoadRun(ctx, l.store, l.run.Run) // before the copy, so that nothing written meanwhile is missed
		if err != nil {
			return err
		}
		l.run = run
		if err := l.copy(ctx); err != nil {
			return err
		}
		if !l.running() {
			return l.missing()
		}
		if err := l.warn(); err != nil {
			return err
		}
	}
	return nil
}

// copy prints what is new, steps in graph order.
func (l *logs) copy(ctx context.Context) error {
	l.asker.looks++
	found, err := steplog.List(ctx, l.store, l.run.Run, l.step)
	if err != nil {
		return err
	}
	for place, node := range l.run.Graph {
		if id, _ := record.SplitStep(l.step); l.step != "" && id != node.ID || l.selects() && !ranked(node) {
			continue
		}
		var logs []steplog.Log
		if from := l.run.Steps[place].ReusedFrom; from != "" { // the run that executed it
			if logs, err = steplog.List(ctx, l.store, from, cmp.Or(l.step, node.ID)); err != nil {
				return err
			}
		} else {
			for _, log := range found {
				if id, _ := record.SplitStep(log.Step); id == node.ID {
					logs = append(logs, log)
				}
			}
		}
		if err := l.node(ctx, place, logs); err != nil {
			return err
		}
	}
	return nil
}

func (l *logs) running() bool { return l.run.Status == spec.StatusRunning }
