package dsl

import (
	"slices"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

// checkGates reports releases and publications without a gate.
func (c *checker) checkGates() {
	for _, s := range c.steps {
		if rollout, ok := s.known.(*spec.Rollout); ok && !rollout.Ungated {
			c.checkRelease(s, "changes live traffic", "releases", true)
		}
		if child := c.compiled[s]; child != nil {
			c.checkChildRelease(s, child.effects)
		}
		if len(s.Publish) > 0 {
			c.checkPublish(s)
		}
	}
}

// effects are the releases and publications of a pipeline, by its own steps or those of its children.
type effects struct {
	releases, publishes bool
	gated               bool // some of it may not be done without a gate, which a rollout says by `ungated: true`
}

func (c *checker) effects() effects {
	var all effects
	for _, s := range c.steps {
		rollout, ok := s.known.(*spec.Rollout)
		all.add(effects{releases: ok, publishes: len(s.Publish) > 0, gated: ok && !rollout.Ungated || len(s.Publish) > 0})
		if child := c.compiled[s]; child != nil {
			all.add(child.effects)
		}
	}
	return all
}

func (e *effects) add(other effects) {
	e.releases, e.publishes, e.gated = e.releases || other.releases, e.publishes || other.publishes, e.gated || other.gated
}

// checkChildRelease applies the rules for a rollout to a child that releases or publishes an artifact of this pipeline: the gates inside
// the child do not count here. What the child produces itself is up to its own gates.
func (c *checker) checkChildRelease(s *step, does effects) {
	mustWait := does.gated && c.takesArtifact(s)
	switch {
	case does.releases:
		c.checkRelease(s, "changes live traffic, in its child,", "releases", mustWait)
	case does.publishes:
		c.checkRelease(s, "publishes, in its child,", "publishes", mustWait)
	}
}

// takesArtifact reports whether a step reads an artifact of another.
func (c *checker) takesArtifact(s *step) bool {
	for e, r := range s.references() {
		if r.Step() != "" && (c.leadsTo(r, expr.ArtifactTypes) || e.ReadsArtifact(expr.ArtifactTypes)) {
			return true
		}
	}
	return false
}

// checkRelease reports a step that releases a model without a gate: it must wait for every gated step that evaluates the model, or a model
// from which it was made, and, unless it is told otherwise, for at least one gated step.
func (c *checker) checkRelease(s *step, does, verb string, mustWait bool) {
	before := c.passedBefore(s)
	if model := document.Lookup(s.body, "model"); c.lacksNeeds(s) || model != nil && c.src.Findings.HasErrorAt(model) {
		return
	}
	lineage := c.modelLineage(s)
	gated := slices.ContainsFunc(c.steps, func(up *step) bool { return before[up] && up.holdsBack(lineage[up]) })
	at := s.kindKey()
	if !gated && mustWait {
		hint := "add a gate to a step that it waits for, or write `ungated: true`"
		if isA[*spec.ChildPipeline](s) {
			hint = "add a gate to a step that it waits for: the child's own gates do not evaluate what is passed to it"
		}
		c.src.Errorf(at, "ungated", hint, "`%s` %s but waits for no gate", s.ID, does)
		return
	}
	for _, judge := range c.steps {
		if judge == s || judge.section != s.section || len(judge.gates) == 0 || before[judge] || judge.info().verdict != verdictByGate {
			continue
		}
		if model := c.judged(judge, lineage); model != nil {
			c.src.Errorf(at, "ungated", "add `needs: ["+judge.ID+"]` to `"+s.ID+"`",
				"`%s` %s the model of `%s` but does not wait for the gate of `%s`, which evaluates it", s.ID, verb, model.ID, judge.ID)
		}
	}
}

// lacksNeeds reports whether needs of a step, or of one that it waits for, could not be read: it is not known what it waits for.
func (c *checker) lacksNeeds(s *step) bool {
	before := c.passedBefore(s)
	return slices.ContainsFunc(c.steps, func(up *step) bool {
		at := document.Lookup(up.node, "needs")
		return (up == s || before[up]) && (slices.Contains(c.d.MeantKeys(up.node), "needs") || at != nil && c.src.Findings.HasErrorAt(at))
	})
}

// holdsBack reports whether a step can stop the steps after it: by a gate, or by asking a person. If none of its instances has to pass, it
// stops only steps that use an instance that passed.
func (s *step) holdsBack(takesInstance bool) bool {
	return (s.judges() || s.info().verdict == verdictByPerson) && (!s.listed() || s.Require > 0 || takesInstance)
}

// judges reports whether a step has a gate that may be false.
func (s *step) judges() bool {
	return slices.ContainsFunc(s.gates, func(e *expr.Expression) bool { return !e.AlwaysTrue() })
}

func (c *checker) checkPublish(s *step) {
	if s.judges() || c.lacksNeeds(s) {
		return
	}
	before := c.passedBefore(s)
	if !slices.ContainsFunc(c.steps, func(up *step) bool { return before[up] && up.holdsBack(false) }) {
		hint, why := "add a `gate` to `"+s.ID+"`", "without a gate"
		if len(s.gates) > 0 {
			hint, why = "write a condition that can be false", "although its gate is never false"
		}
		c.src.Errorf(document.KeyNode(s.node, "publish"), "ungated", hint, "`%s` publishes %s", s.ID, why)
	}
}

// modelLineage returns the steps whose models went into what s uses: those s reads a model of, and so on.
func (c *checker) modelLineage(s *step) map[*step]bool { return upstream(s, c.modelsOf) }

// judged returns the step of lineage whose model the judge reads, or nil.
func (c *checker) judged(judge *step, lineage map[*step]bool) *step {
	for _, up := range c.modelsOf(judge) {
		if lineage[up] {
			return up
		}
	}
	return nil
}

// modelsOf returns the other steps whose models the expressions of a step read.
func (c *checker) modelsOf(s *step) []*step {
	var all []*step
	for e, r := range s.references() {
		up := c.byID[r.Step()]
		if up != nil && up != s && (up.listed() && e.ReadsArtifact(modelType) || c.leadsTo(r, modelType)) {
			all = append(all, up)
		}
	}
	return all
}

var modelType = []artifact.Type{artifact.Model}

// leadsTo reports whether a reference reads an artifact of some type on its way.
func (c *checker) leadsTo(r expr.Reference, kinds []artifact.Type) bool {
	for end := len(r.Path); end > 2; end-- {
		if o := c.ts.ObjectAt(c.vars, r.Path[:end]); o != nil && slices.Contains(kinds, artifact.Type(o.Name)) {
			return true
		}
	}
	return false
}
