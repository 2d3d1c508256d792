package gpu

import (
	"cmp"
	"math/bits"
	"slices"
)

// maxSearched is among how many units the best set is searched for exhaustively: no machine that trains has many more whole GPUs. Of more,
// those that come first on the bus are taken.
const maxSearched = 16

// Affinity says how well two GPUs, by index, are connected: the more NVLinks the better, else the shorter the path over PCIe. The numbers are
// those of the Kubernetes device plugin's allocator; they compare, and mean no bandwidth.
func (inv Inventory) Affinity(a, b int) int {
	i := slices.IndexFunc(inv.Links, func(l Link) bool { return l.A == a && l.B == b || l.A == b && l.B == a })
	if i < 0 {
		return 0
	}
	l := inv.Links[i]
	return 100*l.NVLinks + pathScores[l.Path]
}

var pathScores = map[Path]int{PathBoard: 60, PathSwitch: 50, PathSwitches: 40, PathHostBridge: 30, PathNode: 20, PathSystem: 10}

// Holds is for how many nodes there are units, so many for each.
func Holds(free []Unit, each int) int {
	if each <= 0 {
		return 0
	}
	most := 0
	for _, kind := range kinds(free, each) {
		most = max(most, len(kind)/each)
	}
	return most
}

// kinds are the sets of which a gang may be made. Whole GPUs go together, and come first; of instances those of one profile, the largest
// first. A process cannot use two instances, so that a node that is to have several GPUs has whole ones.
func kinds(free []Unit, each int) [][]Unit {
	var whole []Unit
	var instances [][]Unit
	for _, u := range free {
		if !u.MIG {
			whole = append(whole, u)
			continue
		}
		i := slices.IndexFunc(instances, func(k []Unit) bool { return k[0].Model == u.Model })
		if i < 0 {
			instances = append(instances, nil)
			i = len(instances) - 1
		}
		instances[i] = append(instances[i], u)
	}
	slices.SortStableFunc(instances, func(a, b []Unit) int { return cmp.Compare(b[0].Memory, a[0].Memory) })
	if each > 1 {
		return [][]Unit{whole}
	}
	return append([][]Unit{whole}, instances...)
}

// Place divides units among nodes, so many for each, such that those of a node are connected as well as they can be; then, such that all of
// them are; then, such that those that stay free are, for the next. ok is false when there are too few.
func (inv Inventory) Place(free []Unit, nodes, each int) (placed [][]Unit, ok bool) {
	for _, kind := range kinds(free, each) {
		if need := nodes * each; need > 0 && len(kind) >= need {
			return inv.place(kind, nodes, each), true
		}
	}
	return nil, false
}

func (inv Inventory) place(units []Unit, nodes, each int) [][]Unit {
	need := nodes * each
	if units[0].MIG || need > maxSearched {
		return slices.Collect(slices.Chunk(units[:need], each))
	}
	units = units[:min(len(units), maxSearched)]
	s := newSearch(inv, units, each)
	all := set(1)<<len(units) - 1
	best, bestScore := set(0), [3]int{-1}
	subsets(all, need, func(chosen set) {
		score := [3]int{s.divide(chosen), s.weight[chosen], s.weight[all&^chosen]}
		if slices.Compare(score[:], bestScore[:]) > 0 {
			best, bestScore = chosen, score
		}
	})
	var placed [][]Unit
	for best != 0 {
		var node []Unit
		for group := s.first[best]; group != 0; group &= group - 1 {
			node = append(node, units[bits.TrailingZeros32(uint32(group))])
		}
		placed = append(placed, node)
		best &^= s.first[best]
	}
	return placed
}

// set is one of units, by a bit for each.
type set uint32

// search knows of each set of units how well it is connected.
type search struct {
	each   int
	weight []int       // of a set: the sum over its pairs
	best   map[set]int // of a set that was divided among nodes: the sum of the nodes' weights
	first  map[set]set // and the node that has its first unit
}

func newSearch(inv Inventory, units []Unit, each int) *search {
	s := &search{each: each, weight: make([]int, 1<<len(units)), best: map[set]int{0: 0}, first: map[set]set{}}
	affinity := make([][]int, len(units))
	for i, a := range units {
		affinity[i] = make([]int, len(units))
		for j, b := range units {
			if i != j {
				affinity[i][j] = inv.Affinity(a.GPU, b.GPU)
			}
		}
	}
	for u := 1; u < len(s.weight); u++ {
		low, rest := bits.TrailingZeros(uint(u)), u&(u-1)
		s.weight[u] = s.weight[rest]
		for ; rest != 0; rest &= rest - 1 {
			s.weight[u] += affinity[low][bits.TrailingZeros(uint(rest))]
		}
	}
	return s
}

// divide divides a set among nodes in the best way, and returns the sum of their weights.
func (s *search) divide(of set) int {
	if known, ok := s.best[of]; ok {
		return known
	}
	low := of & -of
	best := -1
	subsets(of&^low, s.each-1, func(others set) {
		if sum := s.weight[low|others] + s.divide(of&^(low|others)); sum > best {
			best, s.first[of] = sum, low|others
		}
	})
	s.best[of] = best
	return best
}

// subsets calls do with each subset of n elements, those with the first elements first.
func subsets(of set, n int, do func(set)) {
	var choose func(from, chosen set, n int)
	choose = func(from, chosen set, n int) {
		if n == 0 {
			do(chosen)
			return
		}
		for ; bits.OnesCount32(uint32(from)) >= n; from &= from - 1 {
			choose(from&(from-1), chosen|from&-from, n-1)
		}
	}
	choose(of, 0, n)
}
