package control

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/api/deployment/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"

	"github.com/sluiceml/sluice/activities/contract"
)

// unattendedTimeout bounds the questions: a server that is stopped answers neither.
const unattendedTimeout = 3 * time.Second

// Unattended says why no worker carries a workflow on: that of a run, or of a training or rollout. It is empty when one may, or when
// Temporal does not tell. Temporal knows of a worker for five minutes after its end.
func (s *Session) Unattended(ctx context.Context, workflowID string) string {
	ctx, cancel := context.WithTimeout(ctx, unattendedTimeout)
	defer cancel()
	described, err := s.Client.DescribeWorkflowExecution(ctx, workflowID, "")
	if err != nil {
		return ""
	}
	taskQueue := described.GetExecutionConfig().GetTaskQueue().GetName()
	queue, err := s.Client.DescribeTaskQueue(ctx, taskQueue, enums.TASK_QUEUE_TYPE_WORKFLOW)
	if err != nil {
		return ""
	}
	if len(queue.GetPollers()) == 0 {
		start := "`sluice worker`"
		if taskQueue == contract.HostQueue {
			start += " without --stateless"
		}
		return "no worker polls the task queue " + taskQueue + ": start " + start
	}
	build := described.GetWorkflowExecutionInfo().GetVersioningInfo().GetDeploymentVersion()
	return unattended(queue.GetPollers(), queue.GetVersioningInfo().GetCurrentDeploymentVersion(), build)
}

// unattended is Unattended for the workers of the task queue, the build that new runs begin on, and the one that the workflow has begun on;
// nil for none.
func unattended(workers []*taskqueue.PollerInfo, current, begun *deployment.WorkerDeploymentVersion) string {
	build := begun
	if build == nil {
		build = current
	}
	for _, w := range workers {
		of := w.GetDeploymentOptions()
		versioned := of.GetWorkerVersioningMode() == enums.WORKER_VERSIONING_MODE_VERSIONED
		if versioned == (build != nil) && (!versioned || of.GetDeploymentName() == build.GetDeploymentName() && of.GetBuildId() == build.GetBuildId()) {
			return ""
		}
	}
	if build == nil {
		of := workers[0].GetDeploymentOptions()
		return fmt.Sprintf("no build of worker deployment %s is the current one: `sluice worker set-current --deployment %[1]s --build-id %s` lets new runs start",
			of.GetDeploymentName(), of.GetBuildId())
	}
	return fmt.Sprintf("no worker of build %s is running, but the run needs that build: start one with `sluice worker --deployment %s --build-id %[1]s`",
		build.GetBuildId(), build.GetDeploymentName())
}
