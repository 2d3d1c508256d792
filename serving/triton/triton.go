// Package triton lays out TensorRT engines as models of NVIDIA Triton Inference Server.
package triton

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"google.golang.org/protobuf/encoding/prototext"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/plan"
	"github.com/sluiceml/sluice/serving/triton/modelconfig"
)

// ConfigFile describes a model, in its folder.
const ConfigFile = "config.pbtxt"

// Triton's names of what runs a model, and of the model's file.
const (
	platformEngine   = "tensorrt_plan"
	platformONNX     = "onnxruntime_onnx"
	platformEnsemble = "ensemble"

	onnxFile = "model.onnx"
)

// Repository is a model repository: what lies at which path.
type Repository struct {
	// Files of the model's artifact.
	Files map[string]artifact.File
	// Texts are written for Triton.
	Texts map[string][]byte
}

// Engine lays out an engine so that Triton serves it as the model of a name. One that takes its inputs from a front is served as an
// ensemble of the two, which takes what the source model takes.
func Engine(name string, m artifact.Manifest) (Repository, error) {
	e, err := plan.Describe(m)
	if err != nil {
		return Repository{}, err
	}
	r := Repository{Files: map[string]artifact.File{}, Texts: map[string][]byte{}}
	if e.Front == nil {
		return r, r.addEngine(name, e, m)
	}
	front, engine := name+"-front", name+"-engine"
	r.Texts[name+"/1/README"] = []byte("Triton wants a folder for each version, in which an ensemble has nothing.\n")
	return r, errors.Join(r.addFront(front, *e.Front, m), r.addEngine(engine, e, m), r.add(ensemble(name, front, engine, e)))
}

func (r Repository) addEngine(name string, e plan.Engine, m artifact.Manifest) error {
	config := &modelconfig.ModelConfig{Name: name, Platform: platformEngine, DefaultModelFilename: plan.File}
	batched := e.MaxBatch > 0 && !slices.ContainsFunc(slices.Concat(e.Inputs, e.Outputs), func(t oip.TensorMetadata) bool { return len(t.Shape) < 2 })
	if batched {
		config.MaxBatchSize = int32(min(e.MaxBatch, math.MaxInt32))
		config.SchedulingChoice = &modelconfig.ModelConfig_DynamicBatching{DynamicBatching: &modelconfig.ModelDynamicBatching{}}
	}
	describe(config, e.Inputs, e.Outputs, batched)
	for _, f := range m.Files {
		if f.Path == plan.File {
			r.Files[name+"/1/"+plan.File] = f
		}
	}
	return r.add(config)
}

// addFront lays out what comes before the engine, which ONNX Runtime runs on the CPU.
func (r Repository) addFront(name string, f plan.Front, m artifact.Manifest) error {
	config := &modelconfig.ModelConfig{
		Name: name, Platform: platformONNX, DefaultModelFilename: onnxFile,
		InstanceGroup: []*modelconfig.ModelInstanceGroup{{Count: 1, Kind: modelconfig.ModelInstanceGroup_KIND_CPU}},
	}
	describe(config, f.Inputs, f.Outputs, false)
	for _, f := range m.Files {
		switch f.Path {
		case plan.File:
		case plan.FrontFile:
			r.Files[name+"/1/"+onnxFile] = f
		default: // the front's external data, which it knows by this name
			r.Files[name+"/1/"+f.Path] = f
		}
	}
	return r.add(config)
}

// ensemble gives the outputs of the front to the engine. Tensors have the names that they have in the source model.
func ensemble(name, front, engine string, e plan.Engine) *modelconfig.ModelConfig {
	same := func(tensors []oip.TensorMetadata) map[string]string {
		names := map[string]string{}
		for _, t := range tensors {
			names[t.Name] = t.Name
		}
		return names
	}
	config := &modelconfig.ModelConfig{
		Name: name, Platform: platformEnsemble,
		SchedulingChoice: &modelconfig.ModelConfig_EnsembleScheduling{EnsembleScheduling: &modelconfig.ModelEnsembling{
			Step: []*modelconfig.ModelEnsembling_Step{
				{ModelName: front, ModelVersion: -1, InputMap: same(e.Front.Inputs), OutputMap: same(e.Front.Outputs)},
				{ModelName: engine, ModelVersion: -1, InputMap: same(e.Inputs), OutputMap: same(e.Outputs)},
			},
		}},
	}
	describe(config, e.SourceInputs(), e.Outputs, false)
	return config
}

// describe sets the inputs and outputs of a model. Of one that is batched, the first dimension is not told.
func describe(config *modelconfig.ModelConfig, inputs, outputs []oip.TensorMetadata, batched bool) {
	dims := func(t oip.TensorMetadata) []int64 {
		if batched {
			return t.Shape[1:]
		}
		return t.Shape
	}
	for _, t := range inputs {
		config.Input = append(config.Input, &modelconfig.ModelInput{Name: t.Name, DataType: dataTypes[t.Datatype], Dims: dims(t)})
	}
	for _, t := range outputs {
		config.Output = append(config.Output, &modelconfig.ModelOutput{Name: t.Name, DataType: dataTypes[t.Datatype], Dims: dims(t)})
	}
}

var dataTypes = map[oip.Datatype]modelconfig.DataType{
	oip.Bool: modelconfig.DataType_TYPE_BOOL, oip.Bytes: modelconfig.DataType_TYPE_STRING,
	oip.Uint8: modelconfig.DataType_TYPE_UINT8, oip.Uint16: modelconfig.DataType_TYPE_UINT16,
	oip.Uint32: modelconfig.DataType_TYPE_UINT32, oip.Uint64: modelconfig.DataType_TYPE_UINT64,
	oip.Int8: modelconfig.DataType_TYPE_INT8, oip.Int16: modelconfig.DataType_TYPE_INT16,
	oip.Int32: modelconfig.DataType_TYPE_INT32, oip.Int64: modelconfig.DataType_TYPE_INT64,
	oip.FP32: modelconfig.DataType_TYPE_FP32, oip.FP64: modelconfig.DataType_TYPE_FP64,
}

// add writes the description of a model into its folder.
func (r Repository) add(config *modelconfig.ModelConfig) error {
	for _, t := range config.Input {
		if err := servable(t.Name, t.DataType, t.Dims); err != nil {
			return err
		}
	}
	for _, t := range config.Output {
		if err := servable(t.Name, t.DataType, t.Dims); err != nil {
			return err
		}
	}
	text, err := prototext.MarshalOptions{Multiline: true}.Marshal(config)
	r.Texts[config.Name+"/"+ConfigFile] = text
	return err
}

func servable(tensor string, datatype modelconfig.DataType, dims []int64) error {
	if datatype == modelconfig.DataType_TYPE_INVALID {
		return fmt.Errorf("tensor %q of the engine has an element type that cannot be served", tensor)
	}
	if len(dims) == 0 {
		return fmt.Errorf("tensor %q of the engine has no dimensions, and Triton serves tensors with at least one", tensor)
	}
	return nil
}
