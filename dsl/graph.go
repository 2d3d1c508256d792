package dsl

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

// addEdges collects the steps that each step needs: its explicit needs, and the steps that its expressions read, those of its gate
// included, because they must have ended when the gate is evaluated.
func (c *checker) addEdges() {
	for _, s := range c.steps {
		s.needs = maps.Clone(s.Needs)
		if s.needs == nil {
			s.needs = map[string]spec.Need{}
		}
		for _, id := range slices.Sorted(maps.Keys(s.Needs)) {
			c.checkNeed(s, id)
		}
		for e, r := range s.references() {
			c.addReference(s, e, r)
		}
		c.src.Judge(func() {
			if !c.checkNeverBoth(s) {
				c.checkSkipped(s)
			}
		})
	}
	for _, e := range c.exprs {
		for _, r := range e.Refs {
			if r.Path[0].Name == "steps" && len(r.Path) == 1 {
				c.wholeSteps(e, r)
			}
		}
	}
}

func (c *checker) checkNeed(s *step, id string) {
	at := needNode(s, id)
	switch {
	case id == s.ID:
		c.src.Errorf(at, "self", "remove it", "`%s` cannot wait for itself", id)
	case c.byID[id] == nil && slices.Contains(c.unreadable, id):
	case c.byID[id] == nil:
		hint := suggest.Hint(id, c.otherIDs(s))
		bare := strings.TrimPrefix(strings.Trim(id, "${}[]\"'"), "steps.")
		if bare, _, _ = strings.Cut(bare, "."); c.byID[bare] != nil {
			hint = "write `" + bare + "`"
		}
		c.src.Errorf(at, "step", hint, "there is no step `%s`", id)
	case c.byID[id].section != s.section:
		c.otherSection(s, c.byID[id], func(hint, message string) { c.src.Errorf(at, "section", hint, "%s", message) })
	default:
		return
	}
	delete(s.needs, id)
}

func needNode(s *step, id string) *yaml.Node {
	needs := document.Lookup(s.node, "needs")
	if needs.Kind == yaml.MappingNode {
		return document.KeyNode(needs, id)
	}
	items := document.Items(needs)
	return items[slices.IndexFunc(items, func(item *yaml.Node) bool { return item.Value == id })]
}

func (c *checker) otherIDs(s *step) []string {
	var ids []string
	for _, other := range c.steps {
		if other != s {
			ids = append(ids, other.ID)
		}
	}
	return ids
}

func (c *checker) wholeSteps(e *expr.Expression, r expr.Reference) {
	e.ReportReference(c.src, r, "step", "write steps.NAME", "`steps` as a whole is not a value: it does not tell which steps to wait for")
}

// addReference makes an edge of a reference to a step.
func (c *checker) addReference(s *step, e *expr.Expression, r expr.Reference) {
	if r.Path[0].Name != "steps" {
		return
	}
	if len(r.Path) == 1 {
		c.wholeSteps(e, r)
		return
	}
	id, need := r.Path[1].Name, spec.NeedPassed
	if r.Path[1].Optional {
		need = spec.NeedNotFailed
	}
	other := c.byID[id]
	switch {
	case id == s.ID && (e.Scope == expr.ScopeGate || e.Scope == expr.ScopeUntil):
		e.ReportReference(c.src, r, "self", "write `"+expr.Reference{Path: r.Path[min(2, len(r.Path)-1):]}.String()+"`", "a gate reads the outputs of its own step as plain names")
		return
	case id == s.ID:
		e.ReportReference(c.src, r, "self", "", "`"+id+"` cannot read its own outputs before it ran")
		return
	case other != nil && other.section.Rank() > s.section.Rank():
		c.otherSection(s, other, func(hint, message string) { e.ReportReference(c.src, r, "section", hint, message) })
		return
	case other == nil || other.section != s.section:
		return
	}
	explicit, has := s.Needs[id]
	switch {
	case has && need == spec.NeedPassed && explicit == spec.NeedFailed:
		e.ReportReference(c.src, r, "needs", "remove it, or need `passed`", "`"+s.ID+"` needs `"+id+"` to have failed, so there are no outputs to read")
	case has && need == spec.NeedPassed && explicit != spec.NeedPassed:
		e.ReportReference(c.src, r, "needs", "write `steps.?"+id+"`, or need `passed`",
			"`"+s.ID+"` needs `"+id+"` to be "+string(explicit)+", but reads outputs that only exist if it passed")
	case has && explicit == spec.NeedFailed:
		e.ReportReference(c.src, r, "needs", "", "`"+s.ID+"` needs `"+id+"` to have failed, so there are no outputs to read")
	case has:
	case s.needs[id] != spec.NeedPassed:
		s.needs[id] = need
	}
}

// checkSkipped warns of a step that reads another which may be skipped.
func (c *checker) checkSkipped(s *step) {
	if s.when != nil {
		return
	}
	for e, r := range s.references() {
		id := r.Step()
		other := c.byID[id]
		if other == nil || other == s || r.Path[1].Optional || other.section != s.section || other.when == nil || !other.when.OK {
			continue
		}
		if need := s.Needs[id]; need == "" || need == spec.NeedPassed {
			e.AddAtReference(c.src, document.SeverityWarning, r, "skipped", "write `steps.?"+id+"` to let it run, or give it a `when` of its own",
				"`"+id+"` may be skipped by its `when`, and then `"+s.ID+"` is skipped too")
		}
	}
}

// checkNeverBoth reports a step that runs only if others passed whose conditions are never true in the same run, or are not when its own is.
func (c *checker) checkNeverBoth(s *step) bool {
	passed := []*step{s}
	for _, other := range c.steps {
		if s.needs[other.ID] == spec.NeedPassed {
			passed = append(passed, other)
		}
	}
	for i, a := range passed {
		for _, b := range passed[i+1:] {
			if !expr.Exclude(a.when, b.when) {
				continue
			}
			at := s.key
			if s.Needs[b.ID] != "" {
				at = needNode(s, b.ID)
			}
			message := "`" + a.ID + "` and `" + b.ID + "` never run both, as their `when` say, so that `" + s.ID + "`, which needs both to pass, never runs"
			if a == s {
				message = "`" + b.ID + "` is skipped by its `when` whenever that of `" + s.ID + "` holds, so that `" + s.ID + "` never runs"
			}
			c.src.Errorf(at, "condition", "write `not_failed` in place of `passed` to run after a step that may be skipped, and `steps.?"+b.ID+"` to read it", "%s", message)
			return true
		}
	}
	return false
}

// otherSection reports a step that a step of another section cannot wait for.
func (c *checker) otherSection(s, other *step, report func(hint, message string)) {
	if other.section.Rank() > s.section.Rank() {
		report("", fmt.Sprintf("`%s` is in `%s`, which runs after `%s`", other.ID, other.section, s.ID))
		return
	}
	report(fmt.Sprintf("remove it, or write `when: run.failed.exists(f, f.step == %q)` to run after its failure", other.ID),
		fmt.Sprintf("`%s` has always ended before `%s` runs", other.ID, s.section))
}

// sortGraph returns the steps in topological order, or nil after it has reported a cycle.
func (c *checker) sortGraph() []spec.Node {
	waiting := make([]int, len(c.steps))
	dependents := make([][]int, len(c.steps))
	var ready []int // in the order of the document
	isReady := func(i int) {
		at, _ := slices.BinarySearch(ready, i)
		ready = slices.Insert(ready, at, i)
	}
	for _, s := range c.steps {
		waiting[s.index] = len(s.needs)
		for id := range s.needs {
			up := c.byID[id].index
			dependents[up] = append(dependents[up], s.index)
		}
		if len(s.needs) == 0 {
			isReady(s.index)
		}
	}
	graph := make([]spec.Node, 0, len(c.steps))
	for len(ready) > 0 {
		i := ready[0]
		ready = ready[1:]
		graph = append(graph, c.node(c.steps[i]))
		for _, j := range dependents[i] {
			if waiting[j]--; waiting[j] == 0 {
				isReady(j)
			}
		}
	}
	if len(graph) < len(c.steps) {
		c.reportCycle(waiting)
		return nil
	}
	slices.SortStableFunc(graph, func(a, b spec.Node) int { return cmp.Compare(a.Section.Rank(), b.Section.Rank()) })
	return graph
}

// inOrder lists needed steps in the order of the document.
func (c *checker) inOrder(needs map[string]spec.Need) []string {
	return slices.SortedFunc(maps.Keys(needs), func(a, b string) int { return cmp.Compare(c.byID[a].index, c.byID[b].index) })
}

func (c *checker) node(s *step) spec.Node {
	return spec.Node{
		ID: s.ID, Kind: s.Kind, OnPool: s.onPool() && s.info().programs != programsOnPool, Section: s.section, Needs: s.needs, After: c.inOrder(s.needs), HasGate: len(s.gates) > 0, HasWhen: s.when != nil, Retry: s.Retry.WithDefaults(),
		Timeout: s.Timeout, Fan: s.fan, MaxParallel: s.MaxParallel, Require: s.Require, Max: s.Repeat.Max, ContinueOnError: s.ContinueOnError,
	}
}

// Unset lists the limits that the document does not set for a step, and what happens at them, with their defaults.
func (p *Program) Unset(id string) (all []spec.Unset) {
	s := p.byID[id]
	note := func(key, value string, at *yaml.Node) {
		if unset := (spec.Unset{Key: key, Value: value}); at == nil && !slices.Contains(all, unset) {
			all = append(all, unset)
		}
	}
	if limit := s.Kind.DefaultTimeout(); limit > 0 {
		note("timeout", limit.String(), document.Lookup(s.node, "timeout"))
	} else if !isA[*spec.Approval](s) {
		note("timeout", "none", document.Lookup(s.node, "timeout"))
	}
	switch known := s.known.(type) {
	case *spec.Approval:
		note("approval.timeout", spec.DefaultsOf[spec.Approval]().Timeout.String(), document.Lookup(s.body, "timeout"))
		note("approval.default", spec.DefaultsOf[spec.Approval]().Default, document.Lookup(s.body, "default"))
	case *spec.Rollout:
		note("tests.latency", "none", document.Lookup(s.body, "tests", "latency", "quantile"))
		for i := range known.Stages {
			d := spec.DefaultsOf[spec.Stage]()
			note("min_samples", strconv.FormatInt(d.MinSamples, 10), document.Lookup(s.body, "stages", i, "min_samples"))
			note("max_wait", d.MaxWait.String(), document.Lookup(s.body, "stages", i, "max_wait"))
			note("on_no_data", d.OnNoData, document.Lookup(s.body, "stages", i, "on_no_data"))
		}
	}
	if s.fan == spec.FanMatrix || s.fan == spec.FanForeach {
		note("max_parallel", strconv.Itoa(spec.DefaultParallel), document.Lookup(s.node, "max_parallel"))
	}
	for i, g := range s.Gate {
		if g.OnFail == spec.OnFailHold {
			at := document.Items(document.Lookup(s.node, "gate"))[i]
			note("hold.timeout", spec.DefaultsOf[spec.Hold]().Timeout.String(), document.Lookup(at, "hold", "timeout"))
			note("hold.default", spec.DefaultsOf[spec.Hold]().Default, document.Lookup(at, "hold", "default"))
		}
	}
	return all
}

// reportCycle walks needs among the steps that never became ready until one comes again.
func (c *checker) reportCycle(waiting []int) {
	var at *step
	for _, s := range c.steps {
		if waiting[s.index] > 0 {
			at = s
			break
		}
	}
	seen := map[*step]int{}
	var path []*step
	for {
		if from, ok := seen[at]; ok {
			path = path[from:]
			break
		}
		seen[at] = len(path)
		path = append(path, at)
		at = c.stuckNeed(at, waiting)
	}
	// The walk went against the flow; a cycle is told from its first step in the document, in the order of the flow.
	slices.Reverse(path)
	first := 0
	for i, s := range path {
		if s.index < path[first].index {
			first = i
		}
	}
	path = append(path[first:], path[:first]...)
	names := make([]string, len(path))
	for i, s := range path {
		names[i] = s.ID
	}
	if c.reportGateCycle(path) {
		return
	}
	c.src.Errorf(path[0].key, "cycle", "remove one of these references or `needs`", "the steps wait for each other: %s → %s", strings.Join(names, " → "), names[0])
}

// reportGateCycle reports a cycle, told in the order of the flow, that a gate closes: one that reads a step which runs after its own.
func (c *checker) reportGateCycle(path []*step) bool {
	for i, s := range path {
		up := path[(i+len(path)-1)%len(path)]
		e, r := readByGateAlone(s, up.ID)
		if e == nil {
			continue
		}
		names := make([]string, len(path))
		for k := range path {
			names[k] = path[(i+k)%len(path)].ID
		}
		word := "gate"
		if e.Scope == expr.ScopeUntil {
			word = "`until`"
		}
		e.ReportReference(c.src, r, "cycle", "it is evaluated before any later step runs: move the condition to the gate of `"+up.ID+"`",
			"the "+word+" of `"+s.ID+"` reads `"+up.ID+"`, which waits for `"+s.ID+"`: "+strings.Join(names, " → ")+" → "+s.ID)
		return true
	}
	return false
}

// readByGateAlone returns where a gate of s, or its `until`, reads a step that s would not wait for otherwise.
func readByGateAlone(s *step, id string) (*expr.Expression, expr.Reference) {
	if _, said := s.Needs[id]; said {
		return nil, expr.Reference{}
	}
	var gate *expr.Expression
	var at expr.Reference
	for e, r := range s.references() {
		switch {
		case r.Step() != id:
		case e.Scope != expr.ScopeGate && e.Scope != expr.ScopeUntil:
			return nil, expr.Reference{}
		case gate == nil:
			gate, at = e, r
		}
	}
	return gate, at
}

func (c *checker) stuckNeed(s *step, waiting []int) *step {
	for _, id := range c.inOrder(s.needs) {
		if up := c.byID[id]; waiting[up.index] > 0 {
			return up
		}
	}
	return s
}

// passedBefore returns the steps that must have passed before s starts.
func (c *checker) passedBefore(s *step) map[*step]bool {
	return upstream(s, func(at *step) (needed []*step) {
		for id, need := range at.needs {
			if need == spec.NeedPassed {
				needed = append(needed, c.byID[id])
			}
		}
		return needed
	})
}

// upstream returns the steps that s comes after, where before returns those that a step comes right after.
func upstream(s *step, before func(*step) []*step) map[*step]bool {
	seen := map[*step]bool{}
	for todo := []*step{s}; len(todo) > 0; {
		at := todo[len(todo)-1]
		todo = todo[:len(todo)-1]
		for _, up := range before(at) {
			if !seen[up] {
				seen[up] = true
				todo = append(todo, up)
			}
		}
	}
	return seen
}
