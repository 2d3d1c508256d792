package spec

import (
	"errors"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/internal/artifact"
)

// Command is what the kinds share that start the user's own program.
type Command struct {
	// Command is the program and its arguments, without a shell.
	Command []string `json:"command,omitempty"`
	// Inputs are artifacts that are copied to the node that runs the step; ${inputs.NAME.path} is the folder there.
	Inputs map[string]artifact.Ref `json:"inputs,omitempty" dsl:"names"`
	// Outputs are outputs in $SLUICE_OUTPUT_DIR: artifacts by path, values from the file outputs.json in it.
	Outputs map[string]OutputDecl `json:"outputs,omitempty" dsl:"literal,names"`
	// Runtime is the packages or the image with which the command runs. Default: the pool's.
	Runtime Runtime `json:"runtime,omitzero" dsl:"literal"`
	// Files are the workspace files and folders the step depends on, or `none`. Default: all.
	Files FileList `json:"files,omitzero" dsl:"literal"`
}

// FileList is a list of workspace files, of which none are another thing than no list.
type FileList []string

// OutputDecl declares one output of a command.
type OutputDecl struct {
	// Type is dataset, model, checkpoint, or a value type: string, int, double, bool.
	Type string `json:"type" dsl:"enum=dataset|model|checkpoint|string|int|double|bool"`
	// Path is the path of an artifact below $SLUICE_OUTPUT_DIR: a file or a folder.
	Path string `json:"path,omitempty"`
}

// Runtime says which interpreter runs a command.
type Runtime struct {
	// Python is a requirements file of the workspace. Its packages are installed on top of the pool's environment, once for all steps with
	// the same requirements.
	Python string `json:"python,omitempty"`
	// Image is the container image in which the command runs, on pools that run containers.
	Image string `json:"image,omitempty"`
}

// WorkspaceFiles are those in the cache key; nil stands for all.
func (cmd *Command) WorkspaceFiles() []string {
	if cmd.Files == nil || cmd.Runtime.Python == "" {
		return cmd.Files
	}
	return append(slices.Clone(cmd.Files), cmd.Runtime.Python)
}

// Check reports a command that names no program, as one from an expression may not.
func (cmd *Command) Check() error {
	if len(cmd.Command) == 0 || strings.TrimSpace(cmd.Command[0]) == "" {
		return errors.New("command: it names no program")
	}
	return nil
}
