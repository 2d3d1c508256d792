package dsl

import (
	"maps"
	"path"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// artifactOutputs are the types of outputs that are files, and so have a path.
var artifactOutputs = []string{"dataset", "model", "checkpoint"}

// globbed is a path with a pattern of names in it.
var globbed = regexp.MustCompile(`[*?]|\[[^\]]+\]`)

func requireCommand(c *checker, s *step) {
	if c.d.Missing(s.body, "command") {
		c.src.Errorf(s.kindKey(), "required", "write `command: [python3, script.py]`", "`%s` has no command", s.ID)
	}
}

// checkCommand reports outputs without a path, and files that are not in the workspace.
func checkCommand(c *checker, s *step, cmd *spec.Command) {
	switch at := document.Lookup(s.body, "command"); {
	case at == nil || at.Kind != yaml.SequenceNode:
	case len(at.Content) == 0:
		c.src.Errorf(at, "required", "write `command: [python3, script.py]`", "the command is empty")
	default:
		c.checkShell(s, at)
		if program := document.Unalias(at.Content[0]); program.Kind == yaml.ScalarNode && program.Tag != "!!null" && strings.TrimSpace(program.Value) == "" {
			c.src.Errorf(program, "required", "write `command: [python3, script.py]`", "the command has no program")
		}
	}
	paths := map[string]string{}
	for _, name := range slices.Sorted(maps.Keys(cmd.Outputs)) {
		decl := cmd.Outputs[name]
		if other := paths[path.Clean(decl.Path)]; other != "" && decl.Path != "" {
			c.src.Warnf(document.PlaceOf(s.body, "outputs", name, "path"), "duplicate", "give each a path of its own", "`%s` and `%s` are the same files", other, name)
		}
		if decl.Path != "" {
			paths[path.Clean(decl.Path)] = name
		}
		at := document.Lookup(s.body, "outputs", name)
		isArtifact := slices.Contains(artifactOutputs, decl.Type)
		switch {
		case isArtifact && decl.Path == "" && len(c.d.MeantKeys(at)) > 0: // its key was not read
		case isArtifact && decl.Path == "":
			c.src.Errorf(at, "required", "write `path: ...`, below $SLUICE_OUTPUT_DIR", "the %s `%s` has no path", decl.Type, name)
		case !isArtifact && decl.Path != "" && decl.Type != "":
			c.src.Errorf(at, "output", "remove `path`: values come from the file outputs.json", "the %s `%s` is a value and cannot have a path", decl.Type, name)
		case isArtifact && strings.Contains(decl.Path, "${"):
		case isArtifact && globbed.MatchString(decl.Path):
			c.src.Errorf(document.PlaceOf(at, "path"), "path", "write the files to a folder, and use the folder as the path", "%q must be a single path: patterns are not supported here", decl.Path)
		case isArtifact && (strings.HasPrefix(decl.Path, "$") || strings.HasPrefix(decl.Path, "~")):
			c.src.Errorf(document.PlaceOf(at, "path"), "path", "write a relative path: it is below $SLUICE_OUTPUT_DIR", "%q is not expanded: no shell is involved", decl.Path)
		case isArtifact && !document.IsInside(decl.Path):
			c.src.Errorf(document.PlaceOf(at, "path"), "path", "let the program write to $SLUICE_OUTPUT_DIR/"+name+", and write `path: "+name+"`", "%q is outside $SLUICE_OUTPUT_DIR", decl.Path)
		}
	}
	if at := document.Lookup(s.body, "runtime", "image"); at != nil && s.info().programs == programsOnWorker && document.Lookup(s.body, "pool") == nil {
		c.src.Errorf(at, "runtime", "name a `pool` of `kubernetes` or `ec2`, use `python: requirements.txt`, or start the container from the command", "the %s step `%s` runs beside the worker, which does not start containers", s.Kind, s.ID)
	}
	checkCommandFiles(cmd, c, s)
	document.CheckListed(c.src, c.ws, document.Lookup(s.body, "command"), document.Lookup(s.body, "files"))
}

func checkCommandFiles(cmd *spec.Command, c *checker, s *step) {
	if c.ws == nil {
		return
	}
	named := document.NamedFiles(document.Lookup(s.body, "command"), document.Lookup(s.body, "files"))
	if at := document.Lookup(s.body, "runtime", "python"); at != nil && cmd.Runtime.Python != "" {
		named = append(named, at)
		c.readRequirements(at, cmd.Runtime.Python)
	}
	document.CheckFiles(c.src, c.ws, named)
}

// checkReserved reports declared outputs that every step of the kind, whose struct is of that type, has anyway.
func (c *checker) checkReserved(s *step, outputs reflect.Type) {
	for key := range document.Entries(s.body, "outputs") {
		if decode.HasKey(outputs, key.Value) {
			c.src.Errorf(key, "reserved", "give it another name", "`%s` is an output of every %s step", key.Value, s.Kind)
		}
	}
}

// checkFile reports a file that the workspace lacks; at is where the body names it.
func (c *checker) checkFile(s *step, file string, at ...any) {
	document.CheckFile(c.src, c.ws, document.Lookup(s.body, at...), file)
}
