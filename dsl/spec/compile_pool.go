package spec

import (
	"maps"
	"slices"

	"github.com/sluiceml/sluice/dsl/inputpath"
	"github.com/sluiceml/sluice/internal/artifact"
)

// What a node of a pool that compiles is asked with.
const (
	// CompileProgram is the first argument of `sluice` there. The spec follows, as JSON, and NAME=FOLDER for each input.
	CompileProgram = "__compile"
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
	files := []string{}
	if spec.Runtime.Python != "" {
		files = append(files, spec.Runtime.Python)
	}
	return files
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
	own := *spec
	own.Placement, own.Runtime = Placement{}, Runtime{}
	raw, err := Encode(own)
	if err != nil {
		panic(err) // it was read from JSON
	}
	inputs := spec.Inputs()
	command := []string{"sluice", CompileProgram, string(raw)}
	for _, name := range slices.Sorted(maps.Keys(inputs)) {
		command = append(command, name+"="+inputpath.Token(name, inputs[name].Digest))
	}
	return spec.train(Command{
		Command: command, Inputs: inputs, Runtime: spec.Runtime,
		Outputs: map[string]OutputDecl{CompileBuilt: {Type: string(artifact.Dataset), Path: CompileBuilt}},
	}, nil)
}
