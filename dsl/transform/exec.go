package transform

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/shell"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Exec transforms rows with your own program. The program reads them from stdin, one JSON object per line with a number in the field _row,
// and writes to stdout for each row, in any order, a line with the same _row: the new row, or {"_row": 7, "_drop": "rule"}, or {"_row": 7,
// "_reject": "reason"}. Rules are counted as TRANSFORM/RULE. The program runs in a copy of the workspace with the step's env and secrets;
// its stderr goes to the step's log. A row without an answer is rejected as no_answer, and a row that crashes the program twice, the second
// time alone, as crashed. When it has answered all rows the program must exit with 0, or the step fails. It must give equal rows equal
// answers, whatever rows came before them.
type Exec struct {
	// Command is the program and its arguments, without a shell. Several processes of it run at a time.
	Command []string `json:"command"`
	// Files are the workspace files and folders that the program depends on, or `none`. Default: all.
	Files spec.FileList `json:"files,omitzero" dsl:"literal"`
	// MaxRestarts is how often the program may be restarted after a crash before the step fails. Default 20.
	MaxRestarts int `json:"max_restarts,omitempty" dsl:"default=20,min=0,max=100000"`
	ErrorKeys
}

// Check reports an empty command and files that are not in the workspace.
func (Exec) Check(r document.Reporter, in StepFacts, config *yaml.Node) {
	command := document.Lookup(config, "command")
	checkNotEmpty(r, command)
	document.CheckListed(r, in.Workspace, command, document.Lookup(config, "files"))
	isSet := func(variable string) bool { return slices.Contains(in.Secrets, variable) }
	if in.Workspace == nil {
		shell.Check(r, command, isSet, nil)
		return
	}
	shell.Check(r, command, isSet, in.Workspace.Exists)
	document.CheckFiles(r, in.Workspace, document.NamedFiles(command, document.Lookup(config, "files")))
}

// Execs returns the configs of the Exec transforms of a resolved spec.
func Execs(sp *spec.Clean) ([]Exec, error) {
	configs, _, err := configsOf[Exec](sp, Is[Exec])
	return configs, err
}

// ProgramFiles are the workspace files that programs of a cleaning depend on. One that names none depends on all but the documents of the
// run.
func ProgramFiles(programs []Exec) []string {
	files := []string{}
	for _, p := range programs {
		if p.Files == nil {
			files = append(files, ".")
		}
		files = append(files, p.Files...)
	}
	slices.Sort(files)
	return slices.Compact(files)
}

// Counts implements Counter: the program names its rules when it runs.
func (Exec) Counts(to Counts, label string, _ *yaml.Node) { to.addPrefix("rules", label+"/") }

// Shape implements Shaper: what the program makes of the rows is not known.
func (Exec) Shape(Shape, *yaml.Node, ExprTypes) Shape { return anyRow }
