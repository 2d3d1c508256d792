package dsl

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// checkClashes warns of steps that change the same thing, of which only the last is seen in the end.
func (c *checker) checkClashes() {
	releases, publishes := map[string]*step{}, map[string]*step{}
	for _, s := range c.steps {
		if s.when != nil {
			continue // perhaps one or the other runs
		}
		if sp, ok := s.known.(*spec.Rollout); ok && sp.Target != "" {
			c.checkSameTarget(s, releases[sp.Target], sp.Target)
			releases[sp.Target] = s
		}
		for _, output := range slices.Sorted(maps.Keys(s.Publish)) {
			name := s.Publish[output]
			t := c.ts.At(expr.ObjectNamed("steps."+s.ID), output)
			if t == nil {
				continue
			}
			key := expr.TypeName(t) + " `" + name + "`"
			if other := publishes[key]; other != nil {
				c.src.Warnf(document.Lookup(s.node, "publish", output), "duplicate", "give it another name", "`%s` already publishes the %s: only the later version is found under the name", other.ID, key)
			}
			publishes[key] = s
		}
	}
}

// before are the steps that s comes after, however they end.
func (c *checker) before(s *step) map[*step]bool {
	return upstream(s, func(at *step) (needed []*step) {
		for id := range at.needs {
			needed = append(needed, c.byID[id])
		}
		return needed
	})
}

// checkUnasked warns of an approval that no step waits for, beside a rollout that may be done before anybody has answered.
func (c *checker) checkUnasked() {
	for _, s := range c.steps {
		waited := slices.ContainsFunc(c.steps, func(other *step) bool { _, waits := other.needs[s.ID]; return waits })
		if !isA[*spec.Approval](s) || waited {
			continue
		}
		before := c.before(s)
		for _, other := range c.steps {
			if isA[*spec.Rollout](other) && other.section == s.section && !before[other] {
				c.src.Warnf(s.key, "ungated", "write `needs: ["+s.ID+"]` at `"+other.ID+"`", "no step waits for the answer to `%s`, and `%s` may release before there is one", s.ID, other.ID)
				break
			}
		}
	}
}

// checkSameTarget warns of a rollout whose target another one, or another of its instances, may change at any time.
func (c *checker) checkSameTarget(s, other *step, target string) {
	at := document.PlaceOf(s.body, "target")
	if s.listed() {
		c.src.Warnf(at, "instances", "release the best instance of a step that makes the models", "all instances of `%s` release to the target `%s`, where the last one stays", s.ID, target)
	}
	if other == nil || s.section != other.section {
		return
	}
	if !c.before(s)[other] && !c.before(other)[s] {
		c.src.Warnf(at, "target", "write `needs: ["+other.ID+"]`, or use another target", "`%s` and `%s` release to the target `%s` in no order, and the last one stays", other.ID, s.ID, target)
	}
}

// checkMeasures warns of an evaluation that hands on nothing.
func (c *checker) checkMeasures() {
	for _, s := range c.steps {
		if sp, ok := s.known.(*spec.Evaluate); ok && len(sp.Metrics)+len(sp.Outputs) == 0 {
			c.src.Warnf(s.kindKey(), "metric", "add `metrics: [f1]`, the names that the program reports", "`%s` declares no metrics, so nothing can read what it measures", s.ID)
		}
	}
}

// checkUnusedDefaults warns of defaults for a kind that no step has.
func (c *checker) checkUnusedDefaults() {
	for key := range document.Entries(c.defaults) {
		isOfKind := func(s *step) bool { return string(s.Kind) == key.Value }
		if kindByName(key.Value) != nil && len(c.unreadable) == 0 && !slices.ContainsFunc(c.steps, isOfKind) {
			c.src.Warnf(key, "unused-param", "remove it", "no step of this pipeline is %s step, so nothing takes these defaults", spec.Article(key.Value))
		}
	}
}

// checkUnread warns of axes that nothing of their step reads: the instances do the same work.
func (c *checker) checkUnread() {
	for _, s := range c.steps {
		if c.src.Findings.HasAnyAt(s.node) {
			continue // which may say why nothing is read
		}
		read := s.axesRead()
		if s.foreach != nil && read != nil && !read["item"] && !strings.Contains(s.foreach.Text, "range") {
			c.src.Warnf(document.KeyNode(s.node, "foreach"), "instances", "read the items as ${item}, or remove it", "`%s` reads neither `item` nor `index`: all instances do the same", s.ID)
		}
		if s.matrix == nil {
			continue
		}
		for i, axis := range s.matrix.Axes.Keys {
			if values, isList := s.matrix.Axes.Values[i].(expr.List); read != nil && !read[axis] && (!isList || len(values) > 1) {
				c.src.Warnf(document.KeyNode(s.matrix.Node, axis), "matrix", "read it as ${matrix."+axis+"}, or remove it", "`%s` does not read `matrix.%s`: instances that differ in nothing else do the same", s.ID, axis)
			}
		}
	}
}

// axesRead are the axes that the step's expressions read, or `item`; nil for all, and more.
func (s *step) axesRead() map[string]bool {
	read := map[string]bool{}
	for _, r := range s.references() {
		switch {
		case r.Path[0].Name == "index", r.Path[0].Name == "matrix" && len(r.Path) == 1:
			return nil
		case r.Path[0].Name == "matrix":
			read[r.Path[1].Name] = true
		case r.Path[0].Name == "item":
			read["item"] = true
		}
	}
	return read
}
