package dsl

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/inputpath"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

// names resolves the names in an expression when they are needed, so that outputs which nothing reads are never decoded.
type names struct {
	p      *Program
	step   *step // whose expression it is; nil for the pipeline's outputs
	vars   spec.Vars
	own    *expr.Object // the step's own outputs, in a gate
	broken error        // why own could not be read
	cache  map[string]any
}

func (p *Program) names(s *step, v spec.Vars) *names {
	return &names{p: p, step: s, vars: v, cache: map[string]any{}}
}

// Knows reports a step that an expression reads and whose end is unknown here. That an expression reads it as optional is no excuse: an
// unknown end does not mean absent outputs.
func (n *names) Knows(refs []expr.Reference) error {
	for _, r := range refs {
		id := r.Step()
		if _, ok := n.vars.Steps[id]; id != "" && !ok {
			return fmt.Errorf("`%s` reads how `%s` ended, which is not known here", r, id)
		}
	}
	return nil
}

// Parent implements cel.Activation.
func (n *names) Parent() cel.Activation { return nil }

// ResolveName implements cel.Activation.
func (n *names) ResolveName(name string) (any, bool) {
	if v, ok := n.cache[name]; ok {
		return v, true
	}
	v, err := n.value(name)
	if err != nil {
		v = types.WrapErr(err)
	}
	if v == nil {
		return nil, false
	}
	n.cache[name] = v
	return v, true
}

func (n *names) value(name string) (ref.Val, error) {
	ts := n.p.ts
	switch name {
	case "params":
		return n.params(), nil
	case "steps":
		return n.steps(n.vars.Steps), nil
	case "run":
		return n.run(), nil
	case "last":
		if n.vars.Last == nil {
			return types.OptionalNone, nil
		}
		return types.OptionalOf(n.earlier(n.vars.Last)), nil
	case "serving":
		// CEL takes a selection from an optional to be optional itself. Each target is one by its type, and so it is by its value.
		return types.OptionalOf(ts.NewLazyObject("serving", func(target string) (ref.Val, error) {
			if steps := n.vars.Serving[target]; steps != nil {
				return n.earlier(steps), nil
			}
			return nil, nil
		})), nil
	case "datasets":
		return published(ts, expr.ObjectNamed("dataset"), n.vars.Datasets)
	case "models":
		return published(ts, expr.ObjectNamed("model"), n.vars.Models)
	case "inputs":
		return n.inputs()
	}
	if n.step != nil && n.step.instance[name] != nil {
		return n.instance(name)
	}
	switch {
	case n.broken != nil:
		return nil, n.broken
	case n.own == nil:
		return nil, errors.New("the step left no outputs")
	}
	return n.own.AsName(name)
}

// run holds the facts of the run, of which some are known when the main steps have ended.
func (n *names) run() *expr.Object {
	ts, r := n.p.ts, n.vars.Run.Complete()
	name, facts := "run", map[string]ref.Val{
		"id": types.String(r.ID), "attempt": types.IntOne, "started_at": types.Timestamp{Time: r.StartedAt},
		"scheduled_at": types.Timestamp{Time: r.ScheduledAt}, "trigger": triggerValue(ts, r.Trigger),
	}
	cost := map[string]ref.Val{}
	if !r.CostUnknown { // a check that asks for what nobody knows is an error, and never holds
		cost["usd"] = types.Double(r.CostUSD)
	}
	facts["cost"] = ts.NewObject("cost", cost)
	if n.step != nil && n.step.section != spec.SectionMain {
		failed := make([]ref.Val, len(r.Failed))
		for i, f := range r.Failed {
			failed[i] = ts.NewObject("FailedStep", map[string]ref.Val{"step": types.String(f.Step), "error": types.String(f.Error), "type": types.String(f.Type)})
		}
		name, facts["status"], facts["failed"] = endedRun, types.String(r.Status), types.NewRefValList(ts, failed)
	}
	return ts.NewObject(name, facts)
}

// instance answers what one of a fanned-out step's sees of itself.
func (n *names) instance(name string) (ref.Val, error) {
	instance := n.vars.Instance
	if instance == nil {
		return nil, fmt.Errorf("`%s` is only defined in an instance", name)
	}
	raw := map[string]json.RawMessage{"matrix": instance.Matrix, "item": instance.Item, "previous": instance.Previous}[name]
	switch t := n.step.instance[name]; {
	case name == "index":
		return types.Int(instance.Index), nil
	case name != "previous":
		return n.p.ts.Decode(t, raw)
	default:
		v, err := n.p.ts.Decode(t.Parameters()[0], raw)
		if v == nil || err != nil {
			return types.OptionalNone, err
		}
		return types.OptionalOf(v), nil
	}
}

// params are read one by one: a long list costs only those that name it.
func (n *names) params() ref.Val {
	return n.p.ts.NewLazyObject("params", func(name string) (ref.Val, error) {
		v, ok := n.vars.Params[name]
		if !ok {
			return nil, nil
		}
		return valueOf(n.p.ts, expr.ParamType(n.p.pipeline.Params[name]), v)
	})
}

// steps returns the object with the results that passed.
func (n *names) steps(results map[string]spec.StepResult) *expr.Object {
	seen := map[string]ref.Val{}
	return n.p.ts.NewLazyObject("steps", func(id string) (ref.Val, error) {
		if v, ok := seen[id]; ok {
			return v, nil
		}
		result, ok := results[id]
		if !ok || result.Status != spec.StatusSucceeded {
			return nil, nil
		}
		v, err := n.p.decoded.of(id, result.Outputs, func() (ref.Val, error) {
			return n.p.ts.Decode(n.p.ts.Lookup("steps").Fields[id], result.Outputs)
		})
		if err != nil {
			return nil, fmt.Errorf("outputs of `%s`: %w", id, err)
		}
		seen[id] = v
		return v, nil
	})
}

// earlier is a run before this one.
func (n *names) earlier(steps map[string]spec.StepResult) *expr.Object {
	return n.p.ts.NewObject("earlier run", map[string]ref.Val{"steps": n.steps(steps)})
}

// inputs are the step's artifacts, each with the token that stands for its path until it is on a node.
func (n *names) inputs() (ref.Val, error) {
	inputs := expr.Under(n.step.spec, "inputs")
	fields := make(map[string]ref.Val, len(inputs.Keys))
	for i, name := range inputs.Keys {
		v, err := n.input(inputs.Values[i])
		if err != nil {
			return nil, err
		}
		if v == nil {
			continue
		}
		set, ok := v.(*expr.Object)
		if !ok {
			return nil, fmt.Errorf("inputs.%s is not an artifact", name)
		}
		fields[name] = n.p.ts.NewLazyObject("input", func(field string) (ref.Val, error) {
			if field != "path" {
				return set.Read(field)
			}
			digest, err := set.Field("digest")
			if err != nil {
				return nil, err
			}
			return types.String(inputpath.Token(name, fmt.Sprint(digest.Value()))), nil
		})
	}
	return n.p.ts.NewLazyObject("input", func(name string) (ref.Val, error) { return fields[name], nil }), nil
}

// input is the artifact of one input; nil when none was written there.
func (n *names) input(of expr.Value) (ref.Val, error) {
	switch of := of.(type) {
	case expr.Computed:
		return of.Expr.Eval(n)
	case expr.Literal: // of a step that is resolved alone
		given, ok := of.Value.(artifact.Ref)
		if !ok {
			return nil, nil
		}
		return valueOf(n.p.ts, expr.ObjectNamed(string(given.Type)), given)
	}
	return nil, nil
}
