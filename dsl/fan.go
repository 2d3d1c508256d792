package dsl

import (
	"encoding/json"
	"errors"
)

// Expand lists the instances of a step with a matrix or a foreach, in a fixed order.
func (p *Program) Expand(id string, v Vars) ([]Instance, error) {
	return nil, errors.New("not in this version yet")
}

// When evaluates a step's `when`; it holds when the step has none. Values are what it read, for people.
func (p *Program) When(id string, v Vars) (holds bool, values map[string]any, err error) {
	return false, nil, errors.New("not in this version yet")
}

// Until evaluates the condition that ends a repeat over the outputs of an iteration.
func (p *Program) Until(id string, outputs json.RawMessage, v Vars) (bool, error) {
	return false, errors.New("not in this version yet")
}
