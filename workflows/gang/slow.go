package gang

import "github.com/sluiceml/sluice/training/protocol"

// slow names the node that the others waited for, by what the agents said at the end.
func (l *generation) slow() string {
	var work []protocol.NodeWork
	for i, n := range l.nodes {
		work = append(work, protocol.NodeWork{Node: i, Work: n.result.Work})
	}
	return protocol.SlowNode(work)
}
