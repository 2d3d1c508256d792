package activities

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
	"github.com/sluiceml/sluice/training/protocol"
)

// Account says what a training did that did not succeed, as Collect does of one that did, but for the declared outputs.
func (t *Trainings) Account(ctx context.Context, in contract.AccountInput) (spec.TrainOutput, error) {
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: "collecting what it did", Share: -1} })
	sp, err := record.LoadTraining(ctx, t.Store, in.StepInput)
	if err != nil {
		return spec.TrainOutput{}, err
	}
	last := &in.Generations[len(in.Generations)-1]
	k := training.Key{Run: in.Run, Step: in.Step, Generation: last.Index + 1}
	resume, err := checkpoint.Newest(ctx, t.Store, k, in.Unusable)
	if err != nil {
		return spec.TrainOutput{}, err
	}
	k.Generation = last.Index
	reached, exact, err := t.reached(ctx, k)
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
	out := account(in.Generations)
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
	if err != nil || resume == nil || read.steps >= resume.Step {
		return read, err
	}
	blob, err := checkpoint.Seal{Resume: resume}.Files(t.Store, last).Blob(ctx, resume.Metrics)
	if err != nil {
		return read, err
	}
	defer blob.Close()
	return readMetrics(blob, declared, generations)
}

// account adds the generations up. A step is repeated when a generation makes it that an earlier one has made before.
func account(generations []spec.Generation) spec.TrainOutput {
	out := spec.TrainOutput{Generations: generations}
	var reached int64
	for _, g := range generations {
		out.StepsLost += g.StepsLost
		out.StepsRepeated += max(0, min(reached, g.ToStep)-g.FromStep)
		out.StepsAtLeast = out.StepsAtLeast || g.StepsAtLeast
		seconds := float64(g.Nodes) * g.EndedAt.Sub(g.StartedAt).Seconds()
		out.NodeSeconds += seconds
		out.CostUSD += g.CostUSD
		out.CostUnknown = out.CostUnknown || g.PriceUnknown
		line := lineOf(&out.Ledger, g)
		line.Generations++
		line.NodeSeconds += seconds
		line.CostUSD += g.CostUSD
		reached = max(reached, g.ToStep)
	}
	return out
}

// lineOf is the ledger's line for what a generation bought and how it ended.
func lineOf(ledger *[]spec.LedgerLine, g spec.Generation) *spec.LedgerLine {
	for i := range *ledger {
		if line := &(*ledger)[i]; line.Pool == g.Pool && line.Capacity == g.Capacity && line.End == g.End {
			return line
		}
	}
	*ledger = append(*ledger, spec.LedgerLine{Pool: g.Pool, Capacity: g.Capacity, End: g.End})
	return &(*ledger)[len(*ledger)-1]
}
