package dsl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/cron"
	"github.com/sluiceml/sluice/dsl/deadline"
	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// checkDeadline checks the deadline of a training, and that it can be planned for.
func checkDeadline(sp *spec.Train, c *checker, s *step) {
	node := document.Lookup(s.body, "deadline")
	if node == nil || sp.Deadline == nil {
		return
	}
	within, at := document.Lookup(node, "within"), document.Lookup(node, "at")
	switch {
	case within == nil && at == nil:
		c.src.Errorf(node, "deadline", "write `within: 2h`, or `at: \"07:00\"`", "the deadline of `%s` does not say when", s.ID)
	case within != nil && at != nil:
		c.src.Errorf(document.KeyNode(node, "at"), "deadline", "keep one of them", "a deadline is `within` a time or `at` a time of day, not both")
	}
	decode.Positive(c.src, node, "within")
	decode.Positive(c.src, node, "work")
	checkShortest(sp, c, s, within, document.Lookup(node, "work"))
	checkClock(c, at, document.Lookup(node, "timezone"))
	place := document.KeyNode(s.body, "deadline")
	if document.Lookup(s.body, "total_steps") == nil {
		c.src.Errorf(place, "deadline", "add `total_steps: N`, the steps of the whole job",
			"`%s` has a deadline but no `total_steps`, so the remaining work is not known", s.ID)
	}
	if sp.Capacity == spec.CapacitySpot {
		c.src.Warnf(place, "deadline", "write `capacity: auto`", "a deadline cannot be met with spot alone, which may not be available when needed")
	}
}

// checkShortest reports a deadline that is too short to be met.
func checkShortest(sp *spec.Train, c *checker, s *step, within, work *yaml.Node) {
	d := sp.Deadline
	if within == nil || d.Within == 0 {
		return
	}
	var start spec.Duration
	if c.env != nil {
		start = spec.Duration(deadline.StartWithin(sp, c.env.Pools))
	}
	help := fmt.Sprintf("write at least `within: %v`", start+d.Work)
	switch {
	case d.Work > d.Within:
		c.src.Errorf(within, "deadline", help,
			"the deadline of `%s` cannot be met: `work` says that the training takes %v on on-demand", s.ID, work.Value)
	case start > d.Within:
		if work == nil {
			help += ", and add the time that the training itself takes, which is not known without `work`"
		}
		c.src.Errorf(within, "deadline", help, "the deadline of `%s` cannot be met: nodes of its pools may take %v to be ready", s.ID, start)
	}
}

// checkClock checks the time of day, and the timezone that it is of.
func checkClock(c *checker, at, zone *yaml.Node) {
	if at != nil && !strings.Contains(at.Value, "${") {
		if _, err := time.Parse(spec.Clock, at.Value); err != nil {
			c.src.Errorf(at, "deadline", "write it as \"07:00\"", "%q is not a time of day", at.Value)
		}
	}
	switch {
	case zone == nil || strings.Contains(zone.Value, "${"):
	case at == nil:
		c.src.Errorf(zone, "deadline", "remove it", "`timezone` is only used with `at`")
	default:
		cron.CheckTimezone(c.src, zone)
	}
}

// checkCapacity reports a pool that offers no capacity type that the step may use.
func checkCapacity(sp *spec.Train, c *checker, s *step, pool string, place *yaml.Node) {
	sells := c.env.Pools[pool].Sells()
	if slices.ContainsFunc(sells, sp.Buys) {
		return
	}
	place = cmp.Or(document.Lookup(s.body, "capacity"), place, s.kindKey())
	c.src.Errorf(place, "capacity", fmt.Sprintf("write `capacity: auto`, or use a pool that offers %s", sp.Capacity),
		"`%s` may only use %s, but the pool `%s` offers %s", s.ID, sp.Capacity, pool, strings.Join(sells, ", "))
}
