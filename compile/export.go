package compile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/serving/triton/layout"
)

// cutModel is a model, whole or in two parts.
type cutModel struct {
	// Model is a file.
	Model string `json:"model"`
	// Front and Back are the model in two, as files; empty where it is whole.
	Front string `json:"front,omitempty"`
	Back  string `json:"back,omitempty"`
}

// Export asks for rows of a dataset as tensors of a model, for tools that read no datasets. Of a model in two parts they are those of
// the second.
type Export struct {
	cutModel
	Dataset string       `json:"dataset"` // folder
	Samples spec.Samples `json:"samples"`
	// File is written: one JSON list of inputs a line.
	File string `json:"file"`
	// Outputs, when set, is written with what the whole model puts out for each row.
	Outputs string `json:"outputs,omitempty"`
}

// Exported describes the model, or the second part of it, whose tensors were written.
type Exported struct {
	Inputs  []oip.TensorMetadata `json:"inputs"`
	Outputs []oip.TensorMetadata `json:"outputs"`
	// Front describes the first part.
	Front *layout.Front `json:"front,omitempty"`
}

// write does what the Export asks for.
func (e Export) write(ctx context.Context) (Exported, error) {
	session, err := openModel(Model{Name: "the source model", File: e.Model})
	if err != nil {
		return Exported{}, err
	}
	defer func() { _ = session.Close() }() // the process ends soon
	samples, err := readSamples(e.Dataset, e.Samples, session)
	if err != nil {
		return Exported{}, err
	}
	inputs, exported := samples, Exported{Inputs: session.Inputs(), Outputs: session.Outputs()}
	if e.Front != "" {
		if inputs, err = e.inputsOfBack(ctx, samples, &exported); err != nil {
			return Exported{}, err
		}
	}
	if err := writeTensors(e.File, inputs); err != nil {
		return Exported{}, err
	}
	if e.Outputs == "" {
		return exported, nil
	}
	outputs := make([][]oip.Tensor, len(samples))
	for i, sample := range samples {
		if outputs[i], err = session.Infer(ctx, sample); err != nil {
			return Exported{}, &ModelError{"the source model: " + err.Error()}
		}
	}
	if err := writeTensors(e.Outputs, outputs); err != nil {
		return Exported{}, &ModelError{"the source model: " + err.Error()}
	}
	return exported, nil
}

// inputsOfBack runs the front on samples, and describes both parts.
func (e Export) inputsOfBack(ctx context.Context, samples [][]oip.Tensor, exported *Exported) ([][]oip.Tensor, error) {
	front, err := openModel(Model{Name: "the part before `inputs`", File: e.Front})
	if err != nil {
		return nil, err
	}
	defer func() { _ = front.Close() }()
	back, err := openModel(Model{Name: "the part after `inputs`", File: e.Back})
	if err != nil {
		return nil, err
	}
	defer func() { _ = back.Close() }()
	exported.Inputs, exported.Outputs = back.Inputs(), back.Outputs()
	exported.Front = &layout.Front{Inputs: front.Inputs(), Outputs: front.Outputs()}
	all := make([][]oip.Tensor, len(samples))
	for i, sample := range samples {
		made, err := front.Infer(ctx, pickTensors(front.Inputs(), sample))
		if err != nil {
			return nil, &ModelError{fmt.Sprintf("the part before `inputs`: sample %d: %v", i+1, err)}
		}
		all[i] = pickTensors(back.Inputs(), slices.Concat(made, sample))
	}
	return all, nil
}

// pickTensors returns those that are described, as far as they are there.
func pickTensors(described []oip.TensorMetadata, from []oip.Tensor) []oip.Tensor {
	var picked []oip.Tensor
	for _, d := range described {
		if at := slices.IndexFunc(from, func(t oip.Tensor) bool { return t.Name == d.Name }); at >= 0 {
			picked = append(picked, from[at])
		}
	}
	return picked
}

// writeTensors writes a JSON list of tensors a line.
func writeTensors(path string, rows [][]oip.Tensor) (err error) {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := bufio.NewWriter(file)
	lines := json.NewEncoder(buffer)
	for _, row := range rows {
		if err := lines.Encode(row); err != nil {
			return err
		}
	}
	return buffer.Flush()
}

// openModel opens a model file. What is wrong with the file is a ModelError.
func openModel(m Model) (*onnx.Session, error) {
	session, err := onnx.Open(m.File)
	if err != nil && !errors.Is(err, onnx.ErrNoLibrary) {
		return nil, &ModelError{m.Name + ": " + err.Error()}
	}
	return session, err
}
