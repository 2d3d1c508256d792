package look

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/store/steplog"
)

// everything is the selection without flags.
var everything = steplog.Selection{Generation: steplog.Any, Node: steplog.Any, Rank: steplog.Any}

// addSelection adds the flags that select from the output of trainings; the function reads them.
func addSelection(cmd *cobra.Command) func() (steplog.Selection, error) {
	var s steplog.Selection
	flags := []struct {
		name, usage string
		to          *int
		least       int
	}{
		{"rank", "only the output of this rank of a training, among those of all its nodes", &s.Rank, 0},
		{"node", "only the output of this node of a training", &s.Node, 0},
		{"generation", "only the output of this generation of a training", &s.Generation, 1},
	}
	for _, f := range flags {
		cmd.Flags().IntVar(f.to, f.name, 0, f.usage)
	}
	return func() (steplog.Selection, error) {
		for _, f := range flags {
			switch {
			case !cmd.Flags().Changed(f.name):
				*f.to = steplog.Any
			case *f.to < f.least:
				return s, fault.Errorf(fault.Invalid, "--%s=%d: must be at least %d", f.name, *f.to, f.least)
			}
		}
		return s, nil
	}
}

// ranked reports whether the ranks of a gang run a step: a training, or one on a pool.
func ranked(n spec.Node) bool { return n.Kind == spec.KindTrain || n.OnPool }

// selects reports whether only a part of the output of trainings is asked for.
func (l *logs) selects() bool { return l.selection != everything }

func (l *logs) selectsGeneration(generation int) bool {
	return l.selection.Generation == steplog.Any || l.selection.Generation == generation
}

// checkSelection checks that there is a training to select from.
func (l *logs) checkSelection() error {
	id, _ := record.SplitStep(l.step)
	selectable := func(n spec.Node) bool { return ranked(n) && (l.step == "" || n.ID == id) }
	switch {
	case !l.selects() || slices.ContainsFunc(l.run.Graph, selectable):
		return nil
	case l.step == "":
		return fault.Errorf(fault.Invalid, "run %s has no training: --rank, --node and --generation have nothing to select from", l.run.Run)
	}
	return fault.Errorf(fault.Invalid, "step `%s` is not a training: --rank, --node and --generation have nothing to select from", l.step)
}

// node prints the new output of a step or of its instances.
func (l *logs) node(ctx context.Context, place int, found []steplog.Log) error {
	node := l.run.Graph[place]
	if len(found) == 0 && ranked(node) && node.Fan == spec.FanNone { // its nodes may have been lost before they printed anything
		found = []steplog.Log{{Step: node.ID}}
	}
	for i, log := range found {
		var all generations
		if ranked(node) {
			var err error
			if all, err = l.generations(ctx, place, log.Step, l.asker.isDue(i, len(found))); err != nil {
				return err
			}
		}
		if err := l.parts(ctx, node, log, all); err != nil {
			return err
		}
	}
	return nil
}

// parts prints the new output of the attempts or generations of a step or an instance. all are its generations, as far as they are known.
func (l *logs) parts(ctx context.Context, node spec.Node, log steplog.Log, all generations) error {
	step := log.Step
	if l.readers[step] == nil {
		l.readers[step] = steplog.NewReader(l.store, l.selection)
	}
	printed := l.readers[step].Add(log)
	for i, g := range printed {
		if err := l.ended(step, all, g-1); err != nil { // of those before that have printed nothing
			return err
		}
		ended := !l.running() || i+1 < len(printed) || g <= len(all.ended)
		err := l.readers[step].Read(ctx, g, ended, func(line steplog.Line) error { return l.stepLine(node, step, line) })
		if err != nil {
			return err
		}
	}
	return l.ended(step, all, len(all.ended))
}

// stepLine prints a line of a step.
func (l *logs) stepLine(node spec.Node, step string, line steplog.Line) error {
	if !ranked(node) {
		return l.line(logLine{Step: step, Log: fmt.Sprintf("attempt-%d", line.Generation), At: line.At, Text: line.Text})
	}
	printed := logLine{Step: step, Generation: line.Generation, Node: &line.Node, At: line.At, Text: line.Text, shared: line.Shared}
	if line.Rank != steplog.NoRank {
		printed.Rank = &line.Rank
	}
	return l.line(printed)
}

// missing is an error if nothing was printed because there is no such generation, node or rank.
func (l *logs) missing() error {
	if l.printed || !l.selects() {
		return nil
	}
	why := ""
	for step, r := range l.readers {
		missing := r.Missing()
		if missing == "" {
			return nil
		}
		if this := fmt.Sprintf("`%s` of %s has no %s", step, l.run.Run, missing); why == "" || this < why {
			why = this
		}
	}
	if why == "" {
		return nil
	}
	return fault.New(fault.Invalid, why, nil)
}

// warn says once that what is followed has not begun, and may never.
func (l *logs) warn() error {
	err := l.missing()
	if err == nil || l.warned {
		return nil
	}
	l.warned = true
	missing, _, _ := strings.Cut(err.Error(), "\n")
	_, err = fmt.Fprintf(l.errOut, "sluice: %s yet\n", missing)
	return err
}
