package gang

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/metrics"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/ledger"
	"github.com/sluiceml/sluice/training/protocol"
)

// Account returns the account of a training that did not succeed, like Collect for one that did, but without the declared outputs.
func (t *Trainings) Account(ctx context.Context, in contract.AccountInput) (spec.TrainOutput, error) {
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: "collecting the account", Share: -1} })
	sp, err := record.LoadTraining(ctx, t.Store, in.StepInput)
	if err != nil {
		return spec.TrainOutput{}, err
	}
	if len(in.Generations) == 0 {
		return t.account(ctx, in.StepInput, nil)
	}
	last := &in.Generations[len(in.Generations)-1]
	k := training.Key{Run: in.Run, Step: in.Step, Generation: last.Index + 1}
	resume, err := checkpoint.Newest(ctx, t.Store, k, in.Unusable)
	if err != nil {
		return spec.TrainOutput{}, err
	}
	k.Generation = last.Index
	progress, err := checkpoint.GetProgress(ctx, t.Store, k)
	if err != nil {
		return spec.TrainOutput{}, err
	}
	reached, exact, err := t.reached(k, progress)
	if err != nil {
		return spec.TrainOutput{}, err
	}
	last.ToStep = max(last.ToStep, reached)
	last.StepsAtLeast = last.StepsAtLeast && !exact
	if last.End != spec.EndFinished { // no generation follows that could do them again
		last.CommittedStep = checkpoint.Seal{Resume: resume}.FromStep()
		last.StepsLost = max(0, last.ToStep-last.CommittedStep)
	}
	read, err := t.metricsSoFar(ctx, k, resume, sp.Metrics, in.Generations)
	if err != nil {
		return spec.TrainOutput{}, fmt.Errorf("read the metrics: %w", err)
	}
	maps.DeleteFunc(read.last, func(_ string, v float64) bool { return !metrics.Number(v).Finite() })
	out, err := t.account(ctx, in.StepInput, in.Generations)
	if err != nil {
		return out, err
	}
	out.Metrics, out.Steps = read.last, max(read.steps, last.ToStep)
	out.Curve, err = t.storeCurve(ctx, read.curve)
	return out, err
}

// metricsSoFar reads the metrics of a training that has not finished: of its last generation, where this worker can see its file, and else
// up to the newest checkpoint.
func (t *Trainings) metricsSoFar(
	ctx context.Context, last training.Key, resume *checkpoint.Manifest, declared []string, generations []spec.Generation,
) (metricsRead, error) {
	read := metricsRead{last: map[string]float64{}}
	f, err := os.Open(filepath.Join(t.LogDir, training.MetricsPath(last, 0)))
	if err == nil {
		read, err = readMetrics(f, declared, generations)
		err = errors.Join(err, f.Close())
	} else if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	if err != nil || resume == nil || read.steps >= resume.Reached() {
		return read, err
	}
	blob, err := checkpoint.Seal{Resume: resume}.Files(t.Store, last).Blob(ctx, resume.Metrics)
	if err != nil {
		return read, err
	}
	defer blob.Close()
	return readMetrics(blob, declared, generations)
}

// account adds the generations up, and what their nodes cost. A step is repeated when a generation makes it that an earlier one has made
// before.
func account(generations []spec.Generation, costs []spec.NodeCost) spec.TrainOutput {
	out := spec.TrainOutput{Generations: generations}
	places := make(map[int]int, len(generations)) // by index
	var reached int64
	for i := range generations {
		g := &generations[i]
		out.StepsLost += g.StepsLost
		out.StepsRepeated += max(0, min(reached, g.ToStep)-g.FromStep)
		out.StepsAtLeast = out.StepsAtLeast || g.StepsAtLeast
		lineOf(&out.Ledger, spec.LedgerLine{Pool: g.Pool, Capacity: g.Capacity, End: g.End}).Generations++
		reached = max(reached, g.ToStep)
		g.CostUSD = 0
		places[g.Index] = i
	}
	for _, c := range costs {
		out.CostUnknown = out.CostUnknown || c.PriceUnknown
		end := spec.EndNeverStarted
		if i, known := places[c.Generation]; known && (c.Outcome != spec.OutcomeNeverStarted || generations[i].RanAt.IsZero()) {
			end = generations[i].End
			generations[i].CostUSD += usdOf(c)
		}
		line := lineOf(&out.Ledger, spec.LedgerLine{Pool: c.Pool, Capacity: c.Capacity, End: end})
		line.NodeSeconds += c.Seconds
		line.CostUSD += usdOf(c)
		out.NodeSeconds += c.Seconds
		out.CostUSD += usdOf(c)
	}
	out.Costs, out.Outcomes = ledger.Sum(costs)
	return out
}

func usdOf(c spec.NodeCost) float64 {
	if c.CostUSD == nil {
		return 0
	}
	return *c.CostUSD
}

// lineOf is the ledger's line for what was bought and how it ended.
func lineOf(all *[]spec.LedgerLine, like spec.LedgerLine) *spec.LedgerLine {
	for i := range *all {
		if line := &(*all)[i]; line.Pool == like.Pool && line.Capacity == like.Capacity && line.End == like.End {
			return line
		}
	}
	*all = append(*all, like)
	return &(*all)[len(*all)-1]
}
