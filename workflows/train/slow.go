package train

import "github.com/sluiceml/sluice/training/protocol"

// slow names the node that the others waited for, by what the agents said at the end.
func (l *generation) slow() string {
	work := map[int]*protocol.StepWork{}
	for i, n := range l.nodes {
		work[i] = n.result.Work
	}
	return protocol.SlowNode(work)
}
