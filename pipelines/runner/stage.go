package runner

import (
	"fmt"
	"path"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/graph"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
)

// stage is a part of the graph that runs as one bundle.
type stage struct {
	units []exec.Unit // one of them is the root
	after []*stage    // the stages that fill its groups
	done  chan struct{}
}

// cutter cuts a graph into stages.
type cutter struct {
	takers map[int][]*graph.MultiEdge // edges that read from a node
	groups map[int]*groups            // by the edge of the GroupByKey
	ids    exec.GenID
}

// cut divides a graph into stages.
func cut(edges []*graph.MultiEdge) ([]*stage, error) {
	c := &cutter{takers: map[int][]*graph.MultiEdge{}, groups: map[int]*groups{}}
	for _, e := range edges {
		if err := known(e); err != nil {
			return nil, err
		}
		for _, in := range e.Input {
			c.takers[in.From.ID()] = append(c.takers[in.From.ID()], e)
		}
		if e.Op == graph.CoGBK {
			c.groups[e.ID()] = newGroups(e.Input[0].From.Coder)
		}
	}
	if err := c.joined(edges); err != nil {
		return nil, err
	}
	var stages []*stage
	begun := map[int]*stage{} // by the edge of the GroupByKey
	for _, e := range edges {
		if e.Op != graph.Impulse && e.Op != graph.CoGBK {
			continue
		}
		s := &stage{done: make(chan struct{})}
		stages, begun[e.ID()] = append(stages, s), s
		root := &root{unit: c.unit(), groups: c.groups[e.ID()], impulse: e.Value, out: c.node(s, e.Output[0].To)}
		s.units = append(s.units, root)
	}
	for at, g := range c.groups {
		begun[at].after = g.from
	}
	return stages, nil
}

// known returns an error for an edge that the runner does not support.
func known(e *graph.MultiEdge) error {
	switch e.Op { //nolint:exhaustive // what is not named is refused below
	case graph.Impulse, graph.Flatten:
		return nil
	case graph.CoGBK:
		if len(e.Input) == 1 {
			return nil
		}
		return fmt.Errorf("this runner groups one collection, but %v joins %d", e, len(e.Input))
	case graph.ParDo:
		timers, _ := e.DoFn.PipelineTimers()
		if len(e.Input) == 1 && !e.DoFn.IsSplittable() && len(e.DoFn.PipelineState()) == 0 && len(timers) == 0 {
			return nil
		}
		return fmt.Errorf("this runner has no side inputs, restrictions, state and timers, but %v needs them", e)
	}
	return fmt.Errorf("this runner cannot do %v", e)
}

// joined returns an error if a ParDo follows a Flatten: it would be in several stages.
func (c *cutter) joined(edges []*graph.MultiEdge) error {
	for _, e := range edges {
		if e.Op != graph.Flatten {
			continue
		}
		for _, taker := range c.takers[e.Output[0].To.ID()] {
			if taker.Op == graph.ParDo {
				return fmt.Errorf("this runner joins collections where they are grouped, but %v takes them from %v", taker, e)
			}
		}
	}
	return nil
}

func (c *cutter) unit() unit { return unit{c.ids.New()} }

// node returns the execution node that receives the elements of a collection, in a stage.
func (c *cutter) node(s *stage, of *graph.Node) exec.Node {
	var takers []exec.Node
	for _, e := range c.takers[of.ID()] {
		takers = append(takers, c.taker(s, e))
	}
	if len(takers) == 1 {
		return takers[0]
	}
	all := &exec.Multiplex{UID: c.ids.New(), Out: takers}
	s.units = append(s.units, all)
	return all
}

// taker returns the execution node for an edge that reads elements in a stage.
func (c *cutter) taker(s *stage, e *graph.MultiEdge) exec.Node {
	switch e.Op { //nolint:exhaustive // known has refused the others, or they begin a stage
	case graph.Flatten:
		return c.node(s, e.Output[0].To)
	case graph.CoGBK:
		g := c.groups[e.ID()]
		g.from = append(g.from, s)
		into := &grouper{c.unit(), g}
		s.units = append(s.units, into)
		return into
	}
	var out []exec.Node
	for _, o := range e.Output {
		out = append(out, c.node(s, o.To))
	}
	id := c.ids.New()
	do := &exec.ParDo{UID: id, PID: fmt.Sprintf("%s-%d", path.Base(e.DoFn.Name()), id), Fn: e.DoFn, Inbound: e.Input, Out: out}
	s.units = append(s.units, do)
	return do
}
