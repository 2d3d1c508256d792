package look

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/activities/retention"
	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// What `cost` adds up by.
const (
	byStep    = "step"
	byPool    = "pool"
	byOutcome = "outcome"
)

var costsBy = []string{byStep, byPool, byOutcome}

// NewCost makes `sluice cost`.
func NewCost() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "cost RUN|PIPELINE",
		Short: "Show what the nodes of runs cost, by step, pool or outcome",
		Long: `Show how long the nodes of a run, or of all runs of a pipeline, were paid for,
and what they cost. This includes failed runs, child pipelines, nodes that
failed to boot, and nodes that were given back; results that were reused from
another run cost nothing. A cost is unknown if the price of one of the nodes is
unknown.

With --by outcome, the time is divided into what the nodes did: useful steps,
steps that were lost, overhead such as booting and restoring a checkpoint, and
nodes on which no rank was started. The JSON format also lists every node.`,
		Example: `  sluice cost spam-filter
  sluice cost spam-filter --by outcome --since 30d
  sluice cost spam-filter-20260314-1 --by pool
  sluice cost spam-filter-20260314-1 --format json | jq .nodes`,
		Args:              cobra.ExactArgs(1),
		ValidArgsFunction: completeCost,
	}
	by := cmd.Flags().String("by", byStep, "what to add up by: "+strings.Join(costsBy, ", "))
	since := cmd.Flags().String("since", "", "runs started since then: 90m, 24h, 7d, 2026-03-14 or 2026-03-14T15:04")
	kit.Must(cmd.RegisterFlagCompletionFunc("by", cobra.FixedCompletions(costsBy, cobra.ShellCompDirectiveNoFileComp)))
	format := kit.AddFormat(cmd)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if !slices.Contains(costsBy, *by) {
			return kit.UsageError(cmd, fmt.Sprintf("--by must be one of %s, not %q", strings.Join(costsBy, ", "), *by))
		}
		f := filter{since: *since}
		if err := f.parse(cmd, time.Now()); err != nil {
			return err
		}
		s, err := kit.OpenStore(cmd)
		if err != nil {
			return err
		}
		b := &bill{By: *by, Runs: []string{}, Lines: []billLine{}, Nodes: []billNode{}}
		if err := b.addRuns(cmd.Context(), s, args[0], &f); err != nil {
			return err
		}
		return kit.Print(cmd, *format, b, b.write)
	}
	return cmd
}

// completeCost offers pipelines and runs.
func completeCost(cmd *cobra.Command, args []string, prefix string) ([]string, cobra.ShellCompDirective) {
	runs, directive := kit.CompleteRuns(cmd, args, prefix)
	if len(args) > 0 {
		return runs, directive
	}
	pipelines, _ := kit.CompletePipelines(cmd, args, prefix)
	return append(pipelines, runs...), directive
}

// bill is what runs have cost.
type bill struct {
	By   string   `json:"by"`
	Runs []string `json:"runs"`
	// Open are those of them that have not ended: what their open steps have cost is not included.
	Open  []string   `json:"open,omitempty"`
	Lines []billLine `json:"lines"`
	spec.Spent
	// Nodes has the ledger of each node, for programs.
	Nodes []billNode `json:"nodes"`
}

// billLine is one line of a bill. The fields that it adds up by are set.
type billLine struct {
	Step     string       `json:"step,omitempty"`
	Pool     string       `json:"pool,omitempty"`
	Type     string       `json:"type,omitempty"`
	Zone     string       `json:"zone,omitempty"`
	Capacity string       `json:"capacity,omitempty"`
	Outcome  spec.Outcome `json:"outcome,omitempty"`
	spec.Spent
}

// billNode is what a node cost in a run.
type billNode struct {
	Run  string `json:"run"`
	Step string `json:"step"`
	spec.NodeCost
}

// addRuns adds the runs that a name means, with those of their child pipelines.
func (b *bill) addRuns(ctx context.Context, s *store.Store, name string, f *filter) error {
	all, err := record.Runs(ctx, s)
	if err != nil {
		return err
	}
	named, err := control.Named(all, name)
	if err != nil {
		return err
	}
	for _, r := range f.apply(named) {
		b.Runs = append(b.Runs, r.Run)
		if r.Status == spec.StatusRunning {
			b.Open = append(b.Open, r.Run)
		}
		for _, one := range append([]record.RunRecord{r}, retention.Children(all, r.Run)...) {
			if err := b.addRun(ctx, s, r.Run, one.Run); err != nil {
				return err
			}
		}
	}
	b.sort()
	return nil
}

// addRun adds a run: the one that was asked for, or one of a child pipeline of its, whose steps are named after the parent's step.
func (b *bill) addRun(ctx context.Context, s *store.Store, parent, name string) error {
	run, err := record.LoadRun(ctx, s, name)
	if err != nil {
		return err
	}
	for i, node := range run.Graph {
		steps := run.Steps[i : i+1]
		if node.Fan != spec.FanNone {
			if steps, _, err = record.LoadInstances(ctx, s, name, node.ID, allInstances); err != nil {
				return err
			}
		}
		label := strings.TrimPrefix(strings.TrimPrefix(name, parent)+"."+node.ID, ".")
		for _, step := range steps {
			if step.ReusedFrom != "" {
				continue
			}
			if err := b.addStep(ctx, s, name, label, step); err != nil {
				return err
			}
		}
	}
	return nil
}

// addStep adds what a step says its nodes cost.
func (b *bill) addStep(ctx context.Context, s *store.Store, run, label string, step record.StepRecord) error {
	trained := step.Trained()
	if trained == nil {
		return nil
	}
	var out spec.TrainOutput
	if err := json.Unmarshal(trained, &out); err != nil {
		return fmt.Errorf("the outputs of step %s of %s: %w", step.Step, run, err)
	}
	for _, c := range out.Costs {
		line := billLine{Spent: c.Spent}
		switch b.By {
		case byStep:
			line.Step = label
		case byPool:
			line.Pool, line.Type, line.Zone, line.Capacity = c.Pool, c.Type, c.Zone, c.Capacity
		case byOutcome:
			line.Outcome = c.Outcome
		}
		b.add(line)
	}
	if out.Nodes == "" {
		return nil
	}
	var nodes []spec.NodeCost
	if err := record.ReadBlob(ctx, s, out.Nodes, &nodes); err != nil {
		return fmt.Errorf("what the nodes of step %s of %s cost: %w", step.Step, run, err)
	}
	for _, n := range nodes {
		b.Nodes = append(b.Nodes, billNode{Run: run, Step: step.Step, NodeCost: n})
	}
	return nil
}

// add adds to the line that is alike.
func (b *bill) add(line billLine) {
	like := func(l billLine) bool {
		l.Spent = line.Spent
		return l == line
	}
	if i := slices.IndexFunc(b.Lines, like); i >= 0 {
		b.Lines[i].Spent = b.Lines[i].Add(line.Spent)
		return
	}
	b.Lines = append(b.Lines, line)
}

// outcomes are those of a bill, in order.
var outcomes = []spec.Outcome{spec.OutcomeUseful, spec.OutcomeLost, spec.OutcomeOverhead, spec.OutcomeNeverStarted}

// sort puts the lines in order, steps as they are in the pipeline, and adds them up.
func (b *bill) sort() {
	slices.SortStableFunc(b.Lines, func(x, y billLine) int {
		return cmp.Or(
			cmp.Compare(slices.Index(outcomes, x.Outcome), slices.Index(outcomes, y.Outcome)), cmp.Compare(x.Pool, y.Pool), cmp.Compare(x.Type, y.Type),
			cmp.Compare(x.Zone, y.Zone), cmp.Compare(x.Capacity, y.Capacity))
	})
	b.Spent = spec.Spent{CostUSD: new(float64)}
	for _, l := range b.Lines {
		b.Spent = b.Add(l.Spent)
	}
}

// write writes the bill for people.
func (b *bill) write(out io.Writer) error {
	heads := map[string]string{byStep: "step", byPool: "pool\ttype\tzone\tcapacity", byOutcome: "outcome"}
	err := kit.Table(out, heads[b.By]+"\tnode time\tshare\tcost", func(w io.Writer) {
		for _, l := range b.Lines {
			kit.Row(w, append(b.names(l), b.amounts(l.Spent)...)...)
		}
		total := b.names(billLine{})
		total[0] = "total"
		kit.Row(w, append(total, b.amounts(b.Spent)...)...)
	})
	if err == nil && len(b.Runs) != 1 {
		_, err = fmt.Fprintf(out, "\n%s\n", human.Plural(int64(len(b.Runs)), "run"))
	}
	if err == nil && len(b.Open) > 0 {
		_, err = fmt.Fprintf(out, "\nstill open, so that steps that have not ended are not included: %s\n", strings.Join(b.Open, ", "))
	}
	return err
}

// names are the cells by which a line is known.
func (b *bill) names(l billLine) []string {
	switch b.By {
	case byPool:
		return []string{l.Pool, cmp.Or(l.Type, "-"), cmp.Or(l.Zone, "-"), strings.ReplaceAll(l.Capacity, "_", "-")}
	case byOutcome:
		return []string{strings.ReplaceAll(string(l.Outcome), "_", " ")}
	}
	return []string{l.Step}
}

// amounts are the cells of what was spent.
func (b *bill) amounts(s spec.Spent) []string {
	share := "-"
	if b.NodeSeconds > 0 {
		share = fmt.Sprintf("%.0f%%", 100*s.NodeSeconds/b.NodeSeconds)
	}
	return []string{human.Seconds(s.NodeSeconds), share, view.Cost(s)}
}
