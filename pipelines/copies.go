package pipelines

import "github.com/sluiceml/sluice/internal/fault"

// maxCopies bounds how many copies of one row a graph may make. Each time branches join in a Flatten and split again, the number
// multiplies.
const maxCopies = 1000

// boundCopies rejects a graph that makes more than maxCopies.
func (p *plan) boundCopies() error {
	copies := make([]int, len(p.nodes)) // by node: how many copies of a row that leaves it reach sinks
	of := func(takers []int) (sum int) {
		for _, at := range takers {
			sum += max(copies[at], 1)
		}
		return min(sum, maxCopies+1)
	}
	for at := len(p.nodes) - 1; at >= 0; at-- { // in reverse: a node's takers come before it
		n := &p.nodes[at]
		copies[at] = of(n.next)
		for _, takers := range n.outputs { // a row goes either to one of these outputs or to next
			copies[at] = max(copies[at], of(takers))
		}
		if n.source.Format != nil && copies[at] > maxCopies {
			return fault.Errorf(fault.Invalid, "transform %s: the graph makes more than %d copies of each row that it reads: where branches of the same rows "+
				"join in a Flatten and split again, the number of copies multiplies; join fewer of them", n.name, maxCopies)
		}
	}
	return nil
}
