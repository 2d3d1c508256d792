package compile

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"os"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/onnx"
)

// Export asks for rows of a dataset as tensors of a model, for tools that read no datasets.
type Export struct {
	Model   string      `json:"model"`   // file
	Dataset string      `json:"dataset"` // folder
	Samples dsl.Samples `json:"samples"`
	// File is written: one JSON list of the model's inputs a line.
	File string `json:"file"`
	// Outputs, when set, is written with what the model puts out for each row.
	Outputs string `json:"outputs,omitempty"`
}

// Exported describes the model whose tensors were written.
type Exported struct {
	Inputs  []oip.TensorMetadata `json:"inputs"`
	Outputs []oip.TensorMetadata `json:"outputs"`
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
	if err := writeTensors(e.File, samples); err != nil {
		return Exported{}, err
	}
	if e.Outputs != "" {
		for i, sample := range samples {
			if samples[i], err = session.Infer(ctx, sample); err != nil {
				return Exported{}, &ModelError{"the source model: " + err.Error()}
			}
		}
		if err := writeTensors(e.Outputs, samples); err != nil {
			return Exported{}, &ModelError{"the source model: " + err.Error()}
		}
	}
	return Exported{Inputs: session.Inputs(), Outputs: session.Outputs()}, nil
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
	session, err := onnx.Open(m.File, onnx.Options{})
	if err != nil && !errors.Is(err, onnx.ErrNoLibrary) {
		return nil, &ModelError{m.Name + ": " + err.Error()}
	}
	return session, err
}
