package layout

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/oip"
)

// The files of an engine's artifact. The front, which some have, may have external data beside it.
const (
	EngineFile = "model.plan"
	FrontFile  = "front.onnx"
)

// The meta data of an engine's artifact. What it was built on is there for people, too: an engine loads on nothing else.
const (
	metaFormat            = "format"
	metaGPU               = "gpu"
	metaComputeCapability = "compute_capability"
	metaDriver            = "driver"
	metaTensorRT          = "tensorrt"
	metaPrecision         = "precision"
	metaInputs            = "inputs"
	metaOutputs           = "outputs"
	metaMaxBatch          = "max_batch"
	metaFront             = "front"
	metaFlavor            = "flavor"

	format = "tensorrt"
)

// Engine is a TensorRT engine.
type Engine struct {
	// Flavor is that of the variant. An engine of TensorRT for RTX has all compute capabilities that it was built for, and a GPU and a driver only
	// if it was measured.
	Flavor            string
	GPU               string
	ComputeCapability string
	Driver            string
	TensorRT          string
	Precision         string
	Inputs            []oip.TensorMetadata
	Outputs           []oip.TensorMetadata
	// MaxBatch is the most rows of one inference, where the first dimension of all inputs and outputs is a batch's; else 0.
	MaxBatch int64
	// Front is what comes before the engine in the source model; nil where the engine is all of it.
	Front *Front
}

// Front is an ONNX model whose outputs are inputs of the engine.
type Front struct {
	Inputs  []oip.TensorMetadata `json:"inputs"`
	Outputs []oip.TensorMetadata `json:"outputs"`
}

// SourceInputs are what the source model takes: the inputs of the front, and those of the engine that do not come from it.
func (e Engine) SourceInputs() []oip.TensorMetadata {
	if e.Front == nil {
		return e.Inputs
	}
	inputs := slices.Clone(e.Front.Inputs)
	for _, t := range e.Inputs {
		named := func(other oip.TensorMetadata) bool { return other.Name == t.Name }
		if !slices.ContainsFunc(e.Front.Outputs, named) && !slices.ContainsFunc(inputs, named) {
			inputs = append(inputs, t)
		}
	}
	return inputs
}

// Meta is the meta data of the engine's artifact.
func (e Engine) Meta() map[string]string {
	meta := map[string]string{
		metaFormat: format, metaGPU: e.GPU, metaComputeCapability: e.ComputeCapability, metaDriver: e.Driver, metaTensorRT: e.TensorRT,
		metaPrecision: e.Precision, metaInputs: encoded(e.Inputs), metaOutputs: encoded(e.Outputs), metaMaxBatch: strconv.FormatInt(e.MaxBatch, 10),
	}
	if e.Front != nil {
		meta[metaFront] = encoded(e.Front)
	}
	if e.Flavor != "" {
		meta[metaFlavor] = e.Flavor
	}
	return meta
}

func encoded(tensors any) string {
	raw, err := json.Marshal(tensors)
	if err != nil {
		panic(err) // names, types and sizes always marshal
	}
	return string(raw)
}

// BuiltOn says what the engine was built on, which is what it loads on.
func (e Engine) BuiltOn() string {
	return fmt.Sprintf("TensorRT %s on %s (compute capability %s, driver %s)", e.TensorRT, e.GPU, e.ComputeCapability, e.Driver)
}

// IsEngine reports whether a model artifact is an engine.
func IsEngine(m artifact.Manifest) bool {
	return slices.ContainsFunc(m.Files, func(f artifact.File) bool { return strings.HasSuffix(f.Path, ".plan") })
}

// DescribeEngine reads the meta data of an engine's artifact.
func DescribeEngine(m artifact.Manifest) (Engine, error) {
	if m.Meta[metaFormat] != format {
		return Engine{}, errors.New("the model artifact does not describe an engine: use one built by a compile step")
	}
	e := Engine{
		GPU: m.Meta[metaGPU], ComputeCapability: m.Meta[metaComputeCapability], Driver: m.Meta[metaDriver], TensorRT: m.Meta[metaTensorRT],
		Precision: m.Meta[metaPrecision], Flavor: m.Meta[metaFlavor],
	}
	if err := json.Unmarshal([]byte(m.Meta[metaInputs]), &e.Inputs); err != nil {
		return Engine{}, fmt.Errorf("the engine's inputs: %w", err)
	}
	if err := json.Unmarshal([]byte(m.Meta[metaOutputs]), &e.Outputs); err != nil {
		return Engine{}, fmt.Errorf("the engine's outputs: %w", err)
	}
	if front := m.Meta[metaFront]; front != "" {
		if err := json.Unmarshal([]byte(front), &e.Front); err != nil {
			return Engine{}, fmt.Errorf("the engine's front: %w", err)
		}
	}
	var err error
	if e.MaxBatch, err = strconv.ParseInt(m.Meta[metaMaxBatch], 10, 64); err != nil {
		return Engine{}, fmt.Errorf("the engine's largest batch: %w", err)
	}
	return e, nil
}
