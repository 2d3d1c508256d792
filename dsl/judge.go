package dsl

import (
	"encoding/json"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Judge evaluates a step's gate over its outputs; of a step that fans out, over those of the instance v names. The verdict is pass
// only when every check holds; a check that cannot be evaluated makes it error, never pass. It is hold when a person may let pass all
// that does not hold. Without a gate there are no checks and the verdict is pass.
func (p *Program) Judge(id string, outputs json.RawMessage, v spec.Vars) ([]spec.Check, spec.Verdict) {
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
		check := spec.Check{Expression: e.text, Message: gate.Message, OnFail: gate.OnFail, Line: e.node.Line}
		if gate.OnFail == spec.OnFailHold {
			check.Hold = &gate.Hold
		}
		holds, values, err := e.judge(names)
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

// worse is the verdict with one more check: error is worse than fail, fail than hold, hold than pass.
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

// takeOwn makes the step's outputs the names a gate sees.
func (n *names) takeOwn(outputs json.RawMessage) {
	own, err := n.p.ts.decode(objectNamed("steps."+n.step.ID), outputs)
	if err != nil {
		n.broken = err
	}
	n.own, _ = own.(*object)
}

// judge evaluates a bool expression and returns what its references were.
func (e *expression) judge(names cel.Activation) (holds bool, values map[string]any, err error) {
	v, evaluation, err := e.watch(names)
	values = e.seen(evaluation)
	if err != nil {
		return false, values, e.explain(err)
	}
	b, ok := v.(types.Bool)
	return ok && bool(b), values, nil
}

// seen collects the values that an evaluation had for the expression's references. What was absent says so; what a short circuit
// left alone is left out.
func (e *expression) seen(in *evaluation) map[string]any {
	if in == nil {
		return nil
	}
	values := make(map[string]any, len(e.refs))
	for _, r := range e.refs {
		v, ok := in.Value(r.id)
		if !ok {
			continue
		}
		values[r.String()] = shown(v)
	}
	return values
}

func shown(v ref.Val) any {
	switch v := v.(type) {
	case *types.Optional:
		if !v.HasValue() {
			return "absent"
		}
		return shown(v.GetValue())
	case *types.Err:
		return "absent"
	}
	native, err := jsonValue(v)
	if err != nil {
		return v.Type().TypeName()
	}
	return native
}
