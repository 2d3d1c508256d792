package dsl

import (
	"slices"

	"github.com/google/cel-go/common/ast"

	"github.com/sluiceml/sluice/store/artifact"
)

// checkGates reports releases and publications that no gate holds back.
func (c *checker) checkGates() {
	for _, s := range c.steps {
		if rollout, ok := s.known.(*Rollout); ok && !rollout.Ungated {
			c.checkRelease(s)
		}
		if len(s.Publish) > 0 {
			c.checkPublish(s)
		}
	}
}

// checkRelease reports a rollout that a gate does not hold back: it must wait for a gated step, and for every gated step that
// judges the model it releases, or one it was made from.
func (c *checker) checkRelease(s *step) {
	before := c.ancestors(s, func(n Need) bool { return n == NeedPassed })
	lineage := c.modelLineage(s)
	gated := slices.ContainsFunc(c.steps, func(up *step) bool { return before[up.ID] && up.holdsBack(lineage[up.ID]) })
	at := keyNode(s.node, string(KindRollout))
	if !gated {
		c.src.errorf(at, "ungated", "gate a step it waits for, or say `ungated: true`", "`%s` changes live traffic and waits for no gate", s.ID)
		return
	}
	for _, judge := range c.steps {
		if judge == s || judge.section != s.section || len(judge.gates) == 0 || before[judge.ID] || !slices.Contains(judges, judge.Kind) {
			continue
		}
		if model := c.judged(judge, lineage); model != "" {
			c.src.errorf(at, "ungated", "add `needs: ["+judge.ID+"]` to `"+s.ID+"`",
				"`%s` releases the model of `%s` and does not wait for the gate of `%s`, which judges it", s.ID, model, judge.ID)
		}
	}
}

// holdsBack reports whether a step judges what goes on after it: by a gate, or by asking a person. Where none of its instances must pass
// it holds nothing back, but a step that takes one of those that did.
func (s *step) holdsBack(takesInstance bool) bool {
	return (len(s.gates) > 0 || s.Kind == KindApproval) && (!s.listed() || s.Require > 0 || takesInstance)
}

// judges are the kinds that may judge a model by a gate.
var judges = []Kind{KindEvaluate, KindRun, KindPipeline}

func (c *checker) checkPublish(s *step) {
	if len(s.gates) > 0 {
		return
	}
	before := c.ancestors(s, func(n Need) bool { return n == NeedPassed })
	if !slices.ContainsFunc(c.steps, func(up *step) bool { return before[up.ID] && up.holdsBack(false) }) {
		c.src.errorf(keyNode(s.node, "publish"), "ungated", "add a `gate` to `"+s.ID+"`", "`%s` publishes what no gate has judged", s.ID)
	}
}

// modelLineage returns the steps whose models went into what s uses: those s reads a model of, and so on.
func (c *checker) modelLineage(s *step) map[string]bool {
	seen := map[string]bool{}
	todo := []*step{s}
	for len(todo) > 0 {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, e := range at.exprs {
			for _, id := range c.modelsOf(e) {
				if !seen[id] && id != at.ID {
					seen[id] = true
					todo = append(todo, c.byID[id])
				}
			}
		}
	}
	return seen
}

// judged returns the step of lineage whose model the judge reads.
func (c *checker) judged(judge *step, lineage map[string]bool) string {
	for _, e := range judge.exprs {
		for _, id := range c.modelsOf(e) {
			if lineage[id] {
				return id
			}
		}
	}
	return ""
}

// modelsOf returns the steps whose models an expression reads.
func (c *checker) modelsOf(e *expression) []string {
	var ids []string
	for _, r := range e.refs {
		if r.path[0].name != "steps" || len(r.path) < 2 || c.byID[r.path[1].name] == nil {
			continue
		}
		s := c.byID[r.path[1].name]
		if s.listed() && e.readsModel() || c.leadsToModel(r) {
			ids = append(ids, s.ID)
		}
	}
	return ids
}

// leadsToModel reports whether a reference reads a model on its way.
func (c *checker) leadsToModel(r reference) bool {
	x := &explainer{ts: c.ts, vars: c.vars}
	for end := len(r.path); end > 2; end-- {
		if o := x.objectAt(r.path[:end]); o != nil && o.name == string(artifact.Model) {
			return true
		}
	}
	return false
}

// readsModel reports whether any part of the expression is a model, as what is picked from a list of instances may be.
func (e *expression) readsModel() bool {
	found := false
	if e.ok {
		ast.PreOrderVisit(e.tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
			found = found || e.tree.GetType(x.ID()).TypeName() == objectPrefix+string(artifact.Model)
		}))
	}
	return found
}
