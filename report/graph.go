package report

import (
	"cmp"
	"fmt"
	"unicode/utf8"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/layered"
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
}

type node struct {
	xy
	Step, Kind, Time string
	Status           dsl.Status
	// Gate is the verdict of the step's gate; empty for a step without one or not judged yet.
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
	records := map[string]contract.StepRecord{}
	for _, s := range d.Steps {
		records[s.Step] = s
	}
	drawing := layered.Draw(layerNodes(d.Run.Graph), graphStyle)
	g := graph{Width: drawing.Width, Height: drawing.Height, Least: min(drawing.Width, max(leastGraph, 0.7*drawing.Width))}
	for _, place := range drawing.Nodes {
		n := d.Run.Graph[place.Index]
		g.Nodes = append(g.Nodes, newNode(n, records[n.ID], xy{place.X, place.Y}, d))
	}
	for _, e := range drawing.Edges {
		status := records[d.Run.Graph[e.To].ID].Status
		g.Edges = append(g.Edges, edge{
			Path: e.Path,
			Idle: status == dsl.StatusPending || status == dsl.StatusUpstream || status == dsl.StatusSkipped || status == "",
		})
	}
	return g
}

// layerNodes are the steps with what comes after all the others at the end.
func layerNodes(graph []dsl.Node) []layered.Node {
	parts := map[dsl.Section]int{dsl.SectionMain: 0, dsl.SectionOnFailure: 1, dsl.SectionFinally: 2}
	nodes := make([]layered.Node, len(graph))
	for i, n := range graph {
		nodes[i] = layered.Node{ID: n.ID, After: n.After, Part: parts[n.Section]}
	}
	return nodes
}

func newNode(n dsl.Node, s contract.StepRecord, at xy, d Data) node {
	out := node{xy: at, Step: short(n.ID, 13), Kind: string(n.Kind), Status: cmp.Or(s.Status, dsl.StatusPending), HasGate: n.HasGate}
	if !s.StartedAt.IsZero() && out.Status != dsl.StatusUpstream && out.Status != dsl.StatusSkipped {
		out.Time = human.Seconds(span(s.StartedAt, s.EndedAt, d.Now))
	}
	out.Gate = string(s.Verdict)
	out.Title = fmt.Sprintf("%s: %s %s", n.ID, n.Kind, word(out.Status))
	if brief := Brief(s); brief != "" {
		out.Title += "\n" + brief
	}
	return out
}

// short cuts a name that its box has no room for.
func short(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}
