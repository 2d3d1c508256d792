package dsl

import (
	"slices"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// besideWorker are the resources that a step beside the worker may ask for: those of a kind whose command runs there.
func (s *step) besideWorker() []string {
	if s.info().programs != programsOnWorker {
		return nil
	}
	return []string{"cpu", "memory", "gpu"}
}

// placed is where the step's programs run; nil of a kind that does not say.
func (s *step) placed() *spec.Placement {
	if placed, ok := s.known.(interface{ Placed() *spec.Placement }); ok {
		return placed.Placed()
	}
	return nil
}

// onPool reports whether the step names pools.
func (s *step) onPool() bool {
	placed := s.placed()
	return placed != nil && placed.OnPool()
}

// checkPlacement checks a step that may name a pool and need not: with one it is asked for what the training is that does it there.
func checkPlacement(c *checker, s *step, train spec.Train) {
	checkTrainNeeds(&train, c, s)
	if document.Lookup(s.body, "pool") != nil {
		checkTrainPools(&train, c, s)
		return
	}
	checkWithinLimits(c, s, train.Resources)
	for key := range document.Entries(s.body, "resources") {
		if decode.HasKey(resourcesType, key.Value) && !slices.Contains(s.besideWorker(), key.Value) {
			c.src.Errorf(key, "pool", "name a `pool`", "`%s` only applies to nodes of a pool, and `%s` runs beside the worker", key.Value, s.ID)
		}
	}
	if document.Lookup(s.body, "capacity") != nil {
		c.src.Errorf(document.KeyNode(s.body, "capacity"), "pool", "name a `pool`, or remove it", "`%s` runs beside the worker, where no capacity is bought", s.ID)
	}
}
