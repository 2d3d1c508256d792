// Package cleaned is what the process that cleans on a node of a pool leaves for the worker that stores it: folders of rows, and a file that
// says what became of them.
package cleaned

import (
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

// Report says how a cleaning ended.
type Report struct {
	// Fault is why it failed; there is nothing else in the folder then.
	Fault *fault.Error `json:"fault,omitempty"`
	// Output is what the step hands on, without its artifacts.
	Output spec.CleanOutput `json:"output,omitzero"`
}
