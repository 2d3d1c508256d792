package dsl

import (
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// unpriced is a step whose cost may turn out to be unknown.
type unpriced struct {
	step  string
	pools []string // those without a price
	all   bool     // that it may be in
}

// unpricedStep returns a step of the pipeline, or of its children, that may be in a pool without a price: rather one that has no
// other pools than the first in the document; nil when there is none. On this machine nothing is paid for, and EC2 is asked for its prices.
func (c *checker) unpricedStep() *unpriced {
	var found *unpriced
	for _, s := range c.steps {
		one := c.unpricedPools(s)
		if child := c.compiled[s]; child != nil && child.unpriced != nil {
			one = &unpriced{s.ID, child.unpriced.pools, child.unpriced.all}
		}
		if one != nil && (found == nil || one.all && !found.all) {
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
	one := &unpriced{step: s.ID}
	for _, name := range placed.Pool {
		pool := c.env.Pools[name]
		isUnknown := func(capacity string) bool { return placed.Buys(capacity) && pool.USDPerHour.Of(capacity) == 0 }
		if pool.Kubernetes != nil && slices.ContainsFunc(pool.Sells(), isUnknown) {
			one.pools = append(one.pools, name)
		}
	}
	if len(one.pools) == 0 {
		return nil
	}
	one.all = len(one.pools) == len(placed.Pool)
	return one
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
	if of == nil {
		return
	}
	severity, why := document.SeverityError, "`"+of.step+"` runs in a pool without a price"
	if !of.all {
		severity, why = document.SeverityWarning, "`"+of.step+"` may run in a pool without a price"
	}
	hint := "give `" + strings.Join(of.pools, "` and `") + "` a `usd_per_hour` in the environment, for each capacity type that the step may use there"
	if document.Lookup(c.root, "budget") != nil {
		at := document.KeyNode(c.root, "budget")
		c.src.Add(severity, at.Line, at.Column, "price", hint, "the budget cannot be enforced: "+why)
	}
	for _, s := range c.steps {
		for _, e := range s.exprs {
			for _, r := range e.Refs {
				if r.Path[0].Name == "run" && len(r.Path) > 1 && r.Path[1].Name == "cost" {
					line, col := e.Locate(c.src, r)
					c.src.Add(severity, line, col, "price", hint, "the cost of the run is not known: "+why)
				}
			}
		}
	}
}
