package dsl

import (
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/nearest"
)

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
			hint := nearest.Hint(name, slices.Concat(counts.Names, counts.Prefixes))
			verb := "counts no "
			if path[0].Name == "profiles" {
				verb = "has no "
			}
			before, _, _ := strings.Cut(e.Text, name)
			e.Report(c.src, utf8.RuneCountInString(before), "output", hint, "`"+of.ID+"` "+verb+path[0].Name+" by the name `"+name+"`")
		}
	}
}
