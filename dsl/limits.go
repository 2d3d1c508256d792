package dsl

import (
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// checkLimits reports limits that leave no room for a single cleaning.
func checkLimits(src *document.Source, root *yaml.Node, env *spec.Environment) {
	if limit := env.Limits.Memory; limit > 0 && env.Clean.Memory > limit {
		src.Errorf(document.Lookup(root, "limits", "memory"), "range", "raise it, or lower `clean: {memory: ...}`",
			"`memory: %s` is less than the memory of one clean step, %s", limit, env.Clean.Memory)
	}
}

// checkWithinLimits reports a step beside the worker that would wait forever.
func checkWithinLimits(c *checker, s *step, wants spec.Resources) {
	if c.env == nil {
		return
	}
	if key, wanted, limit := c.env.Limits.Exceeded(wants); key != "" {
		c.src.Errorf(document.PlaceOf(s.body, "resources", key), "resources", "request less, name a `pool`, or raise the limit",
			"`%s` requests %s, but the environment `%s` allows %s beside a worker", s.ID, wanted, c.env.Name, limit)
	}
}
