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

// SlowNode names the node whose ranks work much longer on a step than those of the other nodes, and for which they wait: one line, empty when
// there is none or too little is known. work is that of each node by its index, nil where nothing is known of a node.
func SlowNode(work map[int]*StepWork) string {
	var nodes []int
	for node, w := range work {
		if w != nil && w.Steps >= slowAfter {
			nodes = append(nodes, node)
		}
	}
	if len(nodes) < 2 {
		return ""
	}
	slices.SortFunc(nodes, func(a, b int) int { return cmp.Or(cmp.Compare(work[a].Seconds, work[b].Seconds), cmp.Compare(a, b)) })
	slowest := nodes[len(nodes)-1]
	others := nodes[:len(nodes)-1]
	usual := work[others[len(others)/2]].Seconds
	if w := work[slowest]; w.Seconds > slowFactor*usual {
		return fmt.Sprintf("node %d: rank %d works %.3g s on a step, those of the other nodes %.3g s", slowest, w.Rank, w.Seconds, usual)
	}
	return ""
}
