package dsl

import (
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

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
