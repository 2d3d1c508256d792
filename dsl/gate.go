package dsl

import (
	"encoding/json"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// EvaluateGate evaluates a step's gate over its outputs, or over those of the instance in v. The verdict is pass only if every check is
// true. A check that cannot be evaluated makes it error, never pass. It is hold if a person may approve all checks that are not true.
// Without a gate there are no checks and the verdict is pass.
func (p *Program) EvaluateGate(id string, outputs json.RawMessage, v spec.Vars) ([]spec.Check, spec.Verdict) {
	s, err := p.step(id)
	if err != nil {
		return []spec.Check{{Verdict: spec.VerdictError, Error: err.Error()}}, spec.VerdictError
	}
	names := p.names(s, v)
	names.takeOwn(outputs)
	verdict := spec.VerdictPass
	checks := make([]spec.Check, len(s.gates))
	for i, e := range s.gates {
		gate := s.Gate[i]
		check := spec.Check{Expression: e.Text, Message: gate.Message, OnFail: gate.OnFail, Line: e.Node.Line}
		if gate.OnFail == spec.OnFailHold {
			check.Hold = &gate.Hold
		}
		holds, values, err := e.Holds(names)
		check.Values = values
		switch {
		case err != nil:
			check.Verdict, check.Error = spec.VerdictError, err.Error()
		case holds:
			check.Verdict = spec.VerdictPass
		default:
			check.Verdict = spec.VerdictFail
		}
		checks[i] = check
		verdict = worse(verdict, check)
	}
	return checks, verdict
}

// worse combines a verdict with one more check: error is worse than fail, fail than hold, and hold than pass.
func worse(v spec.Verdict, c spec.Check) spec.Verdict {
	switch {
	case c.Verdict == spec.VerdictError:
		return spec.VerdictError
	case c.Verdict == spec.VerdictPass || v == spec.VerdictError || v == spec.VerdictFail:
		return v
	case c.OnFail == spec.OnFailHold:
		return spec.VerdictHold
	}
	return spec.VerdictFail
}

// takeOwn makes the step's outputs available to its gate by their plain names.
func (n *names) takeOwn(outputs json.RawMessage) {
	own, err := n.p.ts.Decode(expr.ObjectNamed("steps."+n.step.ID), outputs)
	if err != nil {
		n.broken = err
	}
	n.own, _ = own.(*expr.Object)
}
