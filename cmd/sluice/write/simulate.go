package write

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/sluiceml/sluice/cmd/sluice/kit"
	"github.com/sluiceml/sluice/cmd/sluice/view"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/deadline"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/training/policy"
)

// NewSimulate makes `sluice simulate`.
func NewSimulate() *cobra.Command {
	var (
		env    string
		files  []string
		job    policy.Job
		nodes  = 1
		prices spec.Prices
	)
	cmd := &cobra.Command{
		Use:   "simulate [PIPELINE STEP] --trace FILE",
		Short: "Replay a trace of spot availability to compare costs",
		Long: `Replay a trace of spot availability through the policy that buys capacity for
train steps with a deadline, and compare its cost with other strategies:

  greedy            use spot or wait for it until the remaining time is
                    needed, then on-demand to the end
  uniform_progress  keep the progress in proportion to the time that has
                    passed (Wu et al., NSDI 2024)
  on_demand         on-demand only
  bound             the least cost if the trace were known in advance

The deadline, its work and the prices are those of the STEP of PIPELINE and its
first pool, or those of the flags. Costs are the mean over the windows of the
trace, for one node.

A trace is JSON: {"gap_seconds": 600, "windows": [{"available": "110..."}]},
where each character stands for gap_seconds, and 1 means that spot is
available. Files of skypilot-org/spot-traces on GitHub are read as they are, and
cut into windows of the deadline's length; spot is available in them while they
count as many instances as STEP has nodes, without STEP one. --trace can be
repeated; all windows have the same weight.

--format svg draws the first windows: when there was spot, what the policy ran,
and the work done.`,
		Example: `  sluice simulate --work 48h --deadline 52h --spot 0.97 --on-demand 3.06 \
    --trace v100.json
  sluice simulate pipeline.yaml fit -e prod --work 6h --changeover 5m \
    --trace v100.json --trace k80.json
  sluice simulate --work 48h --deadline 92h --trace v100.json --format json
  sluice simulate --work 48h --deadline 92h --trace v100.json --format svg \
    > v100.svg`,
		Args: cobra.MaximumNArgs(2),
	}
	kit.AddEnvironment(cmd, &env)
	format := kit.AddFormat(cmd, "svg")
	flags := cmd.Flags()
	flags.StringArrayVar(&files, "trace", nil, "trace file; may be repeated")
	flags.DurationVar(&job.Work, "work", 0, "duration of the training without interruptions; default: that of the step's deadline")
	flags.DurationVar(&job.Within, "deadline", 0, "deadline; default: the step's")
	flags.DurationVar(&job.Changeover, "changeover", 3*time.Minute, "time that new nodes need until they train")
	flags.Float64Var(&prices.Spot, "spot", 0, "price of a spot node in dollars per hour; default: the pool's, or 1")
	flags.Float64Var(&prices.OnDemand, "on-demand", 0, "price of an on-demand node in dollars per hour; default: the pool's, or 3")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		if len(files) == 0 {
			return kit.UsageError(cmd, "--trace is required")
		}
		if err := ofStep(&job, &nodes, args, env); err != nil {
			return err
		}
		job.Prices = pricesOr(prices, pricesOr(job.Prices, spec.Prices{Spot: 1, OnDemand: 3}))
		if err := checkJob(job); err != nil {
			return kit.UsageError(cmd, err.Error())
		}
		traces, err := readTraces(files, nodes, job.Within)
		if err != nil {
			return err
		}
		if *format == "svg" {
			return view.Simulation(cmd.OutOrStdout(), job, traces)
		}
		c := policy.Compare(job, traces)
		return kit.Print(cmd, *format, c, func(out io.Writer) error { return showComparison(out, c) })
	}
	return cmd
}

// ofStep takes from a step what the flags leave open.
func ofStep(job *policy.Job, nodes *int, args []string, env string) error {
	switch len(args) {
	case 0:
		return nil
	case 1:
		return fault.New(fault.Invalid, "name a step of the pipeline: sluice simulate "+args[0]+" STEP", nil)
	}
	pipeline, environment, err := control.ReadDocuments(args[0], env)
	if err != nil {
		return err
	}
	folder, err := control.OpenFolder(args[0], environment)
	if err != nil {
		return err
	}
	program, findings := dsl.Compile(pipeline, environment, folder)
	if program == nil {
		return fault.New(fault.Invalid, findings.Text(false), nil)
	}
	spec, err := program.Training(args[1])
	if err != nil {
		return fault.New(fault.Invalid, err.Error(), err)
	}
	if spec.Deadline != nil && job.Work == 0 {
		job.Work = time.Duration(spec.Deadline.Work)
	}
	if spec.Deadline != nil && job.Within == 0 {
		due, err := deadline.After(spec.Deadline, time.Now())
		if err != nil {
			return fault.New(fault.Invalid, err.Error(), err)
		}
		job.Within = time.Until(due).Round(time.Second)
	}
	*nodes = spec.Nodes.Min
	if len(spec.Pool) > 0 {
		job.Prices = program.Environment().Pools[spec.Pool[0]].USDPerHour
	}
	return nil
}

func pricesOr(p, other spec.Prices) spec.Prices {
	return spec.Prices{OnDemand: cmp.Or(p.OnDemand, other.OnDemand), Spot: cmp.Or(p.Spot, other.Spot)}
}

// maxWork bounds a replay, which takes its time for every interval.
const maxWork = 365 * 24 * time.Hour

func checkJob(job policy.Job) error {
	switch {
	case job.Work == 0:
		return errors.New("the duration of the training is unknown: set --work, or `work` in the step's deadline")
	case job.Work < 0 || job.Work > maxWork:
		return fmt.Errorf("--work must be positive and at most %v", maxWork)
	case job.Within == 0:
		return errors.New("there is no deadline: set --deadline")
	case job.Changeover < 0 || job.Prices.Spot < 0 || job.Prices.OnDemand < 0:
		return errors.New("times and prices must not be negative")
	case job.Within < job.Work+job.Changeover:
		return fmt.Errorf("a deadline of %v cannot be met: the work and one changeover take %v", job.Within, job.Work+job.Changeover)
	case job.Within > maxWork:
		return fmt.Errorf("--deadline must be at most %v", maxWork)
	}
	return nil
}

func readTraces(files []string, nodes int, within time.Duration) ([]policy.Trace, error) {
	var traces []policy.Trace
	for _, file := range files {
		f, err := os.Open(file)
		if err != nil {
			return nil, fault.New(fault.Invalid, "open the trace: "+err.Error(), err)
		}
		t, err := policy.ReadTrace(f, nodes, within)
		f.Close()
		if err != nil {
			return nil, fault.New(fault.Invalid, file+": "+err.Error(), err)
		}
		traces = append(traces, t)
	}
	return traces, nil
}

func showComparison(out io.Writer, c policy.Comparison) error {
	saved := func(usd float64) string {
		if c.OnDemandUSD == 0 {
			return "-"
		}
		return human.Percent(1 - usd/c.OnDemandUSD)
	}
	if _, err := fmt.Fprintf(out, "%s, mean costs\n\n", human.Plural(int64(c.Windows), "window")); err != nil {
		return err
	}
	heads := []string{"strategy", "cost", "saved", "missed", "changeovers", "spot", "on-demand", "waited"}
	hours := func(h float64) string { return strconv.FormatFloat(h, 'f', 1, 64) + "h" }
	return kit.Table(out, strings.Join(heads, "\t"), func(w io.Writer) {
		for _, m := range c.Results {
			kit.Row(w, m.Strategy, fmt.Sprintf("$%.2f", m.USD), saved(m.USD), strconv.Itoa(m.Missed), strconv.FormatFloat(m.Changeovers, 'f', 1, 64),
				hours(m.SpotHours), hours(m.StayHours), hours(m.WaitedHours))
		}
		kit.Row(w, "bound", fmt.Sprintf("$%.2f", c.BoundUSD), saved(c.BoundUSD))
	})
}
