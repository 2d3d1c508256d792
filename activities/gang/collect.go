package gang

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/adopt"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/internal/metrics"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/protocol"
)

// curvePoints is how many points of the loss curve are kept.
const curvePoints = 1000

// curvePoint is one point of the loss curve.
type curvePoint struct {
	Step       int64          `json:"step"`
	Loss       metrics.Number `json:"loss"`
	Generation int            `json:"generation"`
}

// Collect builds the step's outputs from the course of the training. The metrics that it gets are those of the finished chain: each step
// occurs once, whatever was lost and repeated. For a step of another kind, the outputs are those of its program, as beside the worker.
func (t *Trainings) Collect(ctx context.Context, in contract.CollectInput) (record.StepOutput, error) {
	out, err := t.collect(ctx, in)
	if err != nil {
		return out, err
	}
	isSame, err := t.Engine.HasPython(ctx, in.Submission, in.Python) // each generation began with that of its time
	out.Unkeyed = !isSame
	return out, err
}

func (t *Trainings) collect(ctx context.Context, in contract.CollectInput) (record.StepOutput, error) {
	heartbeat.Show(ctx, func() any { return protocol.Progress{Text: "collecting the outputs", Share: -1} })
	sp, err := record.LoadTraining(ctx, t.Store, in.StepInput)
	if err != nil {
		return record.StepOutput{}, err
	}
	if in.OnPool() {
		return t.collectProgram(ctx, in, sp.Checkpoint.Keep)
	}
	blob, err := t.Store.Blob(ctx, in.Metrics)
	if err != nil {
		return record.StepOutput{}, fmt.Errorf("read the metrics: %w", err)
	}
	read, err := readMetrics(blob, sp.Metrics, in.Generations)
	if err := errors.Join(err, blob.Close()); err != nil {
		return record.StepOutput{}, fmt.Errorf("read the metrics: %w", err)
	}
	for _, name := range sp.Metrics {
		last, ok := read.last[name]
		if !ok {
			return record.StepOutput{}, fault.Errorf(fault.User, "metric %q is declared, but the program never wrote it to $SLUICE_METRICS as a number", name)
		}
		if n := metrics.Number(last); !n.Finite() {
			return record.StepOutput{}, fault.Errorf(fault.User,
				"metric %q is %s in the last line of $SLUICE_METRICS that reports it: the training has diverged", name, n)
		}
	}
	out, err := t.account(ctx, in.StepInput, in.Generations)
	if err != nil {
		return record.StepOutput{}, err
	}
	out.Metrics, out.Steps = read.last, read.steps
	out.Late = in.Late
	if out.Curve, err = t.storeCurve(ctx, read.curve); err != nil {
		return record.StepOutput{}, err
	}
	all, err := fieldsOf(out)
	if err != nil {
		return record.StepOutput{}, err
	}
	if out.CostUnknown {
		delete(all, "cost_usd")
	}
	maps.Copy(all, in.Outputs)
	t.pruneNow(ctx, training.Key{Run: in.Run, Step: in.Step, Generation: len(in.Generations)}, sp.Checkpoint.Keep, 0)
	return record.StoreOutputs(ctx, t.Store, all)
}

// collectProgram makes the output of a step that is no training: what its agent collected, and an account of the nodes beside it.
func (t *Trainings) collectProgram(ctx context.Context, in contract.CollectInput, keep int) (record.StepOutput, error) {
	outputs, err := t.outputsOf(ctx, in)
	if err != nil {
		return record.StepOutput{}, err
	}
	out, err := record.StoreOutputs(ctx, t.Store, outputs)
	if err != nil {
		return out, err
	}
	paid, err := t.account(ctx, in.StepInput, in.Generations)
	if err != nil {
		return out, err
	}
	if out.Account, err = json.Marshal(paid); err != nil {
		return out, fmt.Errorf("encode the account: %w", err)
	}
	t.pruneNow(ctx, training.Key{Run: in.Run, Step: in.Step, Generation: len(in.Generations)}, keep, 0)
	return out, nil
}

// outputsOf are the outputs of a step that is no training: what sluice did there is taken over here, the others are as their agent collected
// them.
func (t *Trainings) outputsOf(ctx context.Context, in contract.CollectInput) (any, error) {
	if in.BySluice() {
		outputs, err := adopt.Outputs(ctx, t.Store, in)
		if err != nil {
			return nil, activities.TypedOfCompile(ctx, err)
		}
		return outputs, nil
	}
	if in.Outputs == nil {
		return map[string]any{}, nil
	}
	return in.Outputs, nil
}

// storeCurve stores a loss curve and returns the digest of its blob.
func (t *Trainings) storeCurve(ctx context.Context, points []curvePoint) (digest string, err error) {
	curve, err := json.Marshal(thin(points, curvePoints))
	if err != nil {
		return "", err
	}
	if digest, _, err = t.Store.PutBlob(ctx, bytes.NewReader(curve)); err != nil {
		return "", fmt.Errorf("store the loss curve: %w", err)
	}
	return digest, nil
}

// metricsRead is what the metrics say.
type metricsRead struct {
	last  map[string]float64 // of each declared metric
	steps int64
	curve []curvePoint
}

// readMetrics reads metrics lines. What is neither declared nor known to Sluice is left out.
func readMetrics(r io.Reader, declared []string, generations []spec.Generation) (metricsRead, error) {
	read := metricsRead{last: map[string]float64{}}
	for line, err := range metrics.Lines(r) {
		if err != nil {
			return read, err
		}
		if line.OfOtherRank() {
			continue
		}
		for _, name := range declared {
			if v, ok := line[name]; ok {
				read.last[name] = v
			}
		}
		step, _ := line.Step()
		if loss, ok := line.Loss(); ok && step > read.steps {
			read.curve = append(read.curve, curvePoint{Step: step, Loss: loss, Generation: generationOf(step, generations)})
		}
		read.steps = max(read.steps, step)
	}
	return read, nil
}

// generationOf is the generation whose work on a step was kept: the last that started before it.
func generationOf(step int64, generations []spec.Generation) int {
	at := 0
	for _, g := range generations {
		if g.FromStep < step {
			at = g.Index
		}
	}
	return at
}

// thin keeps at most n points, evenly spaced, the first and the last among them.
func thin(points []curvePoint, n int) []curvePoint {
	if len(points) <= n {
		return points
	}
	kept := make([]curvePoint, n)
	for i := range kept {
		kept[i] = points[i*(len(points)-1)/(n-1)]
	}
	return kept
}

// fieldsOf is a struct as a JSON object.
func fieldsOf(v any) (map[string]any, error) {
	raw, err := json.Marshal(v)
	if err != nil {
		return nil, err
	}
	var fields spec.Values
	return fields, json.Unmarshal(raw, &fields)
}
