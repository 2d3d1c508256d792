package dsl

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/traits"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Expand lists the instances of a step with a matrix or a foreach, in a fixed order. There may be none, and at most 100,000.
func (p *Program) Expand(id string, v spec.Vars) ([]spec.Instance, error) {
	s, err := p.step(id)
	if err != nil {
		return nil, err
	}
	v.Instance = nil
	names := p.names(s, v)
	var instances []spec.Instance
	switch s.fan {
	case spec.FanMatrix:
		instances, err = s.expandMatrix(names)
	case spec.FanForeach:
		instances, err = s.expandForeach(names)
	default:
		err = errors.New("the step has neither a matrix nor a foreach")
	}
	if err != nil {
		return nil, fmt.Errorf("step `%s`: %s: %w", id, s.fan, err)
	}
	return instances, nil
}

func (s *step) expandMatrix(names *names) ([]spec.Instance, error) {
	all, err := s.matrix.Combinations(names)
	if err != nil {
		return nil, err
	}
	instances := make([]spec.Instance, len(all))
	for i, c := range all {
		raw, err := spec.Encode(c)
		if err != nil {
			return nil, err
		}
		instances[i] = spec.Instance{Index: i, Matrix: raw}
	}
	return instances, nil
}

func (s *step) expandForeach(names *names) ([]spec.Instance, error) {
	v, err := s.foreach.Eval(names)
	if err != nil {
		return nil, err
	}
	items, ok := v.(traits.Lister)
	if !ok {
		return nil, fmt.Errorf("this is %s, not a list", spec.Article(v.Type().TypeName()))
	}
	if size, ok := items.Size().(types.Int); ok && size > maxInstances {
		return nil, errTooMany
	}
	instances := []spec.Instance{}
	for it := items.Iterator(); it.HasNext() == types.True; {
		item, err := expr.JSONValue(it.Next())
		if err != nil {
			return nil, fmt.Errorf("item %d: %w", len(instances), err)
		}
		if item == nil {
			return nil, fmt.Errorf("item %d is null", len(instances))
		}
		raw, err := spec.Encode(item)
		if err != nil {
			return nil, err
		}
		instances = append(instances, spec.Instance{Index: len(instances), Item: raw})
	}
	return instances, nil
}

// When evaluates a step's `when`; holds is true if the step has none. values are the values that it read, for people.
func (p *Program) When(id string, v spec.Vars) (holds bool, values map[string]any, err error) {
	s, err := p.step(id)
	if err != nil {
		return false, nil, err
	}
	v.Instance = nil
	return s.evaluateWhen(p.names(s, v))
}

func (s *step) evaluateWhen(names *names) (holds bool, values map[string]any, err error) {
	if s.when == nil {
		return true, nil, nil
	}
	if holds, values, err = s.when.Holds(names); err != nil {
		return false, values, fmt.Errorf("step `%s`: when: %w", s.ID, err)
	}
	return holds, values, nil
}

// Until evaluates the condition that ends a `repeat` over the outputs of the iteration in v.Instance.
func (p *Program) Until(id string, outputs json.RawMessage, v spec.Vars) (bool, error) {
	s, err := p.step(id)
	if err != nil {
		return false, err
	}
	if s.until == nil {
		return false, fmt.Errorf("step `%s` has no repeat", id)
	}
	names := p.names(s, v)
	names.takeOwn(outputs)
	holds, _, err := s.until.Holds(names)
	if err != nil {
		return false, fmt.Errorf("step `%s`: until: %w", id, err)
	}
	return holds, nil
}

func (p *Program) step(id string) (*step, error) {
	if s := p.byID[id]; s != nil {
		return s, nil
	}
	return nil, fmt.Errorf("there is no step `%s` in %s", id, p.pipeline.Name)
}
