package control

import (
	"context"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
)

// deliverLimit bounds how long a process that carries runs stays for the sake of their news.
const deliverLimit = 5 * time.Second

// Deliver waits until those who want to hear of a run that has ended have heard of it, or deliverLimit is over. With the process that
// holds the state folder ends what delivers; the rest is sent when Sluice is next up.
func (s *Session) Deliver(ctx context.Context, run string) {
	ctx, cancel := context.WithTimeout(ctx, deliverLimit)
	defer cancel()
	desc, err := s.Client.DescribeWorkflowExecution(ctx, contract.RunWorkflowID(run), "")
	if err != nil || connect.IsRunning(desc.GetWorkflowExecutionInfo().GetStatus()) {
		return
	}
	for _, child := range desc.GetPendingChildren() {
		if child.GetWorkflowTypeName() == contract.NotifyWorkflow {
			_ = s.Client.GetWorkflow(ctx, child.GetWorkflowId(), child.GetRunId()).Get(ctx, nil) // how it went is that workflow's to say
		}
	}
}
