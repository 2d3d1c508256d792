// Package offload is what a step that sluice executes on a node leaves for the worker, which may be on another machine.
//
// The process that builds variants of a model leaves a folder for each variant, and a file that says how they measured, for the one that
// judges and stores them. The process that cleans leaves folders of rows, and a file that says what became of them.
package offload

import (
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// What is in the folder. Rejected is missing where no row was rejected.
const (
	CleanFile = "cleaned.json" // the report
	Dataset   = "dataset"
	Rejected  = "rejected"
	Account   = "account"
	Profile   = "profile.json"
)

// CleanReport says how a cleaning ended.
type CleanReport struct {
	// Fault is why it failed; there is nothing else in the folder then.
	Fault *fault.Error `json:"fault,omitempty"`
	// Output is what the step hands on, without its artifacts.
	Output spec.CleanOutput `json:"output,omitzero"`
}
