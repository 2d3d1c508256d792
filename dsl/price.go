package dsl

import (
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// unpriced is a step whose cost may turn out to be unknown.
type unpriced struct {
	step  string
	pools []string // those without a price
	all   bool     // that it may be in
	free  bool     // they are of this machine: it costs nothing
}

// rank orders steps by how much of the cost of their run cannot be known.
func (u *unpriced) rank() int {
	switch {
	case u == nil:
		return 0
	case u.free:
		return 1
	case !u.all:
		return 2
	}
	return 3
}

// severity is that of a limit of the cost.
func (u *unpriced) severity() document.Severity {
	if u.free || !u.all {
		return document.SeverityWarning
	}
	return document.SeverityError
}

func (u *unpriced) why() string {
	switch {
	case u.free:
		return "`" + u.step + "` runs in a local pool without a price, whose nodes cost nothing"
	case u.all:
		return "`" + u.step + "` runs in a pool without a price"
	}
	return "`" + u.step + "` may run in a pool without a price"
}

func (u *unpriced) hint() string {
	return "give `" + strings.Join(u.pools, "` and `") + "` a `usd_per_hour` in the environment, for each capacity type that the step may use there"
}

// unpricedStep returns a step of the pipeline, or of its children, that may be in a pool without a price: that of the highest rank, the first in
// the document; nil when there is none. EC2 is asked for its prices.
func (c *checker) unpricedStep() *unpriced {
	var found *unpriced
	for _, s := range c.steps {
		one := c.unpricedPools(s)
		if child := c.compiled[s]; child != nil && child.unpriced != nil {
			of := *child.unpriced
			of.step, one = s.ID, &of
		}
		if one.rank() > found.rank() {
			found = one
		}
	}
	return found
}

func (c *checker) unpricedPools(s *step) *unpriced {
	placed := s.placed()
	if placed == nil || c.env == nil {
		return nil
	}
	one, local := &unpriced{step: s.ID}, &unpriced{step: s.ID, free: true}
	for _, name := range placed.Pool {
		pool := c.env.Pools[name]
		isUnknown := func(capacity string) bool { return placed.Buys(capacity) && pool.USDPerHour.Of(capacity) == 0 }
		switch known := !slices.ContainsFunc(pool.Sells(), isUnknown); {
		case known:
		case pool.Kubernetes != nil:
			one.pools = append(one.pools, name)
		case pool.Local != nil:
			local.pools = append(local.pools, name)
		}
	}
	switch {
	case len(one.pools) > 0:
		one.all = len(one.pools) == len(placed.Pool)
		return one
	case len(placed.Pool) > 0 && len(local.pools) == len(placed.Pool):
		return local
	}
	return nil
}

// checkCosts reports a budget, and expressions that read the cost of the run, if the cost cannot be known; it warns if that depends on
// which of its pools a step uses.
func (c *checker) checkCosts() {
	of := c.unpricedStep()
	isPaid := func(s *step) bool {
		return s.onPool() || s.info().programs == programsOnPool || isA[*spec.ChildPipeline](s)
	}
	if at := document.Lookup(c.root, "budget"); at != nil && !c.src.Findings.HasErrorAt(at) && !slices.ContainsFunc(c.steps, isPaid) && len(c.unreadable) == 0 {
		c.src.Warnf(document.KeyNode(c.root, "budget"), "price", "remove it, or run a step on a `pool`", "nothing in this pipeline costs anything: all steps run beside the worker")
	}
	if at := document.KeyNode(c.root, "budget"); of != nil && document.Lookup(c.root, "budget") != nil {
		c.src.Add(of.severity(), at.Line, at.Column, "price", of.hint(), "the budget cannot be enforced: "+of.why())
	}
	for _, s := range c.steps {
		for _, e := range s.exprs {
			for _, r := range e.Refs {
				if r.Path[0].Name == "run" && len(r.Path) > 1 && r.Path[1].Name == "cost" && of != nil {
					line, col := e.Locate(c.src, r)
					c.src.Add(of.severity(), line, col, "price", of.hint(), "the cost of the run is not known: "+of.why())
				}
				if step := c.costOf(s, e, r); step != nil && c.unpricedPools(step) != nil {
					of := c.unpricedPools(step)
					line, col := e.Locate(c.src, r)
					c.src.Add(of.severity(), line, col, "price", of.hint(), "its cost is not known: "+of.why())
				}
			}
		}
	}
}

// costOf returns the training whose `cost_usd` an expression of s reads by a reference, or nil.
func (c *checker) costOf(s *step, e *expr.Expression, r expr.Reference) *step {
	switch isCost := func(seg expr.Segment) bool { return seg.Name == costOutput }; {
	case isCost(r.Path[0]):
	case r.Path[0].Name != "steps" || len(r.Path) < 2 || c.byID[r.Path[1].Name] == nil:
		return nil
	case slices.ContainsFunc(r.Path[2:], isCost), c.byID[r.Path[1].Name].listed() && strings.Contains(e.Text, costOutput):
		s = c.byID[r.Path[1].Name]
	default:
		return nil
	}
	if isA[*spec.Train](s) {
		return s
	}
	return nil
}

// costOutput is the output of a training with its cost.
const costOutput = "cost_usd"
