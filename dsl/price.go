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
	which whichPools
}

// whichPools of a step have no price, in the order of how much of the cost of its run cannot be known.
type whichPools int

const (
	noPool     whichPools = iota
	localPools            // all are of this machine: they cost nothing
	somePools             // of those that the step may be in
	allPools
)

// severity is that of a limit of the cost.
func (u unpriced) severity() document.Severity {
	if u.which == allPools {
		return document.SeverityError
	}
	return document.SeverityWarning
}

func (u unpriced) why() string {
	switch {
	case u.which == localPools:
		return "`" + u.step + "` runs in a local pool without a price, whose nodes cost nothing"
	case u.which == allPools:
		return "`" + u.step + "` runs in a pool without a price"
	}
	return "`" + u.step + "` may run in a pool without a price"
}

func (u unpriced) hint() string {
	return "give `" + strings.Join(u.pools, "` and `") + "` a `usd_per_hour` in the environment, for each capacity type that the step may use there"
}

// unpricedStep returns the step of the pipeline, or of its children, of whose cost the least can be known, the first in the document; the zero
// one when all costs are known. EC2 is asked for its prices.
func (c *checker) unpricedStep() (found unpriced) {
	for _, s := range c.steps {
		one := c.unpricedPools(s)
		if child := c.compiled[s]; child != nil && child.unpriced.which != noPool {
			one = child.unpriced
			one.step = s.ID
		}
		if one.which > found.which {
			found = one
		}
	}
	return found
}

func (c *checker) unpricedPools(s *step) unpriced {
	placed := s.placed()
	if placed == nil || c.env == nil {
		return unpriced{}
	}
	var bought, local []string
	for _, name := range placed.Pool {
		pool := c.env.Pools[name]
		isUnknown := func(capacity string) bool { return placed.Buys(capacity) && pool.USDPerHour.Of(capacity) == 0 }
		switch known := !slices.ContainsFunc(pool.Sells(), isUnknown); {
		case known:
		case pool.Kubernetes != nil:
			bought = append(bought, name)
		case pool.Local != nil:
			local = append(local, name)
		}
	}
	switch all := len(placed.Pool); {
	case len(bought) > 0 && len(bought) == all:
		return unpriced{s.ID, bought, allPools}
	case len(bought) > 0:
		return unpriced{s.ID, bought, somePools}
	case len(local) > 0 && len(local) == all:
		return unpriced{s.ID, local, localPools}
	}
	return unpriced{}
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
	if at := document.KeyNode(c.root, "budget"); of.which != noPool && document.Lookup(c.root, "budget") != nil {
		c.src.Add(of.severity(), at.Line, at.Column, "price", of.hint(), "the budget cannot be enforced: "+of.why())
	}
	for _, s := range c.steps {
		for e, r := range s.references() {
			if r.Path[0].Name == "run" && len(r.Path) > 1 && r.Path[1].Name == "cost" && of.which != noPool {
				e.AddAtReference(c.src, of.severity(), r, "price", of.hint(), "the cost of the run is not known: "+of.why())
			}
			if step := c.costOf(s, e, r); step != nil {
				if of := c.unpricedPools(step); of.which != noPool {
					e.AddAtReference(c.src, of.severity(), r, "price", of.hint(), "its cost is not known: "+of.why())
				}
			}
		}
	}
}

// costOf returns the training whose `cost_usd` an expression of s reads by a reference, or nil.
func (c *checker) costOf(s *step, e *expr.Expression, r expr.Reference) *step {
	isCost := func(seg expr.Segment) bool { return seg.Name == costOutput }
	if !isCost(r.Path[0]) {
		s = c.byID[r.Step()]
		if s == nil || !slices.ContainsFunc(r.Path[2:], isCost) && !(s.listed() && strings.Contains(e.Text, costOutput)) {
			return nil
		}
	}
	if !isA[*spec.Train](s) {
		return nil
	}
	return s
}

// costOutput is the output of a training with its cost.
const costOutput = "cost_usd"
