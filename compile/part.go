package compile

import (
	"cmp"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/triton/layout"
)

// Files of a part.
const (
	inputsFile  = "inputs.jsonl"
	outputsFile = "outputs.jsonl"
	backFile    = "back.onnx"
)

// part is what an engine is built from: the source model, or what follows the tensors of the variant's `inputs`.
type part struct {
	cutModel
	model Exported
	dir   string // of inputsFile and outputsFile
}

// graph is the ONNX file.
func (p *part) graph() string { return cmp.Or(p.Back, p.Model) }

func partKey(v spec.TensorRTVariant) string { return strings.Join(v.Inputs, "\x00") }

// cut makes the part of the source that begins at some tensors, all of it where there are none, and writes the samples as its inputs.
func (job Job) cut(ctx context.Context, source, dir string, inputs []string) (*part, error) {
	if err := os.Mkdir(dir, 0o700); err != nil {
		return nil, err
	}
	p := &part{cutModel: cutModel{Model: source}, dir: dir}
	if len(inputs) > 0 {
		p.Front, p.Back = filepath.Join(dir, layout.FrontFile), filepath.Join(dir, backFile)
		if err := runTools(ctx, job.Python, buildJob{Source: source, Target: p.Back, Front: p.Front, Inputs: inputs}); err != nil {
			return nil, err
		}
	}
	r, err := job.inChild(ctx, request{Export: &Export{
		cutModel: p.cutModel, Dataset: job.Dataset, Samples: job.Spec.Samples,
		File: filepath.Join(dir, inputsFile), Outputs: filepath.Join(dir, outputsFile),
	}})
	if err != nil {
		return nil, named(err, "samples")
	}
	p.model = r.Exported
	return p, job.checkText(ctx, p)
}

// checkText refuses text, and says where the model can be cut.
func (job Job) checkText(ctx context.Context, p *part) error {
	for _, t := range slices.Concat(p.model.Inputs, p.model.Outputs) {
		if t.Datatype != oip.Bytes {
			continue
		}
		// The tools know what works on it.
		b := buildJob{Source: p.Model, Target: filepath.Join(p.dir, backFile), Front: filepath.Join(p.dir, layout.FrontFile), Inputs: []string{}}
		if err := runTools(ctx, job.Python, b); err != nil {
			return err
		}
		return &ModelError{fmt.Sprintf("tensor %q of the model is a string tensor, which TensorRT does not support", t.Name)}
	}
	return nil
}

// check compares shapes with the inputs of the part and with the samples.
func (p *part) check(shapes *spec.TensorRTShapes) error {
	if shapes == nil {
		for _, in := range p.model.Inputs {
			if slices.ContainsFunc(in.Shape, func(d int64) bool { return d < 0 }) {
				return &ModelError{fmt.Sprintf("input %q of the model has dynamic dimensions, %v: set `shapes` to the smallest and the largest "+
					"that the engine accepts, and those that it is optimized for", in.Name, in.Shape)}
			}
		}
		return nil
	}
	for _, in := range p.model.Inputs {
		low, high := shapes.Min[in.Name], shapes.Max[in.Name]
		if low == nil {
			return &ModelError{fmt.Sprintf("shapes: input %q is missing; its shape in the model is %v", in.Name, in.Shape)}
		}
		if len(low) != len(in.Shape) || len(high) != len(in.Shape) {
			return &ModelError{fmt.Sprintf("shapes: input %q of the model has the shape %v, but the variant's has %d dimensions",
				in.Name, in.Shape, len(low))}
		}
		for i, d := range in.Shape {
			if d >= 0 && (int64(low[i]) != d || int64(high[i]) != d) {
				return &ModelError{fmt.Sprintf("shapes: dimension %d of input %q is fixed at %d in the model", i+1, in.Name, d)}
			}
		}
	}
	for name := range shapes.Opt {
		if !slices.ContainsFunc(p.model.Inputs, func(t oip.TensorMetadata) bool { return t.Name == name }) {
			return &ModelError{fmt.Sprintf("shapes: the model has no input %q", name)}
		}
	}
	return p.checkSamples(shapes)
}

func (p *part) checkSamples(shapes *spec.TensorRTShapes) error {
	sample := 0
	for row, err := range p.samples() {
		if err != nil {
			return err
		}
		sample++
		for _, t := range row.inputs {
			low, high := shapes.Min[t.Name], shapes.Max[t.Name]
			for k, d := range t.Shape {
				if d < int64(low[k]) || d > int64(high[k]) {
					return &ModelError{fmt.Sprintf("sample %d has the shape %v at input %q, but the engine accepts %v to %v: change `shapes` or the samples",
						sample, t.Shape, t.Name, low, high)}
				}
			}
		}
	}
	return nil
}
