package dsl

import (
	"encoding/json"
	"slices"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Outside is a value that may change while a run works: `last`, or what a target serves. Target is empty for `last`, and for `serving` where
// it is read as a whole.
type Outside struct{ Root, Target string }

// outsideOf returns the outside value that a reference reads; has is false if it reads none. isPart is set if it reads something of a step
// there.
func outsideOf(r expr.Reference) (of Outside, isPart, has bool) {
	switch root := r.Path[0].Name; {
	case root == "last":
		return Outside{Root: root}, len(r.Path) > 2, true
	case root == "serving" && len(r.Path) > 1:
		return Outside{root, r.Path[1].Name}, len(r.Path) > 3, true
	case root == "serving":
		return Outside{Root: root}, false, true
	}
	return Outside{}, false, false
}

// Outside lists the outside values that a step reads.
func (p *Program) Outside(id string) (all []Outside) {
	for _, e := range p.byID[id].exprs {
		for _, r := range e.Refs {
			if of, _, has := outsideOf(r); has && !slices.Contains(all, of) {
				all = append(all, of)
			}
		}
	}
	return all
}

// Reads returns what a step reads of outside values, by how it is written: its gate, or, given a target, everything else in the step of what
// that target serves. Of an expression that reads such a value as a whole it is what the expression makes of it.
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
			of, isPart, has := outsideOf(r)
			if !has || target != "" && (of.Root != "serving" || of.Target != target && of.Target != "") {
				continue
			}
			value, values := e.Reads(names)
			if isPart {
				read[r.String()] = values[r.String()]
			} else {
				read[e.Text] = value
			}
		}
	}
	return read
}
