package protocol

import (
	"cmp"
	"fmt"
	"slices"
)

const (
	// slowFactor is how much longer than the other nodes a slow one works on a step.
	slowFactor = 1.5
	// slowAfter is how many steps must have been measured on each node.
	slowAfter = 10
)

// StepWork is how long the slowest rank of a node works on a step, without its waits for the other ranks, as its script says.
type StepWork struct {
	Rank int `json:"rank"`
	// Seconds is the median of its last steps, of which there are Steps.
	Seconds float64 `json:"seconds"`
	Steps   int     `json:"steps"`
}

// NodeWork is the work of a node, by its index; Work is nil where nothing is known of it.
type NodeWork struct {
	Node int
	Work *StepWork
}

// SlowNode names the node whose ranks work much longer on a step than those of the other nodes, and for which they wait: one line, empty when
// there is none or too little is known.
func SlowNode(nodes []NodeWork) string {
	nodes = slices.DeleteFunc(slices.Clone(nodes), func(n NodeWork) bool { return n.Work == nil || n.Work.Steps < slowAfter })
	if len(nodes) < 2 {
		return ""
	}
	slices.SortFunc(nodes, func(a, b NodeWork) int {
		return cmp.Or(cmp.Compare(a.Work.Seconds, b.Work.Seconds), cmp.Compare(a.Node, b.Node))
	})
	others, slowest := nodes[:len(nodes)-1], nodes[len(nodes)-1]
	usual := others[len(others)/2].Work.Seconds
	if w := slowest.Work; w.Seconds > slowFactor*usual {
		return fmt.Sprintf("node %d: rank %d works %.3g s on a step, those of the other nodes %.3g s", slowest.Node, w.Rank, w.Seconds, usual)
	}
	return ""
}
