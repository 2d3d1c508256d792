package dsl

import (
	"fmt"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Pools returns the pools that the pipeline's own steps may use, each with the first step in the document that does so.
func (p *Program) Pools() map[string]string {
	used := map[string]string{}
	for _, s := range p.steps {
		placed := s.placed()
		if placed == nil {
			continue
		}
		for _, pool := range placed.Pool {
			if used[pool] == "" {
				used[pool] = s.ID
			}
		}
	}
	return used
}

// Training returns what is known of a training step before any expression is evaluated.
func (p *Program) Training(id string) (*spec.Train, error) {
	s, err := p.step(id)
	if err != nil {
		return nil, err
	}
	train, ok := s.known.(*spec.Train)
	if !ok {
		return nil, fmt.Errorf("step `%s` of %s does not train", id, p.pipeline.Name)
	}
	return train, nil
}
