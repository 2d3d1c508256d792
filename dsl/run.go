package dsl

import (
	"cmp"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

func runOutputs(_ *expr.TypeSystem, _ string, spec *spec.Run) expr.ObjectType {
	return expr.ObjectType{Fields: declaredOutputs(map[string]*cel.Type{}, spec.Outputs)}
}

// runCaching: a command without outputs is run for its effects.
func runCaching(s *step) caching {
	if len(s.known.(*spec.Run).Outputs) > 0 {
		return cacheByDefault
	}
	return cacheOnRequest
}

func checkRun(c *checker, s *step, sp *spec.Run) {
	script, command := document.Lookup(s.body, "script"), document.Lookup(s.body, "command")
	switch {
	case script == nil && command == nil && c.d.Missing(s.body, "command") && c.d.Missing(s.body, "script"):
		c.src.Errorf(s.kindKey(), "one-of", "write `command: [program, argument]`, or `script: |`", "`%s` has neither a script nor a command", s.ID)
	case script != nil && command != nil:
		c.src.Errorf(document.KeyNode(s.body, "script"), "one-of", "keep one of them", "`%s` has both a script and a command", s.ID)
	}
	if script != nil && script.Kind == yaml.ScalarNode && strings.TrimSpace(sp.Script) == "" {
		c.src.Errorf(script, "required", "write `script: |` and the lines of the script below it", "the script of `%s` is empty", s.ID)
	}
	c.checkFolded(document.KeyNode(s.body, "script"), script)
	m := interpolation.FindStringIndex(sp.Script)
	for _, name := range unmarkedParam.FindAllStringSubmatch(sp.Script, -1) {
		if _, isParam := c.pipeline.Params[name[1]]; isParam && !c.usedParams[name[1]] && m == nil && script != nil {
			before, _, _ := strings.Cut(sp.Script, name[0])
			c.src.AddAt(document.SeverityWarning, script, utf8.RuneCountInString(before), "script", "pass it in `env: {NAME: \"${params."+name[1]+"}\"}`, and use $NAME here", "`"+name[0]+"` is not replaced in scripts")
			break
		}
	}
	if m != nil && script != nil {
		c.src.AddAt(document.SeverityWarning, script, utf8.RuneCountInString(sp.Script[:m[0]]), "script", "pass it in `env: {NAME: \""+sp.Script[m[0]:m[1]]+"\"}`, and use $NAME here",
			"`${}` is not replaced in scripts: the shell would see this as it is")
	}
	checkCommand(c, s, &sp.Command)
	checkPlacement(c, s, sp.Train())
	if sp.CallsSluice() && s.onPool() {
		at := cmp.Or(document.Lookup(s.body, "sluice"), command, s.kindKey())
		c.src.Errorf(at, "pool", "remove `pool`, or call sluice in a step of its own",
			"`%s` calls sluice, and nodes of a pool have neither sluice nor the credentials of the run's store", s.ID)
	}
}

// interpolation matches what anywhere else would be an expression, and to a shell is a bad substitution.
var interpolation = regexp.MustCompile(`\$\{(?:inputs|item|last|matrix|params|run|serving|steps)\.[^}\n]*\}`)

// unmarkedParam matches a parameter as other systems write it, or without braces.
var unmarkedParam = regexp.MustCompile(`(?:\{\{\s*|\$)params\.(\w+)(?:\s*\}\})?`)

var (
	alone     = regexp.MustCompile(`^(?:cd \S+|set -\S+(?: pipefail)?|export \S+|source \S+|#.*)$`)
	ownLine   = regexp.MustCompile(`^(?:pip3? install|python3? |echo |mkdir |cp |mv )`)
	continued = regexp.MustCompile(`(?:\\|&&|\||;)$`)
)

// checkFolded warns of a script whose lines YAML joins into one, although each is a command.
func (c *checker) checkFolded(key, script *yaml.Node) {
	if script == nil || script.Kind != yaml.ScalarNode || script.Style != 0 && script.Style != yaml.FoldedStyle {
		return
	}
	var lines []string
	for n := key.Line + 1; n <= len(c.src.Lines); n++ {
		text := c.src.Text(n)
		if strings.TrimSpace(text) != "" && len(text)-len(strings.TrimLeft(text, " ")) < key.Column {
			break
		}
		lines = append(lines, strings.TrimSpace(text))
	}
	for i := range len(lines) - 1 {
		if next := lines[i+1]; next != "" && !continued.MatchString(lines[i]) && (alone.MatchString(lines[i]) || ownLine.MatchString(lines[i]) && ownLine.MatchString(next)) {
			c.src.Warnf(script, "script", "write `script: |`, which keeps the lines apart", "YAML joins the lines of this script: `%s %s` is one command", lines[i], next)
			return
		}
	}
}
