package connect

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/common/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/poll"
)

// namespaceRetention is how long a namespace that is created here keeps workflows that have ended. Records of runs are in the store.
const namespaceRetention = 3 * 24 * time.Hour

// requireNamespace returns an error if a cluster lacks the namespace. Other errors, such as a missing permission, show up later.
func requireNamespace(ctx context.Context, c client.Client, address, namespace string) error {
	_, err := c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if !isNoNamespace(err) {
		return nil
	}
	return fault.New(fault.Invalid, fmt.Sprintf(
		"namespace %s does not exist at %s\n"+
			"help: check TEMPORAL_NAMESPACE, or create it: sluice worker --create-namespace, or: temporal operator namespace create --namespace %s --address %s",
		namespace, address, namespace, address), err)
}

// createNamespace creates a namespace unless it exists, and waits until the services of the cluster know it, which takes them about 10 s.
func createNamespace(ctx context.Context, c client.Client, namespace string) error {
	server := c.WorkflowService()
	_, err := server.RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace:                        namespace,
		Description:                      "Sluice",
		WorkflowExecutionRetentionPeriod: durationpb.New(namespaceRetention),
	})
	if err != nil && !errors.As(err, new(*serviceerror.NamespaceAlreadyExists)) {
		return fmt.Errorf("create namespace %s: %w", namespace, err)
	}
	for range poll.Every(ctx, 200*time.Millisecond) {
		// The first call reaches the matching service, the second the history service.
		_, matching := server.DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: namespace, TaskQueue: &taskqueue.TaskQueue{Name: contract.TaskQueue}, TaskQueueType: enums.TASK_QUEUE_TYPE_WORKFLOW,
		})
		_, history := server.DescribeWorkflowExecution(ctx, &workflowservice.DescribeWorkflowExecutionRequest{
			Namespace: namespace, Execution: &common.WorkflowExecution{WorkflowId: "none"},
		})
		if !isNoNamespace(matching) && !isNoNamespace(history) {
			return nil
		}
	}
	return fmt.Errorf("wait until namespace %s is available: %w", namespace, context.Cause(ctx))
}

// isNoNamespace reports whether a call failed because the namespace does not exist.
func isNoNamespace(err error) bool { return errors.As(err, new(*serviceerror.NamespaceNotFound)) }
