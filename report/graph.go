package report

import (
	"cmp"
	"fmt"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/layered"
	"github.com/sluiceml/sluice/store/record"
)

// The graph's measures, in SVG units.
var graphStyle = layered.Style{NodeWidth: 142, NodeHeight: 58, LayerGap: 48, NodeGap: 22, Margin: 8}

const leastGraph = 560

// graph is the pipeline drawn in layers from left to right: a step stands one layer after the last of those it needs.
type graph struct {
	Width, Height float64
	// Least is the width under which the graph is scrolled and not shrunk any further.
	Least float64
	Nodes []node
	Edges []edge
	// Parts name what runs after the main steps, along Foot.
	Parts []part
	Foot  float64
}

type part struct {
	X    float64
	Name spec.Section
}

// footHeight is that of the line with the names of the parts.
const footHeight = 18

type node struct {
	xy
	Step, Kind, Time string
	Status           spec.Status
	// Gate is the verdict of the step's gate; empty for a step without one or not evaluated yet.
	Gate    string
	HasGate bool
	Title   string
}

type edge struct {
	Path string
	// Idle is true when nothing flowed: the reader did not run.
	Idle bool
}

func newGraph(d Data) graph {
	records := map[string]record.StepRecord{}
	for _, s := range d.Steps {
		records[s.Step] = s
	}
	drawing := layered.Draw(layerNodes(d.Run.Graph), graphStyle)
	g := graph{Width: drawing.Width, Height: drawing.Height, Least: min(drawing.Width, max(leastGraph, 0.7*drawing.Width))}
	for _, p := range drawing.Parts {
		if name := spec.Sections[p.Number]; name != spec.SectionMain {
			g.Parts = append(g.Parts, part{p.X + graphStyle.LayerGap/4, name})
		}
	}
	if len(g.Parts) > 0 {
		g.Height += footHeight
		g.Foot = g.Height - footHeight/3
	}
	for _, place := range drawing.Nodes {
		n := d.Run.Graph[place.Index]
		g.Nodes = append(g.Nodes, newNode(n, records[n.ID], xy{place.X, place.Y}, d))
	}
	for _, e := range drawing.Edges {
		status := records[d.Run.Graph[e.To].ID].Status
		g.Edges = append(g.Edges, edge{
			Path: e.Path,
			Idle: status.IsIdle(),
		})
	}
	return g
}

// layerNodes are the steps with what comes after all the others at the end.
func layerNodes(graph []spec.Node) []layered.Node {
	nodes := make([]layered.Node, len(graph))
	for i, n := range graph {
		nodes[i] = layered.Node{ID: n.ID, After: n.After, Part: n.Section.Rank()}
	}
	return nodes
}

func newNode(n spec.Node, s record.StepRecord, at xy, d Data) node {
	out := node{xy: at, Step: human.Cut(n.ID, 13), Kind: string(n.Kind), Status: cmp.Or(s.Status, spec.StatusPending), HasGate: n.HasGate}
	if s.Of > 0 {
		out.Kind = fmt.Sprintf("%s ×%d", n.Kind, s.Of)
	}
	if !s.StartedAt.IsZero() && !out.Status.IsIdle() {
		out.Time = human.Seconds(span(s.StartedAt, s.EndedAt, d.Now))
	}
	if out.Gate = string(s.Verdict); s.Of > 0 && s.Passed == s.Of { // the gate is of its instances
		out.Gate = string(spec.VerdictPass)
	}
	out.Title = fmt.Sprintf("%s: %s %s", n.ID, n.Kind, Word(out.Status))
	if brief := Brief(s); brief != "" {
		out.Title += "\n" + brief
	}
	return out
}
