// Package compile turns an ONNX model into named variants with ONNX Runtime's own tools, TensorRT's trtexec and TensorRT for RTX, proves each
// against the source model on sample rows, and measures them: those of ONNX Runtime side by side, engines on their GPU.
//
// Variants are built by the project's Python (build.py, rtx.py) and trtexec, and measured by trtexec and a child of this very executable (Main),
// so that no model and no tool can take the worker along.
package compile

import (
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
	"github.com/sluiceml/sluice/internal/offload"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/serving/triton/layout"
	"github.com/sluiceml/sluice/store"
)

// Job is one compile step with everything brought to this machine.
type Job struct {
	Spec spec.CompileModel
	// Model and Dataset are the folders of the step's model and samples.
	Model   string
	Dataset string
	// Calibrations are the folders of datasets to calibrate with, by digest. Others are fetched from Store.
	Calibrations map[string]string
	// Dir is an empty folder for what is built.
	Dir string
	// Store may be nil where all datasets are here: then there is no timing cache.
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

// Run builds, proves and measures the variants and stores them as model artifacts. Its errors are ToleranceErrors, ModelErrors, or
// troubles of the machine.
func Run(ctx context.Context, job Job) (spec.CompileOutput, error) {
	report, err := Build(ctx, job)
	if err != nil {
		return spec.CompileOutput{}, err
	}
	return Judge(job.Spec, report, func(name string, meta map[string]string) (artifact.Ref, error) {
		return job.Store.PutTree(ctx, artifact.Model, filepath.Join(job.Dir, name), meta, nil)
	})
}

const sourceModel = "the source model"

// Build builds and measures the variants, each in a folder of its name. Its errors are ModelErrors, or troubles of the machine.
func Build(ctx context.Context, job Job) (offload.BuildReport, error) {
	if job.Progress == nil {
		job.Progress = func(string) {}
	}
	names := slices.Sorted(maps.Keys(job.Spec.Variants))
	if len(names) == 0 {
		return offload.BuildReport{}, &ModelError{"no variants are listed"}
	}
	if _, err := os.Stat(filepath.Join(job.Model, layout.EngineFile)); err == nil {
		return offload.BuildReport{}, &ModelError{"the model is a TensorRT engine: compile the ONNX model that it was built from"}
	}
	source, err := onnx.ModelFile(job.Model)
	if err != nil {
		return offload.BuildReport{}, &ModelError{err.Error()}
	}
	job.Progress("loading " + sourceModel)
	if err := job.openSource(ctx, source); err != nil {
		return offload.BuildReport{}, err
	}
	var on *bench
	if len(job.Spec.Engines()) > 0 {
		if on, err = job.openBench(ctx, source); err != nil {
			return offload.BuildReport{}, named(err, "build engines")
		}
		defer on.close()
	}
	variants := make([]made, len(names))
	models := []Model{{Name: sourceModel, File: source}}
	for i, name := range names {
		job.Progress("building " + name)
		if variants[i], err = job.build(ctx, on, name, source); err != nil {
			return offload.BuildReport{}, named(err, "build variant "+name)
		}
		if variants[i].measured == nil {
			models = append(models, Model{Name: "variant " + name, File: variants[i].file})
		}
	}
	job.Progress("measuring " + strings.Join(names, ", "))
	measured, err := job.measure(ctx, models)
	if err != nil {
		return offload.BuildReport{}, named(err, "measure the variants")
	}
	return reportOf(names, variants, source, measured)
}

// reportOf is the report on variants, by the measurements of the source model and of those that are not measured yet.
func reportOf(names []string, variants []made, source string, measured []Measured) (offload.BuildReport, error) {
	size, err := modelBytes(source)
	if err != nil {
		return offload.BuildReport{}, err
	}
	report := offload.BuildReport{Source: made{}.told(measured[0]), Variants: map[string]offload.Variant{}}
	report.Source.Bytes = size
	measured = measured[1:]
	for i, name := range names {
		if v := variants[i]; v.measured != nil {
			report.Variants[name] = v.told(*v.measured)
			continue
		}
		report.Variants[name], measured = variants[i].told(measured[0]), measured[1:]
	}
	return report, nil
}

// made is a variant in a folder of its own.
type made struct {
	file string
	// meta is of its artifact, beside its name.
	meta map[string]string
	// engine and measured are of an engine; measured is zero of one that does not run here. Models of ONNX Runtime are measured later, side by
	// side.
	engine   *spec.EngineOutput
	measured *Measured
}

// told is what is reported of it.
func (m made) told(measured Measured) offload.Variant {
	return offload.Variant{
		Parity: measured.Parity, Latency: measured.Latency, Throughput: measured.Throughput, Meta: m.meta, TensorRT: m.engine,
	}
}

// build makes a variant. on is there where any variant is an engine.
func (job Job) build(ctx context.Context, on *bench, name, source string) (made, error) {
	v := job.Spec.Variants[name]
	dir, scratch := filepath.Join(job.Dir, name), filepath.Join(job.Dir, "."+name)
	if err := errors.Join(os.Mkdir(dir, 0o700), os.Mkdir(scratch, 0o700)); err != nil {
		return made{}, err
	}
	defer func() { _ = os.RemoveAll(scratch) }() // the step removes what is left
	switch {
	case v.ONNX != nil:
		file := filepath.Join(dir, "model.onnx")
		return made{file: file}, job.buildONNX(ctx, source, file, scratch, *v.ONNX)
	case v.TensorRT != nil:
		return job.buildEngine(ctx, on, name, filepath.Join(dir, layout.EngineFile), scratch, *v.TensorRT)
	}
	return made{}, &ModelError{"it has no builder; add `onnx: {}`"}
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
