// Package built is what the process that builds variants of a model leaves for the one that judges and stores them, which may be on
// another machine: a folder for each variant, and a file that says how they measured.
package built

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/dsl/spec"
)

// File is the report's name, in the folder that the variants' folders are in. It is no name of a variant.
const File = "built.json"

// maxReport bounds a report in bytes.
const maxReport = 16 << 20

// Report says what was built.
type Report struct {
	// Fault is set where the model, the samples or what was asked of them is at fault, and says how: there are no variants then.
	Fault string `json:"fault,omitempty"`
	// Source is the source model.
	Source   Variant            `json:"source,omitzero"`
	Variants map[string]Variant `json:"variants,omitempty"`
}

// Variant is one model as it was measured.
type Variant struct {
	Parity     spec.Parity  `json:"parity"`
	Latency    spec.Latency `json:"latency"`
	Throughput float64      `json:"throughput"` // rows per second
	// Bytes of the model and the files that belong to it; 0 of a variant, whose folder has nothing else.
	Bytes int64 `json:"bytes,omitempty"`
	// Meta is of its artifact, beside its name.
	Meta map[string]string `json:"meta,omitempty"`
	// TensorRT is set of an engine.
	TensorRT *spec.EngineOutput `json:"tensorrt,omitempty"`
}

// Write puts the report into the variants' folder.
func (r Report) Write(dir string) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, File), raw, 0o600)
}

// Read returns the report in a folder.
func Read(dir string) (Report, error) {
	file, err := os.Open(filepath.Join(dir, File))
	if err != nil {
		return Report{}, err
	}
	defer file.Close()
	return Decode(file)
}

// Decode reads a report.
func Decode(from io.Reader) (r Report, err error) {
	if err := json.NewDecoder(io.LimitReader(from, maxReport)).Decode(&r); err != nil {
		return r, fmt.Errorf("%s: %w", File, err)
	}
	return r, nil
}
