package dsl

import (
	"slices"
)

// checkGates reports gates that look at steps they do not wait for, and releases that no gate holds back.
func (c *checker) checkGates() {
	for _, s := range c.steps {
		c.checkGateScope(s)
		if rollout, ok := s.known.(*Rollout); ok && !rollout.Ungated {
			c.checkRelease(s)
		}
		if len(s.Publish) > 0 {
			c.checkPublish(s)
		}
	}
}

func (c *checker) checkGateScope(s *step) {
	var before map[string]bool
	for _, e := range s.gates {
		for _, r := range e.refs {
			if r.path[0].name != "steps" || len(r.path) < 2 || c.byID[r.path[1].name] == nil || r.path[1].name == s.ID {
				continue
			}
			if before == nil {
				before = c.ancestors(s, func(Need) bool { return true })
			}
			if id := r.path[1].name; !before[id] {
				e.report(c.src, e.offset(r.root), "gate-scope", "add `needs: ["+id+"]` to `"+s.ID+"`", "the gate of `"+s.ID+"` reads `"+id+"`, for which the step does not wait")
			}
		}
	}
}

// checkRelease reports a rollout that a gate does not hold back: it must wait for a gated step, and for every gated step that
// judges the model it releases, or one it was made from.
func (c *checker) checkRelease(s *step) {
	before := c.ancestors(s, func(n Need) bool { return n == NeedPassed })
	gated := slices.ContainsFunc(c.steps, func(up *step) bool { return before[up.ID] && up.holdsBack() })
	at := keyNode(s.node, string(KindRollout))
	if !gated {
		c.src.errorf(at, "ungated", "gate a step it waits for, or say `ungated: true`", "`%s` changes live traffic and waits for no gate", s.ID)
		return
	}
	lineage := c.modelLineage(s)
	for _, judge := range c.steps {
		if judge == s || len(judge.gates) == 0 || before[judge.ID] || judge.Kind != KindEvaluate && judge.Kind != KindRun {
			continue
		}
		if model := c.judged(judge, lineage); model != "" {
			c.src.errorf(at, "ungated", "add `needs: ["+judge.ID+"]` to `"+s.ID+"`",
				"`%s` releases the model of `%s` and does not wait for the gate of `%s`, which judges it", s.ID, model, judge.ID)
		}
	}
}

// holdsBack reports whether a step judges what goes on after it: by a gate, or by asking a person.
func (s *step) holdsBack() bool { return len(s.gates) > 0 || s.Kind == KindApproval }

func (c *checker) checkPublish(s *step) {
	before := c.ancestors(s, func(n Need) bool { return n == NeedPassed })
	if len(s.gates) == 0 && !slices.ContainsFunc(c.steps, func(up *step) bool { return before[up.ID] && up.holdsBack() }) {
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
			for _, r := range e.refs {
				if id := c.modelOf(r); id != "" && !seen[id] && id != at.ID {
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
		for _, r := range e.refs {
			if id := c.modelOf(r); lineage[id] {
				return id
			}
		}
	}
	return ""
}

// modelOf returns the step whose model a reference reads, or "".
func (c *checker) modelOf(r reference) string {
	if r.path[0].name != "steps" || len(r.path) < 3 || c.byID[r.path[1].name] == nil {
		return ""
	}
	x := &explainer{ts: c.ts, vars: c.vars}
	for end := len(r.path); end > 2; end-- {
		if o := x.objectAt(r.path[:end]); o != nil && o.name == "model" {
			return r.path[1].name
		}
	}
	return ""
}
