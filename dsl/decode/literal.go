package decode

import (
	"regexp"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

var (
	// template is an expression of Jinja, Argo, Airflow or GitHub Actions, or of Tekton, that reads what a pipeline has. Others, such as those
	// of docker ps --format, are for the program.
	template = regexp.MustCompile(`\{\{-?\s*((?:params|inputs|steps|tasks|item|matrix|secrets|env|workflow|dag|dag_run|ti|task_instance|ds|ds_nodash|ts|execution_date|run_id|var)\b[^{}]*?)\s*-?\}\}|` +
		`\$\(((?:params|inputs|steps|tasks|context)\.[^()]*)\)|<%=?\s*((?:params|inputs|steps|matrix)\.[^<>%]*?)\s*%>`)
	// unmarked is a word with an expression that lacks its `$`, as in Python, or has another sign, or lacks its braces, as in a shell.
	unmarked = regexp.MustCompile(`^([\w=:./-]*)(?:(?:[#@%]|\$ )?\{((?:params|steps|matrix|inputs)\.[\w.]+)\}|\$((?:params|steps|matrix|inputs)\.[\w.]+))([\w=:./-]*)$`)
	readPath = regexp.MustCompile(`^(?:--?[\w-]+=)?(?:params|steps|inputs|matrix|last|serving)(?:\.\??[a-z_][a-z0-9_]*)+$`)
)

// checkLiteral warns of a text that is likely meant to be filled in.
func (d *Decoder) checkLiteral(n *yaml.Node, r spec.Rules) {
	if r.Raw {
		return
	}
	d.checkTemplate(n)
	d.checkText(n)
	if readPath.MatchString(n.Value) {
		d.Paths = append(d.Paths, n)
	}
}

// checkForeign reports an expression of another system in the place of one, and warns of one in a text within it. It reports whether it
// was the former.
func (d *Decoder) checkForeign(n *yaml.Node) bool {
	pattern, inner := template, "$1$2$3"
	if !pattern.MatchString(n.Value) {
		pattern, inner = unmarked, "$2$3"
	}
	m := pattern.FindStringIndex(n.Value)
	if m == nil {
		return false
	}
	before := n.Value[:m[0]]
	severity := document.SeverityError
	if quoteIsOpen(before) {
		severity = document.SeverityWarning
	}
	inner = ourPath(pattern.ReplaceAllString(n.Value[m[0]:m[1]], inner))
	d.Source.AddAt(severity, n, utf8.RuneCountInString(before), "template", "write "+inner+", without braces and quotes", "`"+n.Value[m[0]:m[1]]+"` is syntax of another system, and this is an expression already")
	return severity == document.SeverityError
}

// quoteIsOpen reports whether what follows a text is within quotes.
func quoteIsOpen(before string) bool {
	return strings.Count(before, "'")%2 == 1 || strings.Count(before, `"`)%2 == 1
}

// checkTemplate warns of an expression of another system.
func (d *Decoder) checkTemplate(n *yaml.Node) {
	m := template.FindStringSubmatchIndex(n.Value)
	if of := unmarked.FindStringSubmatch(n.Value); m == nil && of != nil {
		d.Source.Warnf(n, "template", "write "+of[1]+"${"+of[2]+of[3]+"}"+of[4], "%q is plain text here, and is not replaced", n.Value)
	}
	if m == nil {
		return
	}
	inner := template.ReplaceAllString(n.Value[m[0]:m[1]], "$1$2$3")
	d.Source.AddAt(document.SeverityWarning, n, utf8.RuneCountInString(n.Value[:m[0]]), "template", "write ${"+ourPath(inner)+"}", "`"+n.Value[m[0]:m[1]]+"` is syntax of another system, and is not replaced")
}

// ourPath is how an expression reads what one of another system does.
func ourPath(theirs string) string {
	theirs, _, _ = strings.Cut(theirs, "|") // a filter of Jinja
	theirs = strings.TrimSpace(theirs)
	word, rest, _ := strings.Cut(theirs, ".")
	switch {
	case word == "inputs" && strings.HasPrefix(rest, "parameters."):
		return "params." + strings.TrimPrefix(rest, "parameters.")
	case word == "workflow" && strings.HasPrefix(rest, "parameters."):
		return "params." + strings.TrimPrefix(rest, "parameters.")
	case strings.HasPrefix(word, "ti") || strings.HasPrefix(word, "task_instance"):
		return "steps.STEP.OUTPUT"
	case word == "steps" || word == "tasks":
		return "steps." + strings.NewReplacer("outputs.parameters.", "", "outputs.artifacts.", "", "outputs.", "", "results.", "").Replace(rest)
	case word == "params" || word == "item" || word == "matrix":
		return theirs
	case word == "run_id":
		return "run.id"
	case strings.HasPrefix(word, "ds") || word == "ts" || word == "execution_date":
		return "run.scheduled_at"
	}
	return "params.NAME"
}
