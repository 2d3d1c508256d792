package layered

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

var style = Style{NodeWidth: 100, NodeHeight: 40, LayerGap: 20, NodeGap: 10, Margin: 5}

func TestDraw(t *testing.T) {
	d := Draw([]Node{
		{ID: "a"},
		{ID: "b", After: []string{"a"}},
		{ID: "c", After: []string{"a"}},
		{ID: "d", After: []string{"a", "b", "nobody"}}, // a is implied by b
		{ID: "last", Part: 2, After: []string{"c"}},
	}, style)
	want := Drawing{
		Width: 470, Height: 100,
		Nodes: []Place{{0, 5, 30}, {1, 125, 5}, {2, 125, 55}, {3, 245, 30}, {4, 365, 30}},
		Edges: []Edge{
			{0, 1, "M105 50C129 50 101 25 125 25"},
			{0, 2, "M105 50C129 50 101 75 125 75"},
			{1, 3, "M225 25C249 25 221 50 245 50"},
			{2, 4, "M225 75C295 75 295 50 365 50"},
		},
		Parts: []Part{{0, 5}, {2, 365}},
	}
	if diff := cmp.Diff(want, d); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if d := Draw(nil, style); d.Width != 10 || len(d.Nodes) != 0 {
		t.Errorf("nothing is drawn as %v", d)
	}
}

// TestDrawAny: nodes never overlap, edges go to the right, and what could be reached before can be reached by the edges drawn.
func TestDrawAny(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var nodes []Node
		for i := range rapid.IntRange(1, 30).Draw(t, "nodes") {
			n := Node{ID: fmt.Sprint(i), Part: i / 12}
			for j := range i {
				if rapid.IntRange(0, 4).Draw(t, "edge") == 0 {
					n.After = append(n.After, fmt.Sprint(j))
				}
			}
			nodes = append(nodes, n)
		}
		d := Draw(nodes, style)
		at := map[int]Place{}
		for _, p := range d.Nodes {
			for _, q := range at {
				if p.X == q.X && max(p.Y, q.Y)-min(p.Y, q.Y) < style.NodeHeight {
					t.Fatalf("%v overlaps %v", p, q)
				}
			}
			at[p.Index] = p
		}
		if len(at) != len(nodes) {
			t.Fatalf("%d of %d nodes are drawn", len(at), len(nodes))
		}
		edges := make([][]int, len(nodes))
		for _, e := range d.Edges {
			if at[e.From].X >= at[e.To].X {
				t.Fatalf("the edge %v does not go to the right", e)
			}
			edges[e.To] = append(edges[e.To], e.From)
		}
		if diff := cmp.Diff(reach(predecessors(nodes)), reach(edges)); diff != "" {
			t.Fatalf("other nodes can be reached: %s", diff)
		}
	})
}

// reach lists all that each node can be reached from.
func reach(before [][]int) [][]int {
	out := make([][]int, len(before))
	for i, direct := range before {
		for _, j := range direct {
			out[i] = append(append(out[i], j), out[j]...)
		}
		slices.Sort(out[i])
		out[i] = slices.Compact(out[i])
	}
	return out
}
