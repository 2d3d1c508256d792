package dsl

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"

	"github.com/sluiceml/sluice/dsl/document"
)

// Run starts the user's own program once. Its outputs are those it declares.
type Run struct {
	Command
	// Script is a bash script (bash -euo pipefail), never interpolated: values reach it through env. Instead of command.
	Script string `json:"script,omitempty" dsl:"raw"`
	// Sluice lets the program call sluice: it is in its PATH then, with the state folder and the store of the run, and with what this
	// process reaches a store in a bucket by. Default: true for a command that is sluice itself, else false.
	Sluice bool `json:"sluice,omitempty" dsl:"literal"`
}

// CallsSluice reports whether the program may call sluice.
func (spec *Run) CallsSluice() bool {
	return spec.Sluice || len(spec.Command.Command) > 0 && spec.Command.Command[0] == "sluice"
}

// Kind implements Spec.
func (*Run) Kind() Kind { return KindRun }

func runOutputs(_ *typeSystem, _ string, spec *Run) map[string]*cel.Type {
	return declaredOutputs(map[string]*cel.Type{}, spec.Outputs)
}

func checkRun(c *checker, s *step, spec *Run) {
	script, command := document.Lookup(s.body, "script"), document.Lookup(s.body, "command")
	switch {
	case script == nil && command == nil && c.d.missing(s.body, "command") && c.d.missing(s.body, "script"):
		c.src.Errorf(document.KeyNode(s.node, string(KindRun)), "one-of", "write `command: [program, argument]`, or `script: |`", "`%s` says nothing to run", s.ID)
	case script != nil && command != nil:
		c.src.Errorf(document.KeyNode(s.body, "script"), "one-of", "keep one of them", "`%s` has both a script and a command", s.ID)
	}
	if script != nil && strings.TrimSpace(spec.Script) == "" {
		c.src.Errorf(script, "required", "write `script: |` and the lines of the script below it", "the script of `%s` is empty", s.ID)
	}
	if m := interpolation.FindStringSubmatchIndex(spec.Script); m != nil && script != nil {
		line, col := c.src.Locate(script, utf8.RuneCountInString(spec.Script[:m[0]]))
		c.src.Add(document.SeverityWarning, line, col, "script", "give it by `env: {NAME: \""+spec.Script[m[0]:m[1]]+"\"}`, and write $NAME here",
			"a script is never interpolated: the shell will see this as it stands")
	}
	checkCommand(c, s, &spec.Command)
}

func (spec *Run) CheckProgram() error {
	if spec.Script != "" {
		return nil
	}
	return spec.Command.CheckProgram()
}

// interpolation matches what anywhere else would be an expression, and to a shell is a bad substitution.
var interpolation = regexp.MustCompile(`\$\{(?:inputs|last|params|run|serving|steps)\.[^}\n]*\}`)
