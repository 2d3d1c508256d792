package runs

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/ranklog"
)

// lookEvery spaces looks at what trainings print: each lists a part of the store.
const lookEvery = time.Second

// everything is the selection without flags.
var everything = ranklog.Selection{Generation: ranklog.Any, Node: ranklog.Any, Rank: ranklog.Any}

// addSelection adds the flags that select from the output of trainings; the function reads them.
func addSelection(cmd *cobra.Command) func() (ranklog.Selection, error) {
	var s ranklog.Selection
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
	return func() (ranklog.Selection, error) {
		for _, f := range flags {
			switch {
			case !cmd.Flags().Changed(f.name):
				*f.to = ranklog.Any
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
	return l.selection.Generation == ranklog.Any || l.selection.Generation == generation
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

// training prints what is new of a training, or of its instances where it has several. patterns are its ID and what its instances are called, or
// one instance.
func (l *logs) training(ctx context.Context, place int, from string, patterns []string) error {
	steps, err := ranklog.Steps(ctx, l.store, from, patterns[0])
	if err != nil {
		return err
	}
	if len(steps) == 0 && l.run.Graph[place].Fan == spec.FanNone { // its nodes may have been lost before they printed anything
		steps = patterns[:1]
	}
	for i, step := range steps {
		all, err := l.generations(ctx, place, step, l.asker.isDue(i, len(steps)))
		if err == nil {
			err = l.gangs(ctx, from, step, all)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// gangs prints what is new of a training without instances, or of one, whose generations are known.
func (l *logs) gangs(ctx context.Context, from, step string, all generations) error {
	if l.readers[step] == nil {
		l.readers[step] = ranklog.NewReader(l.store, from, step, l.selection)
	}
	printed, err := l.readers[step].List(ctx)
	if err != nil {
		return err
	}
	for i, g := range printed {
		if err := l.ended(step, all, g-1); err != nil { // of those before that have printed nothing
			return err
		}
		ended := !l.running() || i+1 < len(printed) || g <= len(all.ended)
		err := l.readers[step].Read(ctx, g, ended, func(line ranklog.Line) error { return l.rankLine(step, line) })
		if err != nil {
			return err
		}
	}
	return l.ended(step, all, len(all.ended))
}

// rankLine prints a line of a training.
func (l *logs) rankLine(step string, line ranklog.Line) error {
	printed := logLine{Step: step, Generation: line.Generation, Node: &line.Node, At: line.At, Text: line.Text, shared: line.Shared}
	if line.Rank != ranklog.NoRank {
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
