package spec

import (
	"maps"
	"slices"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/stepargs"
)

// What a node of a pool that compiles is asked with.
const (
	// CompileInputModel and CompileInputSamples are inputs, and CompileBuilt is the only output, and its folder: what was built.
	CompileInputModel   = "model"
	CompileInputSamples = "samples"
	CompileBuilt        = "built"
)

// compileCalibration begins the names of the other inputs: those that variants are calibrated with.
const compileCalibration = "calibration_"

// Complete drops what does not apply.
func (spec *CompileModel) Complete() { spec.clear() }

// WorkspaceFiles are those in the cache key of a step on a pool.
func (spec *CompileModel) WorkspaceFiles() []string {
	if spec.Runtime.Python == "" {
		return []string{}
	}
	return []string{spec.Runtime.Python}
}

// Inputs are the artifacts that the variants are built from, each once, by names that stay the same.
func (spec *CompileModel) Inputs() map[string]artifact.Ref {
	inputs := map[string]artifact.Ref{CompileInputModel: spec.Model, CompileInputSamples: spec.Samples.Dataset}
	has := map[string]bool{spec.Samples.Dataset.Digest: true}
	for _, name := range slices.Sorted(maps.Keys(spec.Variants)) {
		if c := spec.Variants[name].calibration(); c != nil && !has[c.Dataset.Digest] {
			inputs[compileCalibration+name], has[c.Dataset.Digest] = c.Dataset, true
		}
	}
	return inputs
}

// calibration is that of a variant, or nil.
func (v Variant) calibration() *Calibration {
	switch {
	case v.ONNX != nil:
		return v.ONNX.Calibration
	case v.TensorRT != nil:
		return v.TensorRT.Calibration
	}
	return nil
}

// Train is the training of one node that builds the variants; it has pools. Its only output is what compile's Program leaves, which is
// judged beside the worker.
func (spec *CompileModel) Train() Train {
	return spec.train(Command{
		Command: stepargs.Command(stepargs.Compile, spec.Inputs()), Inputs: spec.Inputs(), Runtime: spec.Runtime,
		Outputs: map[string]OutputDecl{CompileBuilt: {Type: string(artifact.Dataset), Path: CompileBuilt}},
	}, nil)
}
