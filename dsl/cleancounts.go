package dsl

import (
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/suggest"
)

// checkReader checks what reads a split, and a label in it or none, of a dataset against the cleaning that writes this.
func (c *checker) checkReader(reader *yaml.Node, key, byDefault string) {
	at := document.Lookup(reader, key)
	id := transform.CleanedBy(document.TextAt(reader, key))
	s := c.byID[id]
	if s == nil || !isA[*spec.Clean](s) {
		return
	}
	c.graphOf(s).CheckReader(c.src, reader, at, id, byDefault)
	label, written := document.Lookup(reader, "label"), c.written[s]
	if columns := written.Names(); label != nil && label.Value != "" && !strings.Contains(label.Value, "${") && written.Rest == nil && len(columns) > 0 && !slices.Contains(columns, label.Value) {
		c.src.Errorf(label, "row", suggest.Hint(label.Value, columns), "`%s` is not a column of the rows that `%s` writes", label.Value, id)
	}
}

// inInput is a path into an input, and what of it is below the input's folder.
var inInput = regexp.MustCompile(`\$\{ *inputs\.(\w+)\.path *\}/([^\s"']+)`)

// checkInputPaths reports paths of a step that lead to nothing in the dataset of a cleaning. A program may be content with that.
func (c *checker) checkInputPaths(s *step) {
	inputs := document.Lookup(s.body, "inputs")
	report := c.src.Warnf
	if isA[*spec.Clean](s) {
		report = c.src.Errorf
	}
	for _, below := range []*yaml.Node{document.Lookup(s.body, "command"), document.Lookup(s.body, "transforms"), document.Lookup(s.node, "env")} {
		for n := range document.Scalars(below) {
			m := inInput.FindStringSubmatch(n.Value)
			if m == nil || strings.Contains(m[2], "${") {
				continue
			}
			id := transform.CleanedBy(document.TextAt(inputs, m[1]))
			if of := c.byID[id]; of != nil && isA[*spec.Clean](of) {
				if code, hint, message := c.graphOf(of).Lacks(m[2], id); code != "" {
					report(n, code, hint, "%s", message)
				}
			}
		}
	}
}

// checkCounts reports counts of a cleaning that nothing counts, such as those of a rule whose name is misspelt.
func (c *checker) checkCounts(e *expr.Expression, s *step) {
	for _, r := range e.Refs {
		of, path := s, r.Path
		switch {
		case path[0].Name == "steps" && len(path) > 2:
			of, path = c.byID[path[1].Name], path[2:]
		case e.Scope != expr.ScopeGate && e.Scope != expr.ScopeUntil:
			continue
		}
		if of == nil || !isA[*spec.Clean](of) || len(path) < 2 || path[1].Optional {
			continue
		}
		counts := c.graphOf(of).Counts()[path[0].Name]
		if name := path[1].Name; counts != nil && !counts.Has(name) {
			hint := suggest.Hint(name, slices.Concat(counts.Names, counts.Prefixes))
			verb := "counts no "
			if path[0].Name == "profiles" {
				verb = "has no "
			}
			before, _, _ := strings.Cut(e.Text, name)
			e.Report(c.src, utf8.RuneCountInString(before), "output", hint, "`"+of.ID+"` "+verb+path[0].Name+" by the name `"+name+"`")
		}
	}
}
