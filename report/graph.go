package report

import (
	"cmp"
	"fmt"
	"slices"
	"unicode/utf8"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/human"
)

// The graph's measures, in SVG units.
const (
	nodeWidth  = 142
	nodeHeight = 58
	layerGap   = 48
	nodeGap    = 22
	graphEdge  = 8
	leastGraph = 560
)

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
	layers := layered(d.Run.Graph)
	tallest := 0
	for _, layer := range layers {
		tallest = max(tallest, len(layer))
	}
	g := graph{
		Width:  2*graphEdge + float64(len(layers))*(nodeWidth+layerGap) - layerGap,
		Height: 2*graphEdge + float64(tallest)*(nodeHeight+nodeGap) - nodeGap,
	}
	g.Least = min(g.Width, max(leastGraph, 0.7*g.Width))
	places := map[string]xy{}
	for x, layer := range layers {
		used := float64(len(layer))*(nodeHeight+nodeGap) - nodeGap
		for y, n := range layer {
			at := xy{graphEdge + float64(x)*(nodeWidth+layerGap), (g.Height-used)/2 + float64(y)*(nodeHeight+nodeGap)}
			places[n.ID] = at
			g.Nodes = append(g.Nodes, newNode(n, records[n.ID], at, d))
		}
	}
	for _, n := range d.Run.Graph {
		status := records[n.ID].Status
		for _, need := range direct(n, d.Run.Graph) {
			g.Edges = append(g.Edges, edge{
				Path: curve(places[need], places[n.ID]),
				Idle: status == dsl.StatusPending || status == dsl.StatusUpstream || status == dsl.StatusSkipped || status == "",
			})
		}
	}
	return g
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

// layered puts the nodes in layers and orders each layer by where its needs stand, so that few edges cross.
func layered(nodes []dsl.Node) [][]dsl.Node {
	depth := map[string]int{}
	var layers [][]dsl.Node
	for _, n := range nodes { // in topological order
		for _, need := range n.After {
			depth[n.ID] = max(depth[n.ID], depth[need]+1)
		}
		for len(layers) <= depth[n.ID] {
			layers = append(layers, nil)
		}
		layers[depth[n.ID]] = append(layers[depth[n.ID]], n)
	}
	row := map[string]float64{}
	for _, layer := range layers {
		middle := func(n dsl.Node) float64 {
			sum := 0.0
			for _, need := range n.After {
				sum += row[need]
			}
			return sum / float64(max(1, len(n.After)))
		}
		slices.SortStableFunc(layer, func(a, b dsl.Node) int { return cmp.Compare(middle(a), middle(b)) })
		for i, n := range layer {
			row[n.ID] = float64(i) - float64(len(layer))/2
		}
	}
	return layers
}

// direct lists the needs of n that no other need of n implies: the others' edges would say nothing new. (A transitive reduction.)
func direct(n dsl.Node, nodes []dsl.Node) []string {
	above := map[string]map[string]bool{} // all that a step comes after
	for _, m := range nodes {
		set := map[string]bool{}
		for _, need := range m.After {
			set[need] = true
			for id := range above[need] {
				set[id] = true
			}
		}
		above[m.ID] = set
	}
	var out []string
	for _, need := range n.After {
		implied := slices.ContainsFunc(n.After, func(other string) bool { return above[other][need] })
		if !implied {
			out = append(out, need)
		}
	}
	return out
}

// curve leads from the right of one node to the left of another.
func curve(from, to xy) string {
	x1, y1 := from.X+nodeWidth, from.Y+nodeHeight/2
	x2, y2 := to.X, to.Y+nodeHeight/2
	bend := max(24, (x2-x1)/2)
	return "M" + coordinate(x1) + " " + coordinate(y1) + "C" + coordinate(x1+bend) + " " + coordinate(y1) + " " +
		coordinate(x2-bend) + " " + coordinate(y2) + " " + coordinate(x2) + " " + coordinate(y2)
}

// short cuts a name that its box has no room for.
func short(s string, most int) string {
	if utf8.RuneCountInString(s) <= most {
		return s
	}
	return string([]rune(s)[:most-1]) + "…"
}
