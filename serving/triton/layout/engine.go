package layout

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/oip"
)

// TensorRT lays out an engine so that Triton serves it as the model of a name. One that takes its inputs from a front is served as an
// ensemble of the two, which takes what the source model takes.
func TensorRT(name string, m artifact.Manifest) (Repository, error) {
	e, err := DescribeEngine(m)
	if err != nil {
		return Repository{}, err
	}
	if e.Flavor == spec.FlavorRTX {
		return Repository{}, errors.New("the model is an engine of TensorRT for RTX, which Triton's TensorRT backend cannot load: release an " +
			"engine that the compile step builds without `flavor: rtx`, or an `onnx` variant")
	}
	r := newRepository()
	if e.Front == nil {
		return r, r.addEngine(name, e, m)
	}
	front, engine := name+"-front", name+"-engine"
	r.Texts[name+"/1/README"] = []byte("Triton wants a folder for each version, in which an ensemble has nothing.\n")
	return r, errors.Join(r.addFront(front, *e.Front, m), r.addEngine(engine, e, m), r.addEnsemble(name, front, engine, e))
}

func (r Repository) addEngine(name string, e Engine, m artifact.Manifest) error {
	for _, f := range m.Files {
		if f.Path == EngineFile {
			r.Files[name+"/1/"+EngineFile] = f
		}
	}
	file := fmt.Sprintf("default_model_filename: %q\n", EngineFile)
	if e.MaxBatch <= 0 || slices.ContainsFunc(slices.Concat(e.Inputs, e.Outputs), func(t oip.TensorMetadata) bool { return len(t.Shape) < 2 }) {
		return r.describe(name, platformEngine, e.Inputs, e.Outputs, file)
	}
	batches := fmt.Sprintf("max_batch_size: %d\ndynamic_batching {}\n", min(e.MaxBatch, math.MaxInt32))
	return r.describe(name, platformEngine, ofRow(e.Inputs), ofRow(e.Outputs), file, batches)
}

// ofRow describes tensors without their first dimension: that of the batch is not told.
func ofRow(tensors []oip.TensorMetadata) []oip.TensorMetadata {
	rows := slices.Clone(tensors)
	for i, t := range rows {
		rows[i].Shape = t.Shape[1:]
	}
	return rows
}

// addFront lays out what comes before the engine, which ONNX Runtime runs on the CPU.
func (r Repository) addFront(name string, f Front, m artifact.Manifest) error {
	for _, f := range m.Files {
		switch f.Path {
		case EngineFile:
		case FrontFile:
			r.Files[name+"/1/"+onnxFile] = f
		default: // the front's external data, which it knows by this name
			r.Files[name+"/1/"+f.Path] = f
		}
	}
	return r.describe(name, platformONNX, f.Inputs, f.Outputs,
		fmt.Sprintf("default_model_filename: %q\n", onnxFile), "instance_group { count: 1 kind: KIND_CPU }\n")
}

// addEnsemble gives the outputs of the front to the engine. Tensors have the names that they have in the source model.
func (r Repository) addEnsemble(name, front, engine string, e Engine) error {
	step := func(model string, inputs, outputs []oip.TensorMetadata) string {
		text := fmt.Sprintf("  step {\n    model_name: %q\n    model_version: -1\n", model) // the latest
		for _, t := range inputs {
			text += fmt.Sprintf("    input_map { key: %q value: %q }\n", t.Name, t.Name)
		}
		for _, t := range outputs {
			text += fmt.Sprintf("    output_map { key: %q value: %q }\n", t.Name, t.Name)
		}
		return text + "  }\n"
	}
	return r.describe(name, platformEnsemble, e.SourceInputs(), e.Outputs,
		"ensemble_scheduling {\n", step(front, e.Front.Inputs, e.Front.Outputs), step(engine, e.Inputs, e.Outputs), "}\n")
}

// describe writes the description of a model into its folder: a ModelConfig of protobuf/model_config.proto in
// github.com/triton-inference-server/common, as text. fields are those after the tensors.
func (r Repository) describe(name, platform string, inputs, outputs []oip.TensorMetadata, fields ...string) error {
	text := fmt.Sprintf("name: %q\nplatform: %q\n", name, platform)
	add := func(field string, tensors []oip.TensorMetadata) error {
		for _, t := range tensors {
			datatype, known := dataTypes[t.Datatype]
			if !known {
				return fmt.Errorf("tensor %q of the engine has an unsupported element type", t.Name)
			}
			if len(t.Shape) == 0 {
				return fmt.Errorf("tensor %q of the engine has no dimensions, but Triton needs at least one", t.Name)
			}
			dims := strings.ReplaceAll(fmt.Sprint(t.Shape), " ", ", ")
			text += fmt.Sprintf("%s { name: %q data_type: %s dims: %s }\n", field, t.Name, datatype, dims)
		}
		return nil
	}
	if err := add("input", inputs); err != nil {
		return err
	}
	if err := add("output", outputs); err != nil {
		return err
	}
	r.Texts[name+"/"+ConfigFile] = []byte(text + strings.Join(fields, ""))
	return nil
}

var dataTypes = map[oip.Datatype]string{
	oip.Bool: "TYPE_BOOL", oip.Bytes: "TYPE_STRING",
	oip.Uint8: "TYPE_UINT8", oip.Uint16: "TYPE_UINT16", oip.Uint32: "TYPE_UINT32", oip.Uint64: "TYPE_UINT64",
	oip.Int8: "TYPE_INT8", oip.Int16: "TYPE_INT16", oip.Int32: "TYPE_INT32", oip.Int64: "TYPE_INT64",
	oip.FP32: "TYPE_FP32", oip.FP64: "TYPE_FP64",
}
