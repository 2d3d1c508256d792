package dsl

import (
	"cmp"
	"maps"
	"slices"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
)

// constantGroup is the pipeline's concurrency group; empty when it has none, or when it depends on params.
func (c *checker) constantGroup() string {
	group, _ := c.concurrency.Get("group").(expr.Literal)
	name, _ := group.Value.(string)
	return name
}

// member is a pipeline in a concurrency group, and whether its runs wait for their turn.
type member struct {
	pipeline string
	waits    bool
}

// orders are pairs of groups of which a run holds the first while a child of it may wait for the second, with the pipelines of the two. The
// pipeline that is being checked has no name yet.
type orders map[[2]string][2]string

// cycle returns the orders of a cycle in which each run waits for the next one; none if there is no cycle.
func (o orders) cycle() [][2]string {
	all := slices.SortedFunc(maps.Keys(o), func(a, b [2]string) int { return cmp.Or(cmp.Compare(a[0], b[0]), cmp.Compare(a[1], b[1])) })
	seen := map[string]bool{}
	var find func(path [][2]string) [][2]string
	find = func(path [][2]string) [][2]string {
		first, last := path[0][0], path[len(path)-1][1]
		if first == last {
			return path
		}
		for _, next := range all {
			if next[0] == last && !seen[next[1]] {
				seen[next[1]] = true
				if found := find(append(path, next)); found != nil {
					return found
				}
			}
		}
		return nil
	}
	for _, order := range all {
		clear(seen)
		if found := find([][2]string{order}); found != nil {
			return found
		}
	}
	return nil
}

// checkGroups reports a child that is to wait for a group which the run that waits for it holds, and groups that are taken in a circle. It notes
// the groups of the child.
func (c *checker) checkGroups(s *step, ch *compiledChild) {
	own := c.constantGroup()
	at := cmp.Or(document.Lookup(s.body, "file"), document.KeyNode(s.body, "steps"))
	if same, taken := ch.groups[own]; taken {
		c.src.Errorf(at, "deadlock", "give it a group of its own, or none",
			"%s is in the concurrency group of this pipeline, whose runs hold it until their children have ended", same.pipeline)
	}
	before := c.orders.cycle() != nil || ch.orders.cycle() != nil
	maps.Copy(c.orders, ch.orders)
	for group, in := range ch.groups {
		in.waits = in.waits || c.groups[group].waits
		c.groups[group] = in
		if own != "" && own != group && in.waits {
			c.orders[[2]string{own, group}] = [2]string{"", in.pipeline}
		}
	}
	cycle := c.orders.cycle()
	if before || cycle == nil {
		return // or reported
	}
	what := ""
	for i, order := range cycle {
		names := c.orders[order]
		if i > 0 {
			what += ", and "
		}
		what += cmp.Or(names[0], "this pipeline") + " holds the group `" + order[0] + "` while its child " + names[1] + " waits for `" + order[1] + "`"
	}
	c.src.Errorf(at, "deadlock", "let all pipelines take the groups in the same order", "runs would wait for each other forever: %s", what)
}
