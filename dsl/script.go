package dsl

import (
	"errors"
	"path"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/store/artifact"
)

// Command is what the kinds share that start the user's own program.
type Command struct {
	// Command is the program and its arguments, without a shell.
	Command []string `json:"command,omitempty"`
	// Inputs are artifacts brought to the node that runs the step; ${inputs.NAME.path} is the folder there.
	Inputs map[string]artifact.Ref `json:"inputs,omitempty" dsl:"names"`
	// Outputs are taken from $SLUICE_OUTPUT_DIR: artifacts by path, values from the file outputs.json in it.
	Outputs map[string]OutputDecl `json:"outputs,omitempty" dsl:"literal,names"`
	// Runtime is the interpreter or image the command runs in. Default: the pool's.
	Runtime Runtime `json:"runtime,omitzero" dsl:"literal"`
	// Files are the workspace files the step depends on. Default: all.
	Files []string `json:"files,omitempty" dsl:"literal"`
}

// OutputDecl declares one output of a command.
type OutputDecl struct {
	// Type is dataset, model, checkpoint, or a value type: string, int, double, bool.
	Type string `json:"type" dsl:"enum=dataset|model|checkpoint|string|int|double|bool"`
	// Path is where an artifact lies under $SLUICE_OUTPUT_DIR: a file or a folder.
	Path string `json:"path,omitempty"`
}

// Runtime says which interpreter runs a command.
type Runtime struct {
	// Python is a requirements file of the workspace. What it asks for is installed beside the packages of the pool's environment, once
	// for all steps that ask for the same.
	Python string `json:"python,omitempty"`
	// Image is the container image the command runs in, on pools that run containers.
	Image string `json:"image,omitempty"`
}

// WorkspaceFiles are those in the cache key; none stand for all.
func (cmd *Command) WorkspaceFiles() []string {
	if len(cmd.Files) == 0 || cmd.Runtime.Python == "" {
		return cmd.Files
	}
	return append(slices.Clone(cmd.Files), cmd.Runtime.Python)
}

// CheckProgram reports a command that names no program, as one from an expression may not.
func (cmd *Command) CheckProgram() error {
	if len(cmd.Command) == 0 || strings.TrimSpace(cmd.Command[0]) == "" {
		return errors.New("command: it names no program")
	}
	return nil
}

// artifactOutputs are the types of outputs that are files, and so have a path.
var artifactOutputs = []string{"dataset", "model", "checkpoint"}

func requireCommand(c *checker, s *step) {
	if c.d.missing(s.body, "command") {
		c.src.Errorf(document.KeyNode(s.node, string(s.Kind)), "required", "write `command: [python3, script.py]`", "`%s` has no command", s.ID)
	}
}

// checkCommand reports outputs without a path, and files that are not in the workspace.
func checkCommand(c *checker, s *step, cmd *Command) {
	switch at := document.Lookup(s.body, "command"); {
	case at == nil || at.Kind != yaml.SequenceNode:
	case len(at.Content) == 0:
		c.src.Errorf(at, "required", "write `command: [python3, script.py]`", "the command is empty")
	default:
		if program := document.Unalias(at.Content[0]); program.Kind == yaml.ScalarNode && program.Tag != "!!null" && strings.TrimSpace(program.Value) == "" {
			c.src.Errorf(program, "required", "write `command: [python3, script.py]`", "the command names no program")
		}
	}
	for name, decl := range cmd.Outputs {
		at := document.Lookup(s.body, "outputs", name)
		isArtifact := slices.Contains(artifactOutputs, decl.Type)
		switch {
		case isArtifact && decl.Path == "":
			c.src.Errorf(at, "required", "write `path: ...`, below $SLUICE_OUTPUT_DIR", "the %s `%s` has no path", decl.Type, name)
		case !isArtifact && decl.Path != "" && decl.Type != "":
			c.src.Errorf(at, "output", "remove `path`: values come from the file outputs.json", "the %s `%s` is a value and has no path", decl.Type, name)
		case isArtifact && !document.IsInside(decl.Path):
			c.src.Errorf(document.PlaceOf(at, "path"), "path", "write a relative path", "%q leaves $SLUICE_OUTPUT_DIR", decl.Path)
		}
	}
	if at := document.Lookup(s.body, "runtime", "image"); at != nil && s.Kind != KindTrain {
		c.src.Errorf(at, "runtime", "use `python: requirements.txt`, or start the container in the command", "the %s step `%s` runs beside the worker, which starts no containers", s.Kind, s.ID)
	}
	checkCommandFiles(cmd, c, s)
}

func checkCommandFiles(cmd *Command, c *checker, s *step) {
	if c.ws == nil {
		return
	}
	for i, arg := range cmd.Command {
		if inWorkspace(i, arg) {
			c.checkFile(s, arg, "command", i)
		}
	}
	for i, file := range cmd.Files {
		c.checkFile(s, file, "files", i)
	}
	if cmd.Runtime.Python != "" {
		c.checkFile(s, cmd.Runtime.Python, "runtime", "python")
		if at := document.Lookup(s.body, "runtime", "python"); at != nil {
			c.readRequirements(at, cmd.Runtime.Python)
		}
	}
}

// inWorkspace reports whether the i-th word of a command names a file of the workspace. Code for a shell and addresses do not, whatever
// they end with.
func inWorkspace(i int, arg string) bool {
	script := strings.HasSuffix(arg, ".py") || strings.HasSuffix(arg, ".sh")
	if strings.ContainsAny(arg, " \t\n;&|<>$*?'\"`") || strings.Contains(arg, "://") {
		return false
	}
	return i == 0 && strings.HasPrefix(arg, "./") || i > 0 && script && !strings.HasPrefix(arg, "-") && !path.IsAbs(arg)
}

// checkFile reports a file that the workspace lacks; at is where the body names it.
func (c *checker) checkFile(s *step, file string, at ...any) {
	c.checkFileAt(document.Lookup(s.body, at...), file)
}

func (c *checker) checkFileAt(node *yaml.Node, file string) {
	switch {
	case node == nil || file == "":
	case !document.IsInside(file):
		c.src.Errorf(node, "path", "copy it into the pipeline's folder", "%q is outside the pipeline's folder", file)
	case !c.ws.Exists(path.Clean(file)):
		c.src.Errorf(node, "missing-file", "paths are relative to the pipeline's folder", "there is no file %q", file)
	default:
		if why, help := c.ws.LeftOut(path.Clean(file)); why != "" {
			c.src.Errorf(node, "left-out", help, "%q goes along with no run: %s", file, why)
		}
	}
}
