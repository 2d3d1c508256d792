package embedded

import (
	"context"
	"strings"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	tokenpb "go.temporal.io/server/api/token/v1"
	"go.temporal.io/server/common/authorization"
)

// claimMapper turns the authorization header of a call into claims: the state folder's token into all rights, an agent's into its
// queue prefix and run, anything else into none.
type claimMapper struct{ token Token }

// GetClaims returns nil claims, and no error, for a token that is not ours: the authorizer then says what is missing.
func (m claimMapper) GetClaims(info *authorization.AuthInfo) (*authorization.Claims, error) {
	given := strings.TrimPrefix(info.AuthToken, "Bearer ")
	if equal(given, string(m.token)) {
		return &authorization.Claims{Subject: "owner", System: authorization.RoleAdmin}, nil
	}
	if agent, ok := m.token.parseAgentToken(given); ok {
		return &authorization.Claims{Subject: "agent", Extensions: agent}, nil
	}
	return nil, nil
}

// authorizer lets the owner, and the server's own system workers on the internal frontend, do everything, and an agent what its
// claims allow.
type authorizer struct{}

var (
	allow = authorization.Result{Decision: authorization.DecisionAllow}

	denyStranger = authorization.Result{
		Decision: authorization.DecisionDeny,
		Reason:   "this server belongs to a Sluice state folder and requires the token from its file .sluice/token (header \"authorization: Bearer ...\")",
	}
	denyAgent = authorization.Result{
		Decision: authorization.DecisionDeny,
		Reason:   "an agent's token allows only its own task queues, its own run's activities, and signals to and a look at its own run",
	}
)

// Authorize decides one call.
func (authorizer) Authorize(_ context.Context, claims *authorization.Claims, call *authorization.CallTarget) (authorization.Result, error) {
	if claims == nil {
		return denyStranger, nil
	}
	if claims.System == authorization.RoleAdmin {
		return allow, nil
	}
	agent, ok := claims.Extensions.(*agentClaims)
	if ok && allowsAgent(agent, call) {
		return allow, nil
	}
	return denyAgent, nil
}

// allowsAgent lists everything that an agent may do. The type of a request identifies its method, because no two methods share one.
func allowsAgent(agent *agentClaims, call *authorization.CallTarget) bool {
	switch call.Request.(type) {
	case *workflowservice.GetSystemInfoRequest, *workflowservice.GetClusterInfoRequest:
		return true // the server's version, which the SDK asks for when it connects
	}
	if call.Namespace != Namespace {
		return false
	}
	switch r := call.Request.(type) {
	case *workflowservice.DescribeNamespaceRequest, *workflowservice.RecordWorkerHeartbeatRequest:
		return true
	case *workflowservice.PollActivityTaskQueueRequest:
		return strings.HasPrefix(r.GetTaskQueue().GetName(), agent.QueuePrefix)
	case *workflowservice.ShutdownWorkerRequest:
		return strings.HasPrefix(r.GetTaskQueue(), agent.QueuePrefix)
	case *workflowservice.PollNexusTaskQueueRequest:
		// The queue on which a worker is told that an activity was canceled. Its name contains a random UUID of that worker.
		return r.GetTaskQueue().GetKind() == enums.TASK_QUEUE_KIND_WORKER_COMMANDS
	case *workflowservice.RespondNexusTaskCompletedRequest:
		return isWorkerCommand(r.GetTaskToken())
	case *workflowservice.RespondNexusTaskFailedRequest:
		return isWorkerCommand(r.GetTaskToken())
	case *workflowservice.SignalWorkflowExecutionRequest:
		return agent.owns(r.GetWorkflowExecution().GetWorkflowId())
	case *workflowservice.DescribeWorkflowExecutionRequest:
		return agent.owns(r.GetExecution().GetWorkflowId()) // whether it is still open
	case *workflowservice.RecordActivityTaskHeartbeatRequest:
		return agent.ownsTask(r.GetTaskToken())
	case *workflowservice.RespondActivityTaskCompletedRequest:
		return agent.ownsTask(r.GetTaskToken())
	case *workflowservice.RespondActivityTaskFailedRequest:
		return agent.ownsTask(r.GetTaskToken())
	case *workflowservice.RespondActivityTaskCanceledRequest:
		return agent.ownsTask(r.GetTaskToken())
	}
	return false
}

// ownsTask reports whether a task token is of a workflow of the run. Temporal does not sign tokens, so without this check an agent could
// forge one for any run. A token with a component reference belongs to an activity without a workflow, and the server would look it up by
// that reference and not by the ID of the workflow.
func (c *agentClaims) ownsTask(token []byte) bool {
	var task tokenpb.Task
	return task.Unmarshal(token) == nil && len(task.GetComponentRef()) == 0 && c.owns(task.GetWorkflowId())
}

// isWorkerCommand reports whether a Nexus task came from the queue on which a worker is told of canceled activities.
func isWorkerCommand(token []byte) bool {
	var task tokenpb.NexusTask
	return task.Unmarshal(token) == nil && task.GetTaskQueueKind() == enums.TASK_QUEUE_KIND_WORKER_COMMANDS
}
