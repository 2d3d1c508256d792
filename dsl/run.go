package dsl

// Run starts the user's own program once. Its outputs are those it declares.
type Run struct {
	Command
	// Script is a bash script (bash -euo pipefail), never interpolated: values reach it through env. Instead of command.
	Script string `json:"script,omitempty"`
}

// Kind implements Spec.
func (*Run) Kind() Kind { return KindRun }
