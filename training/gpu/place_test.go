package gpu

import (
	"fmt"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// machine makes a machine of n GPUs with these links; what is not named crosses NUMA nodes.
func machine(n int, links ...Link) Inventory {
	inv := Inventory{Links: links}
	for i := range n {
		inv.GPUs = append(inv.GPUs, GPU{Index: i, UUID: fmt.Sprintf("GPU-%d", i), Model: "NVIDIA A100", NUMA: -1})
		for j := range i {
			if inv.Affinity(i, j) == 0 {
				inv.Links = append(inv.Links, Link{A: j, B: i, Path: PathSystem})
			}
		}
	}
	return inv
}

func indexes(placed [][]Unit) [][]int {
	var all [][]int
	for _, node := range placed {
		var one []int
		for _, u := range node {
			one = append(one, u.GPU)
		}
		all = append(all, one)
	}
	return all
}

func TestPlace(t *testing.T) {
	bridged := machine(5, Link{A: 0, B: 3, NVLinks: 4}, Link{A: 1, B: 2, NVLinks: 4})
	chain := machine(4, Link{A: 0, B: 1, NVLinks: 5}, Link{A: 1, B: 2, NVLinks: 6}, Link{A: 2, B: 3, NVLinks: 5})
	mixed := Inventory{GPUs: []GPU{
		{Index: 0, UUID: "GPU-0", Model: "NVIDIA A100", MIG: true, Instances: []Instance{
			{UUID: "MIG-a", Model: "NVIDIA A100 MIG 1g.5gb", Memory: 5 << 30},
			{UUID: "MIG-b", Model: "NVIDIA A100 MIG 3g.20gb", Memory: 20 << 30},
			{UUID: "MIG-c", Model: "NVIDIA A100 MIG 1g.5gb", Memory: 5 << 30},
		}},
		{Index: 1, UUID: "GPU-1", Model: "NVIDIA A100"},
	}}
	for _, tt := range []struct {
		name        string
		inv         Inventory
		types       []string
		nodes, each int
		want        [][]int
	}{
		{"two that are joined by NVLink", bridged, nil, 1, 2, [][]int{{0, 3}}},
		{"each node has its own NVLinks", bridged, nil, 2, 2, [][]int{{0, 3}, {1, 2}}},
		{"a single one breaks up no pair", bridged, nil, 1, 1, [][]int{{4}}},
		{"nodes of one GPU are joined too", bridged, nil, 2, 1, [][]int{{0}, {3}}},
		{"the best pair would leave a bad one", chain, nil, 2, 2, [][]int{{0, 1}, {2, 3}}},
		{"too few", bridged, nil, 3, 2, nil},
		{"a whole GPU rather than an instance", mixed, nil, 1, 1, [][]int{{1}}},
		{"instances of one profile", mixed, nil, 2, 1, [][]int{{0}, {0}}},
		{"the instance that is named", mixed, []string{"3g.20gb"}, 1, 1, [][]int{{0}}},
		{"no node has two instances", mixed, nil, 1, 2, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			free := OfTypes(tt.inv.Units(), tt.types)
			placed, ok := tt.inv.Place(free, tt.nodes, tt.each)
			if diff := cmp.Diff(tt.want, indexes(placed)); diff != "" || ok != (tt.want != nil) {
				t.Errorf("placed (-want +got), ok %t:\n%s", ok, diff)
			}
			if holds := Holds(free, tt.each) >= tt.nodes; holds != ok {
				t.Errorf("Holds says %t and Place %t", holds, ok)
			}
		})
	}
}

// What is placed is disjoint, free, and connected best: no other way to divide GPUs among the nodes has more within a node.
func TestPlaceIsBest(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 7).Draw(t, "gpus")
		var links []Link
		for i := range n {
			for j := range i {
				links = append(links, Link{A: j, B: i, NVLinks: rapid.IntRange(0, 3).Draw(t, "nvlinks"), Path: rapid.SampledFrom([]Path{PathSwitch, PathNode, PathSystem}).Draw(t, "path")})
			}
		}
		inv := machine(n, links...)
		free := rapid.SampledFrom([][]Unit{inv.Units(), inv.Units()[n/3:]}).Draw(t, "free")
		each := rapid.IntRange(1, len(free)).Draw(t, "each")
		nodes := rapid.IntRange(1, len(free)/each).Draw(t, "nodes")
		placed, ok := inv.Place(free, nodes, each)
		if !ok || len(placed) != nodes {
			t.Fatalf("%d of %d nodes were placed", len(placed), nodes)
		}
		seen := map[string]bool{}
		for _, node := range placed {
			if len(node) != each {
				t.Fatalf("a node has %d GPUs, want %d", len(node), each)
			}
			for _, u := range node {
				if seen[u.UUID] || !slices.Contains(free, u) {
					t.Fatalf("%s is given out twice, or is not free", u.UUID)
				}
				seen[u.UUID] = true
			}
		}
		if got, best := within(inv, placed), bestWithin(inv, free, nodes, each); got != best {
			t.Fatalf("the nodes' GPUs are connected by %d, and %d is possible: %v", got, best, indexes(placed))
		}
	})
}

func within(inv Inventory, placed [][]Unit) int {
	sum := 0
	for _, node := range placed {
		for i, a := range node {
			for _, b := range node[:i] {
				sum += inv.Affinity(a.GPU, b.GPU)
			}
		}
	}
	return sum
}

// bestWithin tries all orders of the units that fill the nodes one after the other.
func bestWithin(inv Inventory, free []Unit, nodes, each int) int {
	if nodes == 0 {
		return 0
	}
	best := -1
	var fill func(node, rest []Unit)
	fill = func(node, rest []Unit) {
		if len(node) == each {
			left := slices.DeleteFunc(slices.Clone(free), func(u Unit) bool { return slices.Contains(node, u) })
			best = max(best, within(inv, [][]Unit{node})+bestWithin(inv, left, nodes-1, each))
			return
		}
		for i, u := range rest {
			fill(append(slices.Clone(node), u), rest[i+1:])
		}
	}
	fill(nil, free)
	return best
}

func TestPlaceMany(t *testing.T) {
	inv := machine(20)
	for _, tt := range []struct{ nodes, each int }{{2, 4}, {1, 16}, {5, 4}, {1, 20}, {20, 1}} {
		placed, ok := inv.Place(inv.Units(), tt.nodes, tt.each)
		if !ok || len(slices.Concat(placed...)) != tt.nodes*tt.each {
			t.Errorf("%d nodes with %d GPUs: %v, %t", tt.nodes, tt.each, indexes(placed), ok)
		}
	}
}
