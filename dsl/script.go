package dsl

import "github.com/sluiceml/sluice/store/artifact"

// Command is what the kinds share that start the user's own program.
type Command struct {
	// Command is the program and its arguments, without a shell.
	Command []string `json:"command,omitempty"`
	// Inputs are artifacts brought to the node that runs the step; ${inputs.NAME.path} is the folder there.
	Inputs map[string]artifact.Ref `json:"inputs,omitempty"`
	// Outputs are taken from $SLUICE_OUTPUT_DIR: artifacts by path, values from the file outputs.json in it.
	Outputs map[string]OutputDecl `json:"outputs,omitempty"`
	// Runtime is the interpreter or image the command runs in. Default: the pool's.
	Runtime Runtime `json:"runtime,omitempty"`
	// Files are the workspace files the step depends on. Default: all.
	Files []string `json:"files,omitempty"`
}

// OutputDecl declares one output of a command.
type OutputDecl struct {
	// Type is dataset, model, checkpoint, or a value type: string, int, double, bool.
	Type string `json:"type"`
	// Path is where an artifact lies under $SLUICE_OUTPUT_DIR: a file or a folder.
	Path string `json:"path,omitempty"`
}

// Runtime says which interpreter runs a command.
type Runtime struct {
	// Python is a requirements file of the workspace; it must be met by the project's environment.
	Python string `json:"python,omitempty"`
}
