package pipelines

import (
	"errors"
	"fmt"
	"slices"

	"github.com/sluiceml/sluice/dsl/expr"
	dsltransform "github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/transform"
)

// plan is a compiled graph of transforms.
type plan struct {
	// nodes are the transforms; each comes after those that it reads from.
	nodes []node
	// segments are the parts between cuts; each comes after those that feed its entry.
	segments []segment

	// masks are the kinds of personal data that are counted. rules are the names that dropped rows are counted under.
	masks []string
	rules []string
	// asserted are the assertions whose counts can fail the job, besides the thresholds of the nodes.
	asserted []*transform.Assertion
	// deduplicates are the names of the Deduplicate transforms.
	deduplicates []string
}

// compilePlan compiles the graph of a job. Its errors are of type invalid unless their cause has another type.
func compilePlan(job Job) (*plan, error) {
	params, err := expr.RowParams(job.Spec.RowParams)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "%w", err)
	}
	graph, err := dsltransform.Graph(&job.Spec)
	if err != nil {
		return nil, fault.Errorf(fault.Invalid, "%w", err)
	}
	p := &plan{}
	given := transform.Deps{Params: params, Secrets: job.Secrets, Shared: sessionOf(job.WorkDir)}
	for _, t := range graph {
		if err := p.add(t, given); err != nil {
			typ := fault.Invalid
			if e := (*fault.Error)(nil); errors.As(err, &e) {
				typ = e.Type
			}
			return nil, fault.Errorf(typ, "transform %s (%s): %w", t.Name, t.Type, err)
		}
	}
	if err := p.boundCopies(); err != nil {
		return nil, err
	}
	p.cutIntoSegments()
	_, err = transform.CompileColumns(job.Spec.Profile.Columns, params)
	return p, err
}

// add compiles one transform into the plan.
func (p *plan) add(t dsltransform.Node, given transform.Deps) (err error) {
	at := len(p.nodes)
	if slices.ContainsFunc(p.nodes, func(n node) bool { return n.name == t.Name }) {
		return fmt.Errorf("two transforms are named %s; give each a unique `name`, which rows are counted by", t.Name)
	}
	n := node{name: t.Name, blames: t.Name, rejects: t.Rejects}
	if n.threshold, err = transform.CompileThreshold(t.Transform); err != nil {
		return err
	}
	for _, from := range t.From {
		p.nodes[from.Node].feed(from.Name, at)
	}
	switch {
	case dsltransform.IsReader(t.Type):
		n.source, err = format.CompileReader(t.Transform)
	case dsltransform.IsWriter(t.Type):
		err = p.addSink(&n, t)
	case dsltransform.Is[dsltransform.Flatten](t.Type):
	case dsltransform.Is[dsltransform.Split](t.Type):
		n.split, err = transform.CompileSplit(t.Transform, given.Params)
	case transform.IsCut(t.Type):
		err = p.addCut(&n, t, given)
	default:
		err = p.addRow(&n, t, given)
	}
	p.nodes = append(p.nodes, n)
	return err
}

// addRow adds a transform that processes one row at a time.
func (p *plan) addRow(n *node, t dsltransform.Node, given transform.Deps) error {
	c, err := transform.Compile(t.Transform, given)
	if err != nil {
		return err
	}
	n.row = &c
	p.masks = append(p.masks, c.Masks...)
	if c.Assertion != nil {
		p.asserted = append(p.asserted, c.Assertion)
	}
	return p.addRules(c.Rules...)
}

// addCut adds a transform that compares rows with others.
func (p *plan) addCut(n *node, t dsltransform.Node, given transform.Deps) (err error) {
	if n.end, err = transform.CompileCut(t.Transform, given.Params); err != nil {
		return err
	}
	if _, combines := n.end.(*transform.Combiner); !combines {
		p.deduplicates = append(p.deduplicates, t.Name)
	}
	return p.addRules(t.Name)
}

func (p *plan) addSink(n *node, t dsltransform.Node) error {
	split := &transform.AllRows
	if before := p.nodes[t.From[0].Node].split; before != nil {
		split, n.blames = before, p.nodes[t.From[0].Node].name
	}
	s, err := compileSink(t.Transform, split)
	n.end = s
	return err
}

// addRules registers names to count rows under, and rejects a name that another transform uses.
func (p *plan) addRules(rules ...string) error {
	for _, rule := range rules {
		if slices.Contains(p.rules, rule) {
			return fmt.Errorf("another transform also counts rows under %q; give this one a unique `name`", rule)
		}
		p.rules = append(p.rules, rule)
	}
	return nil
}
