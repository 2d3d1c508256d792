// Package layered draws directed acyclic graphs: in layers from left to right, each node one layer after the last of those it comes
// after, each layer ordered so that few edges cross.
package layered

import (
	"cmp"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
)

// Node is a node of a graph.
type Node struct {
	ID string
	// After are the nodes it has edges from. Those that are not in the graph, or in a later part of it, are ignored.
	After []string
	// Part orders the graph as a whole: all layers of a part come after those of the parts before it.
	Part int
}

// Style is the size of a drawing's elements.
type Style struct{ NodeWidth, NodeHeight, LayerGap, NodeGap, Margin float64 }

// Drawing is a graph laid out.
type Drawing struct {
	Width, Height float64
	// Nodes by layer, from the top of each.
	Nodes []Place
	Edges []Edge
	// Parts says where each part begins that has nodes.
	Parts []Part
}

// Place is where a node is: its left upper corner. Index is its place in the list that was given.
type Place struct {
	Index int
	X, Y  float64
}

// Edge leads from one node to another; both are indices. Path is the data of an SVG path.
type Edge struct {
	From, To int
	Path     string
}

// Part is a part of the graph: its number and its left border.
type Part struct {
	Number int
	X      float64
}

// Draw lays out nodes that are in topological order. An edge is left out where a longer way says the same.
func Draw(nodes []Node, s Style) Drawing {
	before := predecessors(nodes)
	layers := layer(nodes, before)
	tallest := 0
	for _, l := range layers {
		tallest = max(tallest, len(l))
	}
	if tallest == 0 {
		return Drawing{Width: 2 * s.Margin, Height: 2 * s.Margin}
	}
	d := Drawing{
		Width:  2*s.Margin + float64(len(layers))*(s.NodeWidth+s.LayerGap) - s.LayerGap,
		Height: 2*s.Margin + float64(tallest)*(s.NodeHeight+s.NodeGap) - s.NodeGap,
	}
	places := make([]Place, len(nodes))
	for column, l := range layers {
		used := float64(len(l))*(s.NodeHeight+s.NodeGap) - s.NodeGap
		x := s.Margin + float64(column)*(s.NodeWidth+s.LayerGap)
		for row, i := range l {
			places[i] = Place{i, x, (d.Height-used)/2 + float64(row)*(s.NodeHeight+s.NodeGap)}
			d.Nodes = append(d.Nodes, places[i])
		}
		if part := nodes[l[0]].Part; len(d.Parts) == 0 || d.Parts[len(d.Parts)-1].Number != part {
			d.Parts = append(d.Parts, Part{part, x})
		}
	}
	for to, direct := range reduce(before) {
		for _, from := range direct {
			d.Edges = append(d.Edges, Edge{from, to, s.curve(places[from], places[to])})
		}
	}
	return d
}

// predecessors are the indices of each node's predecessors.
func predecessors(nodes []Node) [][]int {
	index := make(map[string]int, len(nodes))
	before := make([][]int, len(nodes))
	for i, n := range nodes {
		for _, id := range n.After {
			if j, ok := index[id]; ok && nodes[j].Part <= n.Part {
				before[i] = append(before[i], j)
			}
		}
		index[n.ID] = i
	}
	return before
}

// layer puts the nodes in layers, by part and by depth, and orders each layer by where its predecessors stand.
func layer(nodes []Node, before [][]int) [][]int {
	parts := map[int][][]int{}
	depth := make([]int, len(nodes))
	for i, n := range nodes {
		for _, j := range before[i] {
			if nodes[j].Part == n.Part {
				depth[i] = max(depth[i], depth[j]+1)
			}
		}
		for len(parts[n.Part]) <= depth[i] {
			parts[n.Part] = append(parts[n.Part], nil)
		}
		parts[n.Part][depth[i]] = append(parts[n.Part][depth[i]], i)
	}
	row := make([]float64, len(nodes))
	var layers [][]int
	for _, number := range slices.Sorted(maps.Keys(parts)) {
		for _, l := range parts[number] {
			middle := func(i int) float64 {
				sum := 0.0
				for _, j := range before[i] {
					sum += row[j]
				}
				return sum / float64(max(1, len(before[i])))
			}
			slices.SortStableFunc(l, func(a, b int) int { return cmp.Compare(middle(a), middle(b)) })
			for at, i := range l {
				row[i] = float64(at) - float64(len(l))/2
			}
			layers = append(layers, l)
		}
	}
	return layers
}

// reduce drops the predecessors that another predecessor implies (a transitive reduction).
func reduce(before [][]int) [][]int {
	above := make([]big.Int, len(before)) // sets of all that a node comes after
	out := make([][]int, len(before))
	for i, direct := range before {
		for _, j := range direct {
			above[i].SetBit(&above[i], j, 1)
			above[i].Or(&above[i], &above[j])
		}
		for _, j := range direct {
			implied := slices.ContainsFunc(direct, func(other int) bool { return above[other].Bit(j) == 1 })
			if !implied {
				out[i] = append(out[i], j)
			}
		}
	}
	return out
}

// curve leads from the right of one node to the left of another.
func (s Style) curve(from, to Place) string {
	x1, y1 := from.X+s.NodeWidth, from.Y+s.NodeHeight/2
	x2, y2 := to.X, to.Y+s.NodeHeight/2
	bend := max(24, (x2-x1)/2)
	return "M" + Coordinate(x1) + " " + Coordinate(y1) + "C" + Coordinate(x1+bend) + " " + Coordinate(y1) + " " +
		Coordinate(x2-bend) + " " + Coordinate(y2) + " " + Coordinate(x2) + " " + Coordinate(y2)
}

// Coordinate writes a number as SVG has it, to a tenth.
func Coordinate(v float64) string { return strconv.FormatFloat(math.Round(v*10)/10, 'f', -1, 64) }
