package dsl

import (
	"encoding/json"
	"slices"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// ReadsOutside reports whether a step reads `last` or `serving`, which may change while a run works.
func (p *Program) ReadsOutside(id string) bool {
	return slices.ContainsFunc(p.byID[id].exprs, func(e *expr.Expression) bool { return slices.ContainsFunc(e.Refs, isOutside) })
}

func isOutside(r expr.Reference) bool { return r.Path[0].Name == "last" || r.Path[0].Name == "serving" }

// Reads returns what a step reads of `last` and `serving`, by how it is written: its gate, or, given a target, everything else in the step of
// what that target serves. Of an expression that reads such a value as a whole it is what the expression makes of it.
func (p *Program) Reads(id, target string, outputs json.RawMessage, v spec.Vars) map[string]any {
	s := p.byID[id]
	names := p.names(s, v)
	names.takeOwn(outputs)
	read := map[string]any{}
	for _, e := range s.exprs {
		if !e.OK || (e.Scope == expr.ScopeGate) != (target == "") {
			continue
		}
		for _, r := range e.Refs {
			isServing := r.Path[0].Name == "serving"
			if !isOutside(r) || target != "" && (!isServing || len(r.Path) > 1 && r.Path[1].Name != target) {
				continue
			}
			value, values := e.Reads(names)
			if len(r.Path) > 3 || len(r.Path) > 2 && !isServing {
				read[r.String()] = values[r.String()]
			} else {
				read[e.Text] = value
			}
		}
	}
	return read
}
