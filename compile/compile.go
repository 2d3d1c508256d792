// Package compile turns an ONNX model into named variants with ONNX Runtime's own tools and TensorRT's trtexec, proves each against the
// source model on sample rows, and measures them: those of ONNX Runtime side by side, engines by trtexec on their GPU.
//
// Variants are built by the project's Python (build.py) and trtexec, and measured by trtexec and a child of this very executable (Main),
// so that no model and no tool can take the worker along.
package compile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/serving/plan"
	"github.com/sluiceml/sluice/store"
)

// The values of spec.CompileModel.Select that are no variant's name.
const (
	selectFastest  = "fastest"
	selectSmallest = "smallest"
)

// Job is one compile step with everything brought to this machine.
type Job struct {
	Spec spec.CompileModel
	// Model and Dataset are the folders of the step's model and samples.
	Model   string
	Dataset string
	// Dir is an empty folder for what is built.
	Dir   string
	Store *store.Store
	// Python is the interpreter with onnx and onnxruntime.
	Python string
	// Executable is a program whose main calls Main when its first argument is Arg.
	Executable string
	// Progress, when set, is told in a few words what is done now.
	Progress func(text string)
}

// ModelError says that the model, the samples or what was asked of them is at fault: trying again does not help.
type ModelError struct{ Message string }

// Error implements error.
func (e *ModelError) Error() string { return e.Message }

// ToleranceError says that a variant's outputs are further from the source model's than its tolerance allows.
type ToleranceError struct {
	Variant   string
	Measure   string // max_abs, cosine or top1
	Measured  float64
	Tolerated float64
}

// Error implements error.
func (e *ToleranceError) Error() string {
	limit := "at least"
	if e.Measure == "max_abs" {
		limit = "at most"
	}
	return fmt.Sprintf("variant %s differs too much from the source model: %s is %.6g, but its tolerance is %s %.6g",
		e.Variant, e.Measure, e.Measured, limit, e.Tolerated)
}

// Run builds, proves and measures the variants and stores them as model artifacts. Its errors are ToleranceErrors, ModelErrors, or
// troubles of the machine.
func Run(ctx context.Context, job Job) (spec.CompileOutput, error) {
	if job.Progress == nil {
		job.Progress = func(string) {}
	}
	names := slices.Sorted(maps.Keys(job.Spec.Variants))
	if len(names) == 0 {
		return spec.CompileOutput{}, &ModelError{"no variants are listed"}
	}
	if _, err := os.Stat(filepath.Join(job.Model, plan.File)); err == nil {
		return spec.CompileOutput{}, &ModelError{"the model is a TensorRT engine: compile the ONNX model that it was built from"}
	}
	source, err := onnx.ModelFile(job.Model)
	if err != nil {
		return spec.CompileOutput{}, &ModelError{err.Error()}
	}
	var on *bench
	if job.hasEngines() {
		if on, err = job.openBench(ctx, source); err != nil {
			return spec.CompileOutput{}, named(err, "build engines")
		}
	}
	variants := make([]built, len(names))
	models := []Model{{Name: "the source model", File: source}}
	for i, name := range names {
		job.Progress("building " + name)
		if variants[i], err = job.build(ctx, on, name, source); err != nil {
			return spec.CompileOutput{}, named(err, "build variant "+name)
		}
		if variants[i].measured == nil {
			models = append(models, Model{Name: "variant " + name, File: variants[i].file})
		}
	}
	job.Progress("measuring " + strings.Join(names, ", "))
	measured, err := job.measure(ctx, models)
	if err != nil {
		return spec.CompileOutput{}, named(err, "measure the variants")
	}
	reference, measured := measured[0], measured[1:]
	for i := range variants {
		if variants[i].measured == nil {
			variants[i].measured, measured = &measured[0], measured[1:]
		}
	}
	return job.output(ctx, names, variants, built{file: source, measured: &reference})
}

// built is a variant in a folder of its own.
type built struct {
	file string
	// meta is of its artifact, beside its name.
	meta map[string]string
	// engine and measured are of an engine. Models of ONNX Runtime are measured later, side by side.
	engine   *spec.EngineOutput
	measured *Measured
}

func (job Job) hasEngines() bool {
	for _, v := range job.Spec.Variants {
		if v.TensorRT != nil {
			return true
		}
	}
	return false
}

// build makes a variant. on is there where any variant is an engine.
func (job Job) build(ctx context.Context, on *bench, name, source string) (built, error) {
	v := job.Spec.Variants[name]
	dir, scratch := filepath.Join(job.Dir, name), filepath.Join(job.Dir, "."+name)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(scratch, 0o700)); err != nil {
		return built{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }() // the step removes what is left
	switch {
	case v.ONNX != nil:
		file := filepath.Join(dir, "model.onnx")
		return built{file: file}, job.buildONNX(ctx, source, file, scratch, *v.ONNX)
	case v.TensorRT != nil:
		return job.buildEngine(ctx, on, name, filepath.Join(dir, plan.File), scratch, *v.TensorRT)
	}
	return built{}, &ModelError{"it has no builder; add `onnx: {}`"}
}

// output checks the tolerances, stores the variants and selects one.
func (job Job) output(ctx context.Context, names []string, variants []built, source built) (spec.CompileOutput, error) {
	var broken []error
	for i, name := range names {
		broken = append(broken, tolerated(name, variants[i].measured.Parity, job.Spec.Variants[name].Tolerance))
	}
	if err := errors.Join(broken...); err != nil {
		return spec.CompileOutput{}, err
	}
	out := spec.CompileOutput{Variants: map[string]spec.VariantOutput{}}
	size, err := modelBytes(source.file)
	if err != nil {
		return spec.CompileOutput{}, err
	}
	out.Source = variantOutput(source, job.Spec.Model, size)
	for i, name := range names {
		meta := map[string]string{"variant": name}
		maps.Copy(meta, variants[i].meta)
		ref, err := job.Store.PutTree(ctx, artifact.Model, filepath.Dir(variants[i].file), meta, nil)
		if err != nil {
			return spec.CompileOutput{}, fmt.Errorf("store variant %s: %w", name, err)
		}
		out.Variants[name] = variantOutput(variants[i], ref, ref.Bytes) // its folder has nothing else
	}
	selected := pick(job.Spec.Select, names, out.Variants)
	if selected == "" {
		return spec.CompileOutput{}, &ModelError{fmt.Sprintf("select: there is no variant %q", job.Spec.Select)}
	}
	out.Selected = spec.SelectedVariant{Name: selected, Model: out.Variants[selected].Model}
	return out, nil
}

func variantOutput(b built, model artifact.Ref, size int64) spec.VariantOutput {
	return spec.VariantOutput{
		Model: model, Parity: b.measured.Parity, Latency: b.measured.Latency, Throughput: b.measured.Throughput, Bytes: size, TensorRT: b.engine,
	}
}

// tolerated compares a variant's parity with what it declared.
func tolerated(name string, p spec.Parity, t spec.Tolerance) error {
	switch {
	case t.MaxAbs != nil && p.MaxAbs > *t.MaxAbs:
		return &ToleranceError{Variant: name, Measure: "max_abs", Measured: p.MaxAbs, Tolerated: *t.MaxAbs}
	case t.Cosine != nil && p.Cosine < *t.Cosine:
		return &ToleranceError{Variant: name, Measure: "cosine", Measured: p.Cosine, Tolerated: *t.Cosine}
	case t.Top1 != nil && p.Top1 < *t.Top1:
		return &ToleranceError{Variant: name, Measure: "top1", Measured: p.Top1, Tolerated: *t.Top1}
	}
	return nil
}

// pick returns the name of the variant to select, the first of equals; "" when there is none of that name.
func pick(how string, names []string, variants map[string]spec.VariantOutput) string {
	least := func(of func(spec.VariantOutput) float64) string {
		return slices.MinFunc(names, func(a, b string) int { return cmp.Compare(of(variants[a]), of(variants[b])) })
	}
	switch how {
	case "", selectFastest:
		return least(func(v spec.VariantOutput) float64 { return v.Latency.P50MS })
	case selectSmallest:
		return least(func(v spec.VariantOutput) float64 { return float64(v.Bytes) })
	}
	if _, ok := variants[how]; !ok {
		return ""
	}
	return how
}

// named says what failed, and keeps a ModelError one.
func named(err error, what string) error {
	if fault, ok := errors.AsType[*ModelError](err); ok {
		return &ModelError{what + ": " + fault.Message}
	}
	return fmt.Errorf("%s: %w", what, err)
}

// round keeps six digits: more are noise of the clock to a reader.
func round(v float64) float64 {
	if v == 0 {
		return 0
	}
	scale := math.Pow(10, 5-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
