// Package cleaned is what the process that cleans on a node of a pool leaves for the worker that stores it: folders of rows, and a file that
// says what became of them.
package cleaned

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// What is in the folder. Rejected is missing where no row was rejected.
const (
	File     = "cleaned.json" // the report
	Dataset  = "dataset"
	Rejected = "rejected"
	Account  = "account"
	Profile  = "profile.json"
)

// maxReport bounds a report in bytes.
const maxReport = 64 << 20

// Report says how a cleaning ended.
type Report struct {
	// Fault is why it failed; there is nothing else in the folder then.
	Fault *fault.Error `json:"fault,omitempty"`
	// Output is what the step hands on, without its artifacts.
	Output spec.CleanOutput `json:"output,omitzero"`
}

// Write puts the report into a folder.
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
