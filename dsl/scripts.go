package dsl

import (
	"maps"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/shell"
	"github.com/sluiceml/sluice/internal/childenv"
	"github.com/sluiceml/sluice/internal/suggest"
)

// checkScripts warns of what bash cannot read in the code of a step, and of variables that are not there when it reads them.
func (c *checker) checkScripts(s *step) {
	if n := document.Unalias(document.Lookup(s.body, "script")); n != nil && n.Kind == yaml.ScalarNode && document.Lookup(s.body, "command") == nil {
		c.checkBash(s, n, n.Value, func(offset int) int { return offset }, true)
	}
	items := document.Items(document.Lookup(s.body, "command"))
	words := textsOf(items)
	if i, nounset := shell.BashCode(words); i > 0 && items[i].Kind == yaml.ScalarNode {
		code, at := shell.Replaced(words[i])
		c.checkBash(s, items[i], code, at, nounset)
	}
}

// checkBash checks code that is the text of n, where a place in the code is at that of the text. What something else was found in is left.
func (c *checker) checkBash(s *step, n *yaml.Node, code string, at func(offset int) int, nounset bool) {
	line, col := c.src.Locate(n, utf8.RuneCountInString(n.Value))
	if slices.ContainsFunc(c.src.Findings, func(d document.Diagnostic) bool {
		return (d.Line > n.Line || d.Line == n.Line && d.Col >= n.Column) && (d.Line < line || d.Line == line && d.Col <= col)
	}) {
		return
	}
	reads, wrong := shell.Unset(code)
	if wrong != nil {
		c.src.AddAt(document.SeverityWarning, n, at(wrong.Offset), "script", wrong.Hint, "bash cannot read this: "+wrong.Text)
		return
	}
	for _, read := range reads {
		if hint, isUnset := c.unsetHint(s, code, read.Name); isUnset && nounset {
			c.src.AddAt(document.SeverityWarning, n, at(read.Offset), "variable", hint, "nothing sets `$"+read.Name+"`, and the script ends where it reads it")
		}
	}
}

// onPoolOnly begins the names of variables that only nodes of pools have.
var onPoolOnly = regexp.MustCompile(`^SLUICE_(CHECKPOINT|RESUME)_`)

// unsetHint says what to do about a variable that a step's script does not set, if nothing else does. The machine or the image of a pool may set
// any, so that there only a slip is reported.
func (c *checker) unsetHint(s *step, code, name string) (hint string, isUnset bool) {
	var own []string
	for _, key := range []string{"env", "secrets"} {
		for variable := range document.Entries(s.node, key) {
			own = append(own, variable.Value)
		}
	}
	near, onPool := suggest.To(name, own), s.info().programs == programsOnPool || s.onPool()
	callsSluice := document.Lookup(s.body, "sluice") != nil
	switch {
	case slices.Contains(own, name) || shell.SetByBash(name) || childenv.Inheritable(name) || document.Lookup(s.body, "env", name) != nil:
		return "", false
	case onPool && (slices.Contains(rankVariables, name) || onPoolOnly.MatchString(name) && name != "SLUICE_RESUME_DIR"):
		return "", false
	case onPool && name == "SLUICE_RESUME_DIR":
		return "write `${SLUICE_RESUME_DIR:-}`, which is empty until there is a checkpoint", true
	case name == "SLUICE_OUTPUT_DIR" || name == "SLUICE_METRICS" || callsSluice && (childenv.OfStore(name) || name == "SLUICE_STATE" || name == "SLUICE_STORE"):
		return "", false
	case !onPool && onPoolOnly.MatchString(name):
		return "remove it: only the nodes of a pool have it", true
	case !onPool && (name == "SLUICE_STATE" || name == "SLUICE_STORE"):
		return "write `sluice: true` in the `run`", true
	case near != "" && !(onPool && strings.Contains(code, near)):
		return "did you mean `$" + near + "`?", true
	case onPool:
		return "", false
	}
	for _, param := range slices.Sorted(maps.Keys(c.pipeline.Params)) {
		if strings.EqualFold(param, name) {
			return "pass it in `env: {" + name + ": \"${params." + param + "}\"}`", true
		}
	}
	return "set it in the step's `env` or `secrets`, or write `${" + name + ":-}` where it may be missing", true
}
