package runs

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/ranklog"
)

// followEvery spaces looks at logs that are still written.
const followEvery = 300 * time.Millisecond

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

The output of trainings comes from the store, wherever their nodes are, about
three seconds after it was printed. Where a generation has several ranks, each
line begins with its generation, node and rank: g2 n1 r3; --generation, --node
and --rank select from them. If a training lost a gang, a line after its output
says which and why, and another one that the next generation begins; --follow
prints them as soon as that has happened. The logs of the agents of a local
pool's nodes are in the state folder, under logs.

With --timestamps every line begins with the time when it was written, to the
second, or with - if the time is not known. With --format json every line is one
JSON object: its step, text, time, and the log of the program it is from, or the
generation, node and rank of the training. An object with end tells how a
generation ended, and one with begins that it begins.`,
		Example: `  sluice logs
  sluice logs fit
  sluice logs fit.3
  sluice logs spam-filter fit -f --timestamps
  sluice logs fit -f --rank 3
  sluice logs fit --generation 2 --node 1`,
		Args:              cobra.MaximumNArgs(2),
		ValidArgsFunction: completeSteps,
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
		run, step, err := findStep(cmd, args)
		if err != nil {
			return err
		}
		if run, step, err = inChild(cmd, run, step); err != nil {
			return err
		}
		s, err := kit.OpenStore(cmd)
		if err != nil {
			return err
		}
		l := &logs{
			dir: filepath.Join(kit.StateDir(cmd), "logs"), step: step, run: run, store: s, timestamps: *timestamps,
			json: *format == "json", out: cmd.OutOrStdout(), errOut: cmd.ErrOrStderr(), selection: selected,
			read: map[string]int64{}, told: map[string]int{}, begun: map[string]int{},
			readers: map[string]*ranklog.Reader{},
			asker:   asker{stateDir: kit.StateDir(cmd), states: map[string]contract.TrainState{}},
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
func inChild(cmd *cobra.Command, run record.Run, step string) (record.Run, string, error) {
	id, index := record.SplitStep(step)
	i := slices.IndexFunc(run.Graph, func(n spec.Node) bool { return n.ID == id && n.Kind == spec.KindPipeline })
	if step == "" || i < 0 {
		return run, step, nil
	}
	if run.Graph[i].Fan != spec.FanNone && index < 0 {
		return run, step, fault.Errorf(fault.Invalid, "each instance of `%s` is a separate run\n"+
			"help: select one, such as `sluice logs %s %s.0`", step, run.Run, step)
	}
	s, err := kit.OpenStore(cmd)
	if err != nil {
		return run, step, err
	}
	v, err := viewOf(cmd.Context(), s, run, step, 0)
	switch {
	case err != nil:
		return run, step, err
	case v.Step.ChildRun == "":
		return run, step, fault.Errorf(fault.Invalid, "the child run of `%s` has not started", step)
	}
	child, err := record.LoadRun(cmd.Context(), s, v.Step.ChildRun)
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
			files, err := filepath.Glob(filepath.Join(l.dir, from, node.ID, "*.log"))
			if err != nil {
				return fmt.Errorf("find logs: %w", err)
			}
			stored, err := ranklog.Steps(ctx, l.store, from, node.ID)
			if err != nil {
				return err
			}
			if len(stored) > 0 || slices.ContainsFunc(files, func(file string) bool { info, err := os.Stat(file); return err == nil && info.Size() > 0 }) {
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
	dir, step   string // dir holds a folder a run
	run         record.Run
	store       *store.Store
	timestamps  bool
	json        bool // a JSON object for each line
	out, errOut io.Writer
	read        map[string]int64 // bytes copied, by file
	printed     bool             // a line was
	last        string           // the heading printed last
	told        map[string]int   // the last generation of which was said how it ended, by the step or instance
	begun       map[string]int   // the last one of which was said that it begins
	asker       asker

	selection ranklog.Selection
	readers   map[string]*ranklog.Reader // of trainings, by the step or instance
	lookedAt  time.Time                  // when they were last read
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
	look := !l.running() || time.Since(l.lookedAt) >= lookEvery
	if look {
		l.lookedAt = time.Now()
		l.asker.looks++
	}
	for place, node := range l.run.Graph {
		from := cmp.Or(l.run.Steps[place].ReusedFrom, l.run.Run) // whose program it was
		patterns := []string{node.ID, node.ID + ".*"}            // the step, and its instances
		if id, index := record.SplitStep(l.step); l.step != "" && id != node.ID {
			continue
		} else if index >= 0 {
			patterns = []string{l.step}
		}
		var err error
		switch {
		case !ranked(node) && !l.selects():
			err = l.files(ctx, place, from, patterns)
		case ranked(node) && look:
			err = l.training(ctx, place, from, patterns)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// files prints what is new in the files of a step and its instances, attempts by name. Logs of agents are no program's of a step.
func (l *logs) files(ctx context.Context, place int, from string, patterns []string) error {
	for _, pattern := range patterns {
		files, err := filepath.Glob(filepath.Join(l.dir, from, pattern, "*.log"))
		if err != nil {
			return fmt.Errorf("find logs: %w", err)
		}
		files = slices.DeleteFunc(files, func(file string) bool { return strings.Contains(filepath.Base(file), "-agent") })
		slices.SortFunc(files, func(a, b string) int { // fit.2 before fit.10, attempt-2 before attempt-10
			da, db := filepath.Dir(a), filepath.Dir(b)
			return cmp.Or(cmp.Compare(len(da), len(db)), cmp.Compare(da, db), cmp.Compare(len(a), len(b)), cmp.Compare(a, b))
		})
		for i, file := range files {
			step := filepath.Base(filepath.Dir(file))
			if err := l.file(step, file); err != nil {
				return err
			}
			if ranked(l.run.Graph[place]) && (i+1 == len(files) || generationOf(files[i+1]) != generationOf(file)) {
				all, err := l.generations(ctx, place, step, false)
				if err == nil {
					err = l.ended(step, all, generationOf(file))
				}
				if err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// generationOf is the number of the generation whose log a file is: 2 of g2-rank0.log.
func generationOf(file string) (generation int) {
	_, _ = fmt.Sscanf(filepath.Base(file), "g%d-", &generation)
	return generation
}

// file prints the whole lines a file has more than were read of it.
func (l *logs) file(step, path string) (err error) {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Close()) }()
	if _, err := f.Seek(l.read[path], io.SeekStart); err != nil {
		return err
	}
	var times script.Times
	if l.timestamps || l.json {
		if times, err = script.ReadTimes(path); err != nil {
			return err
		}
	}
	from := strings.TrimSuffix(filepath.Base(path), ".log")
	r := bufio.NewReader(f)
	for {
		line, err := r.ReadString('\n')
		if line == "" || errors.Is(err, io.EOF) && l.running() {
			return nil // the rest of the line is still to come
		}
		if err != nil && !errors.Is(err, io.EOF) {
			return err
		}
		at := times.At(l.read[path])
		l.read[path] += int64(len(line))
		if err := l.line(logLine{Step: step, Log: from, At: at, Text: strings.TrimSuffix(line, "\n")}); err != nil {
			return err
		}
	}
}

func (l *logs) running() bool { return l.run.Status == spec.StatusRunning }
