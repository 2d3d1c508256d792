package tritontest

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx"
)

// Load loads a model of a repository in this process as Triton does: by its config.pbtxt. A model without, or with one that has no tensors, describes itself.
// The engines here are ONNX models, too.
func Load(repository, name string) (gateway.Upstream, error) {
	dir := filepath.Join(repository, name)
	if _, err := os.Stat(filepath.Join(dir, "1")); err != nil {
		return nil, fmt.Errorf("at least one version must be available under the version policy of model '%s'", name)
	}
	text, err := os.ReadFile(filepath.Join(dir, "config.pbtxt"))
	if os.IsNotExist(err) {
		return onnx.Open(filepath.Join(dir, "1", "model.onnx"))
	}
	if err != nil {
		return nil, err
	}
	config, err := Parse(text)
	if err != nil {
		return nil, err
	}
	if config.Name != name {
		return nil, fmt.Errorf("unexpected directory name '%s' for model '%s'", name, config.Name)
	}
	switch config.Platform {
	case "ensemble":
		return loadEnsemble(repository, config)
	case "tensorrt_plan", "onnxruntime_onnx":
		session, err := onnx.Open(filepath.Join(dir, "1", config.DefaultModelFilename))
		if err != nil {
			return nil, err
		}
		c := &configured{Session: session, config: config}
		if err := c.check(); err != nil {
			return nil, errors.Join(err, session.Close())
		}
		return c, nil
	}
	return nil, fmt.Errorf("unexpected platform type '%s' for %s", config.Platform, name)
}

// configured is a model with a config.pbtxt.
type configured struct {
	*onnx.Session
	config *Config
}

// check compares the description with the model.
func (c *configured) check() error {
	if len(c.config.Input)+len(c.config.Output) == 0 {
		return c.complete()
	}
	inputs, outputs := described(c.config)
	for _, both := range [][2][]oip.TensorMetadata{{inputs, c.Inputs()}, {outputs, c.Outputs()}} {
		for _, want := range both[1] {
			at := slices.IndexFunc(both[0], func(t oip.TensorMetadata) bool { return t.Name == want.Name })
			if at < 0 || both[0][at].Datatype != want.Datatype || !slices.Equal(both[0][at].Shape, want.Shape) {
				return fmt.Errorf("model '%s': the model expects %+v and the configuration specifies %+v", c.config.Name, want, both[0])
			}
		}
		if len(both[0]) != len(both[1]) {
			return fmt.Errorf("model '%s': unexpected number of tensors in %+v", c.config.Name, both[0])
		}
	}
	return nil
}

// complete does what Triton does for a description without tensors, when it is started with --backend-config=default-max-batch-size=0.
func (c *configured) complete() error {
	fixed := func(t oip.TensorMetadata) bool { return len(t.Shape) == 0 || t.Shape[0] != -1 }
	if c.config.MaxBatchSize > 0 && slices.ContainsFunc(slices.Concat(c.Inputs(), c.Outputs()), fixed) {
		return fmt.Errorf("autofill failed for model '%s': model does not support batching while non-zero max_batch_size is specified", c.config.Name)
	}
	return nil
}

func (c *configured) Infer(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	for _, t := range inputs {
		if limit := c.config.MaxBatchSize; limit > 0 && t.Shape[0] > limit {
			return nil, oip.Invalid("inference request batch-size must be <= %d for '%s'", limit, c.config.Name)
		}
	}
	return c.Session.Infer(ctx, inputs)
}

// described is what a description says of the inputs and outputs.
func described(config *Config) (inputs, outputs []oip.TensorMetadata) {
	types := map[string]oip.Datatype{"TYPE_STRING": oip.Bytes, "TYPE_FP32": oip.FP32, "TYPE_INT64": oip.Int64}
	all := func(tensors []Tensor) (metadata []oip.TensorMetadata) {
		for _, t := range tensors {
			var shape []int64
			if config.MaxBatchSize > 0 {
				shape = append(shape, -1)
			}
			for _, dim := range t.Dims {
				n, _ := dim.Int64() // of an integer, by the message's descriptor
				shape = append(shape, n)
			}
			metadata = append(metadata, oip.TensorMetadata{Name: t.Name, Datatype: types[t.DataType], Shape: shape})
		}
		return metadata
	}
	return all(config.Input), all(config.Output)
}

// ensemble hands tensors from model to model, as its description says.
type ensemble struct {
	inputs, outputs []oip.TensorMetadata
	steps           []Step
	models          []gateway.Upstream
}

func loadEnsemble(repository string, config *Config) (*ensemble, error) {
	e := &ensemble{steps: config.EnsembleScheduling.Step}
	e.inputs, e.outputs = described(config)
	for _, step := range e.steps {
		m, err := Load(repository, step.ModelName)
		if err != nil {
			return nil, err
		}
		e.models = append(e.models, m)
		for _, t := range m.Inputs() {
			if step.InputMap[t.Name] == "" {
				return nil, fmt.Errorf("in ensemble %s, input %s in model %s is not mapped to any ensemble tensors", config.Name, t.Name, step.ModelName)
			}
		}
	}
	return e, nil
}

func (e *ensemble) Inputs() []oip.TensorMetadata  { return e.inputs }
func (e *ensemble) Outputs() []oip.TensorMetadata { return e.outputs }

func (e *ensemble) Infer(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	tensors := map[string]oip.Tensor{}
	for _, t := range inputs {
		tensors[t.Name] = t
	}
	for i, step := range e.steps {
		var given []oip.Tensor
		for to, from := range step.InputMap {
			t, known := tensors[from]
			if !known {
				return nil, oip.Invalid("expected input '%s' in the request", from)
			}
			t.Name = to
			given = append(given, t)
		}
		made, err := e.models[i].Infer(ctx, given)
		if err != nil {
			return nil, err
		}
		for _, t := range made {
			tensors[step.OutputMap[t.Name]] = t
		}
	}
	outputs := make([]oip.Tensor, len(e.outputs))
	for i, t := range e.outputs {
		outputs[i] = tensors[t.Name]
	}
	return outputs, nil
}

func (e *ensemble) Close() error {
	for _, m := range e.models {
		_ = m.Close()
	}
	return nil
}
