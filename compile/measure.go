package compile

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/answer"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx"
)

const (
	defaultSplit = "test"
	defaultCount = 500

	warmUps    = 20               // inferences of each model before the first that is measured
	minPasses  = 9                // over the samples
	minTimings = 500              // of each model; few samples are gone over more often
	maxTime    = 20 * time.Second // after which no further pass over the samples begins
)

// Measurement asks for models to be compared with the first of them.
type Measurement struct {
	Models  []Model      `json:"models"`
	Dataset string       `json:"dataset"` // folder
	Samples spec.Samples `json:"samples"`
	// Compare is that of the step.
	Compare answer.Rules `json:"compare,omitempty"`
}

// Model is a model file with the name that errors call it by.
type Model struct {
	Name string `json:"name"`
	File string `json:"file"`
}

// Measured is one model's parity with the first and its speed: batches of one, on one thread. A sample's latency is the median of its
// runs, so that the quantiles over the samples tell of the model and not of what else the machine did.
type Measured struct {
	Parity     spec.Parity  `json:"parity"`
	Latency    spec.Latency `json:"latency"`
	Throughput float64      `json:"throughput"` // inferences per second
}

// Measure runs every model on every sample. The models take turns sample by sample, beginning with another one each time, so that
// whatever else the machine does slows all of them alike.
func Measure(ctx context.Context, m Measurement) ([]Measured, error) {
	models := make([]*model, len(m.Models))
	for i, described := range m.Models {
		session, err := openModel(described)
		if err != nil {
			return nil, err
		}
		defer func() { _ = session.Close() }() // the process ends soon
		models[i] = &model{name: described.Name, session: session, parity: newParity()}
	}
	if err := m.Compare.Check(models[0].session.Outputs()); err != nil {
		return nil, &ModelError{err.Error()}
	}
	samples, err := readSamples(m.Dataset, m.Samples, models[0].session)
	if err != nil {
		return nil, named(err, "samples")
	}
	if err := warmUp(ctx, models, samples); err != nil {
		return nil, err
	}
	passes := max(minPasses, minTimings/len(samples))
	start := time.Now()
	for pass := 0; pass == 0 || pass < passes && time.Since(start) < maxTime; pass++ {
		for i, sample := range samples {
			outputs, err := inTurn(ctx, models, sample, pass+i)
			if err != nil {
				return nil, err
			}
			if pass > 0 {
				continue // the outputs are known
			}
			for j, own := range models {
				if err := own.parity.add(m.Compare, outputs[0], outputs[j]); err != nil {
					return nil, &ModelError{fmt.Sprintf("%s: sample %d: %v", own.name, i+1, err)}
				}
			}
		}
	}
	for _, own := range models {
		share, err := own.batched(ctx, m.Compare, samples)
		if err != nil {
			return nil, err
		}
		own.parity.sums.Batched = &share
	}
	return results(models, len(samples)), nil
}

// model is one model under measurement.
type model struct {
	name    string
	session *onnx.Session
	timings []time.Duration // pass by pass, sample by sample
	parity  parity
}

// parity compares a model with the source model row by row.
type parity struct {
	sums spec.Parity // Top1 and Agreement count rows
	rows int
}

func newParity() parity { return parity{sums: spec.Parity{Cosine: 1}} }

// result is the parity on the rows that were added.
func (p parity) result() spec.Parity {
	p.sums.Top1 /= float64(p.rows)
	p.sums.Agreement /= float64(p.rows)
	return p.sums
}

// readSamples returns rows of a dataset, each as the inputs of a model.
func readSamples(dataset string, of spec.Samples, session *onnx.Session) ([][]oip.Tensor, error) {
	split, count := cmp.Or(of.Split, defaultSplit), cmp.Or(of.Count, defaultCount)
	var samples [][]oip.Tensor
	for row, err := range answer.ReadRows(dataset, split) {
		if err != nil {
			return nil, &ModelError{err.Error()}
		}
		tensors, err := answer.RowTensors(session.Inputs(), row)
		if err != nil {
			return nil, &ModelError{fmt.Sprintf("row %d of split %s: %v", len(samples)+1, split, err)}
		}
		if samples = append(samples, tensors); len(samples) == count {
			break
		}
	}
	if len(samples) == 0 {
		return nil, &ModelError{fmt.Sprintf("split %s is empty", split)}
	}
	return samples, nil
}

func warmUp(ctx context.Context, models []*model, samples [][]oip.Tensor) error {
	for i := range warmUps {
		if _, err := inTurn(ctx, models, samples[i%len(samples)], i); err != nil {
			return err
		}
	}
	for _, m := range models {
		m.timings = nil
	}
	return nil
}

// inTurn runs every model on a sample, beginning with the one whose turn it is.
func inTurn(ctx context.Context, models []*model, sample []oip.Tensor, turn int) ([][]oip.Tensor, error) {
	outputs := make([][]oip.Tensor, len(models))
	for k := range models {
		i := (turn + k) % len(models)
		start := time.Now()
		out, err := models[i].session.Infer(ctx, sample)
		took := time.Since(start)
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err != nil {
			return nil, &ModelError{models[i].name + ": " + err.Error()}
		}
		models[i].timings = append(models[i].timings, took)
		outputs[i] = out
	}
	return outputs, nil
}

// add takes one row's outputs of the source model and of this one. Cosine and largest difference are over all numbers of all
// outputs; the answer is what the gateway would read.
func (p *parity) add(rules answer.Rules, source, own []oip.Tensor) error {
	if len(source) != len(own) {
		return fmt.Errorf("it has %d outputs, but the source model has %d", len(own), len(source))
	}
	var x, y []float64
	for i := range source {
		if err := own[i].Check(); err != nil {
			return err
		}
		a, _ := source[i].Float64s()
		b, _ := own[i].Float64s()
		if len(a) != len(b) {
			return fmt.Errorf("output %q has %d numbers, but the source model's has %d", own[i].Name, len(b), len(a))
		}
		x, y = append(x, a...), append(y, b...)
	}
	largest, _ := answer.MaxAbs(source, own)
	p.rows++
	p.sums.MaxAbs = max(p.sums.MaxAbs, largest)
	p.sums.Cosine = min(p.sums.Cosine, cosine(x, y))
	if same, _ := answer.Rules(nil).Same(own, source); same {
		p.sums.Top1++
	}
	if same, _ := rules.Same(own, source); same {
		p.sums.Agreement++
	}
	return nil
}

// cosine is the cosine of the angle between two vectors; 1 for two zero vectors, 0 for one.
func cosine(x, y []float64) float64 {
	var xy, xx, yy float64
	for i := range x {
		xy, xx, yy = xy+x[i]*y[i], xx+x[i]*x[i], yy+y[i]*y[i]
	}
	switch {
	case xx == 0 && yy == 0:
		return 1
	case xx == 0 || yy == 0:
		return 0
	}
	return max(-1, min(1, xy/math.Sqrt(xx*yy)))
}

func results(models []*model, samples int) []Measured {
	out := make([]Measured, len(models))
	for i, m := range models {
		latencies := medians(m.timings, samples)
		out[i] = measuredBy(latencies)
		out[i].Parity = m.parity.result()
	}
	return out
}

// measuredBy is the speed by sorted latencies of inferences.
func measuredBy(latencies []time.Duration) Measured {
	var sum time.Duration
	for _, l := range latencies {
		sum += l
	}
	return Measured{
		Latency:    spec.Latency{P50MS: milliseconds(quantile(latencies, 0.5)), P99MS: milliseconds(quantile(latencies, 0.99))},
		Throughput: round(float64(len(latencies)) / sum.Seconds()),
	}
}

// medians returns the median of each sample's timings, sorted.
func medians(timings []time.Duration, samples int) []time.Duration {
	out := make([]time.Duration, samples)
	for i := range out {
		var own []time.Duration
		for j := i; j < len(timings); j += samples {
			own = append(own, timings[j])
		}
		slices.Sort(own)
		out[i] = quantile(own, 0.5)
	}
	slices.Sort(out)
	return out
}

func quantile(sorted []time.Duration, q float64) time.Duration {
	return sorted[max(0, int(math.Ceil(q*float64(len(sorted))))-1)]
}

func milliseconds(d time.Duration) float64 { return round(float64(d) / float64(time.Millisecond)) }
