// Package plan describes TensorRT engines as model artifacts: one file, and in the artifact's meta data what a server must know of it.
package plan

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/store/artifact"
)

// File is the name of an engine in its artifact.
const File = "model.plan"

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

	format = "tensorrt"
)

// Engine is a TensorRT engine.
type Engine struct {
	GPU               string
	ComputeCapability string
	Driver            string
	TensorRT          string
	Precision         string
	Inputs            []oip.TensorMetadata
	Outputs           []oip.TensorMetadata
	// MaxBatch is the most rows of one inference, where the first dimension of all inputs and outputs is a batch's; else 0.
	MaxBatch int64
}

// Meta is the meta data of the engine's artifact.
func (e Engine) Meta() (map[string]string, error) {
	inputs, err := json.Marshal(e.Inputs)
	if err != nil {
		return nil, err
	}
	outputs, err := json.Marshal(e.Outputs)
	if err != nil {
		return nil, err
	}
	return map[string]string{
		metaFormat: format, metaGPU: e.GPU, metaComputeCapability: e.ComputeCapability, metaDriver: e.Driver, metaTensorRT: e.TensorRT,
		metaPrecision: e.Precision, metaInputs: string(inputs), metaOutputs: string(outputs), metaMaxBatch: strconv.FormatInt(e.MaxBatch, 10),
	}, nil
}

// IsEngine reports whether a model artifact is an engine.
func IsEngine(m artifact.Manifest) bool {
	return slices.ContainsFunc(m.Files, func(f artifact.File) bool { return strings.HasSuffix(f.Path, ".plan") })
}

// Describe reads the meta data of an engine's artifact.
func Describe(m artifact.Manifest) (Engine, error) {
	if m.Meta[metaFormat] != format {
		return Engine{}, errors.New("the model artifact does not describe an engine: a compile step builds those that do")
	}
	e := Engine{
		GPU: m.Meta[metaGPU], ComputeCapability: m.Meta[metaComputeCapability], Driver: m.Meta[metaDriver], TensorRT: m.Meta[metaTensorRT],
		Precision: m.Meta[metaPrecision],
	}
	if err := json.Unmarshal([]byte(m.Meta[metaInputs]), &e.Inputs); err != nil {
		return Engine{}, fmt.Errorf("the engine's inputs: %w", err)
	}
	if err := json.Unmarshal([]byte(m.Meta[metaOutputs]), &e.Outputs); err != nil {
		return Engine{}, fmt.Errorf("the engine's outputs: %w", err)
	}
	var err error
	if e.MaxBatch, err = strconv.ParseInt(m.Meta[metaMaxBatch], 10, 64); err != nil {
		return Engine{}, fmt.Errorf("the engine's largest batch: %w", err)
	}
	return e, nil
}
