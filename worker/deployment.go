package worker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/api/deployment/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/poll"
)

// Deployment names a version of a worker deployment (Temporal's Worker Versioning): a build of Sluice that works for a cluster.
type Deployment struct{ Name, BuildID string }

// The variables that name a worker's deployment where flags do not. Temporal's Worker Controller for Kubernetes sets them.
const (
	DeploymentVariable = "TEMPORAL_DEPLOYMENT_NAME"
	BuildIDVariable    = "TEMPORAL_WORKER_BUILD_ID"
)

// Check returns an error when half of the name is missing, or when Temporal would refuse it. A worker only logs that it is refused.
func (d Deployment) Check() error {
	switch {
	case (d.Name == "") != (d.BuildID == ""):
		return fmt.Errorf("a worker deployment needs a name and a build ID: set both --deployment ($%s) and --build-id ($%s), or neither", DeploymentVariable, BuildIDVariable)
	case strings.ContainsAny(d.Name, ".:"):
		return fmt.Errorf("the name of a worker deployment cannot contain `.` or `:`, and %q does", d.Name)
	}
	return nil
}

// options are the SDK's of a versioned worker; none without a deployment.
func (d Deployment) options() worker.DeploymentOptions {
	if d == (Deployment{}) {
		return worker.DeploymentOptions{}
	}
	return worker.DeploymentOptions{
		UseVersioning:             true,
		Version:                   worker.WorkerDeploymentVersion{DeploymentName: d.Name, BuildID: d.BuildID},
		DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
	}
}

// autoUpgrade are the workflows that belong to no run and can live for ever. Pinned, a watch would give the runs that it starts to the
// build that it began with, and that build could never be stopped. A new build goes on with them as it does where nothing is versioned:
// recorded histories of both are replayed by tests.
var autoUpgrade = []string{contract.LockWorkflow, contract.WatchWorkflow}

// behaviorOf says what Worker Versioning does with a workflow; unspecified for what Deployment.options says.
func behaviorOf(workflowType string) workflow.VersioningBehavior {
	if slices.Contains(autoUpgrade, workflowType) {
		return workflow.VersioningBehaviorAutoUpgrade
	}
	return workflow.VersioningBehaviorUnspecified
}

// BuildStatus is where a build of a deployment is in its life.
type BuildStatus string

// A build that was current, or took part of the new runs, is draining while runs that began on it are open, and drained after.
const (
	BuildInactive BuildStatus = "inactive"
	BuildRamping  BuildStatus = "ramping"
	BuildCurrent  BuildStatus = "current"
	BuildDraining BuildStatus = "draining"
	BuildDrained  BuildStatus = "drained"
)

// Build is a version of a deployment, as Temporal knows it.
type Build struct {
	BuildID string      `json:"build_id"`
	Status  BuildStatus `json:"status"`
	// OpenRuns are the runs, child pipelines included, that stay with the build until they end.
	OpenRuns int64 `json:"open_runs"`
	// FirstSeen is when a worker of the build was first there.
	FirstSeen time.Time `json:"first_seen"`
}

// Builds returns the builds of a deployment, the newest first.
func Builds(ctx context.Context, c *connect.Connection, name string) ([]Build, error) {
	info, err := describeDeployment(ctx, c, name)
	if err != nil {
		return nil, err
	}
	builds := make([]Build, len(info.GetVersionSummaries()))
	for i, version := range info.GetVersionSummaries() {
		id := version.GetDeploymentVersion().GetBuildId()
		counted, err := c.Client.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{
			Namespace: c.Info.Namespace,
			Query: fmt.Sprintf("TemporalWorkerDeploymentVersion = %q AND WorkflowType = %q AND ExecutionStatus = 'Running'",
				name+":"+id, contract.PipelineWorkflow),
		})
		if err != nil {
			return nil, fmt.Errorf("count the open runs of build %s: %w", id, err)
		}
		builds[i] = Build{BuildID: id, Status: cmp.Or(statusOf[version.GetStatus()], BuildInactive), OpenRuns: counted.GetCount(), FirstSeen: version.GetCreateTime().AsTime()}
	}
	slices.SortFunc(builds, func(a, b Build) int {
		return cmp.Or(b.FirstSeen.Compare(a.FirstSeen), cmp.Compare(a.BuildID, b.BuildID))
	})
	return builds, nil
}

// CurrentBuild returns the build that new runs begin on; empty while none is.
func CurrentBuild(ctx context.Context, c *connect.Connection, name string) (string, error) {
	info, err := describeDeployment(ctx, c, name)
	if fault.TypeOf(err) == fault.Invalid { // no worker of it has been here before
		return "", nil
	}
	return info.GetRoutingConfig().GetCurrentDeploymentVersion().GetBuildId(), err
}

// statusOf has no line for what has not been current yet.
var statusOf = map[enums.WorkerDeploymentVersionStatus]BuildStatus{
	enums.WORKER_DEPLOYMENT_VERSION_STATUS_CURRENT:  BuildCurrent,
	enums.WORKER_DEPLOYMENT_VERSION_STATUS_RAMPING:  BuildRamping,
	enums.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINING: BuildDraining,
	enums.WORKER_DEPLOYMENT_VERSION_STATUS_DRAINED:  BuildDrained,
}

func describeDeployment(ctx context.Context, c *connect.Connection, name string) (*deployment.WorkerDeploymentInfo, error) {
	answer, err := c.Client.WorkflowService().DescribeWorkerDeployment(ctx, &workflowservice.DescribeWorkerDeploymentRequest{
		Namespace: c.Info.Namespace, DeploymentName: name,
	})
	if connect.IsNotFound(err) {
		return nil, fault.New(fault.Invalid, fmt.Sprintf("there is no worker deployment %s in namespace %s of %s\n"+
			"help: it is created by its first worker: sluice worker --deployment %s --build-id ID", name, c.Info.Namespace, c.Info.TemporalAddress, name), err)
	}
	if err != nil {
		return nil, fmt.Errorf("ask for worker deployment %s: %w", name, err)
	}
	return answer.GetWorkerDeploymentInfo(), nil
}

// sayAfter is when it is said what is waited for.
const sayAfter = 2 * time.Second

// makeCurrentTimeout is how long the workers of a build may take to become known: they may just have been started.
const makeCurrentTimeout = 30 * time.Second

// MakeCurrent makes a build the current one of its deployment: runs that are started after it has returned begin on that build, and those
// that are open stay where they are. It returns the build that was current before, empty for none, and whether workers of the build take
// trainings and rollouts. waits is called with what it waits for, where that takes more than two seconds.
func MakeCurrent(ctx context.Context, c *connect.Connection, d Deployment, waits func(what string)) (before string, hosts bool, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, makeCurrentTimeout, fmt.Errorf("not within %v", makeCurrentTimeout))
	defer cancel()
	err = eventually(ctx, func() { waits("until a worker of build " + d.BuildID + " is known to Temporal") }, func() (bool, error) {
		if before, err = CurrentBuild(ctx, c, d.Name); err == nil {
			_, err = c.Client.WorkflowService().SetWorkerDeploymentCurrentVersion(ctx, &workflowservice.SetWorkerDeploymentCurrentVersionRequest{
				Namespace: c.Info.Namespace, DeploymentName: d.Name, BuildId: d.BuildID, Identity: "sluice",
			})
		}
		return !isNotReady(err), err
	})
	if isNotReady(err) {
		return "", false, fault.New(fault.Invalid, fmt.Sprintf("build %s of worker deployment %s cannot be made the current one: %v\n"+
			"help: start its workers first: sluice worker --deployment %s --build-id %s", d.BuildID, d.Name, err, d.Name, d.BuildID), err)
	}
	if err != nil {
		return "", false, fmt.Errorf("make build %s of worker deployment %s the current one: %w", d.BuildID, d.Name, err)
	}
	began := time.Now()
	err = eventually(ctx, func() { waits("until all partitions of the task queues know it") }, func() (bool, error) {
		info, err := describeDeployment(ctx, c, d.Name)
		if err != nil || info.GetRoutingConfigUpdateState() != enums.ROUTING_CONFIG_UPDATE_STATE_IN_PROGRESS {
			return true, err
		}
		if time.Since(began) < propagatedWithin {
			return false, nil
		}
		return queuesKnow(ctx, c, d)
	})
	if err != nil {
		return "", false, fmt.Errorf("build %s of worker deployment %s is the current one, but not all task queues know it: %w", d.BuildID, d.Name, err)
	}
	hosts, err = takesHosts(ctx, c, d)
	return before, hosts, err
}

// propagatedWithin is how long the update state of a deployment is relied on. On a busy server it sometimes stays in progress for good after all
// task queues have been told (seen with server 1.32), so the queues themselves are asked from then on. The partitions of a
// queue hear of a change from its root, which is the one that answers, within milliseconds.
const propagatedWithin = 5 * time.Second

// queuesKnow reports whether all task queues of a build have it as the current one.
func queuesKnow(ctx context.Context, c *connect.Connection, d Deployment) (bool, error) {
	queues, err := queuesOf(ctx, c, d)
	if err != nil {
		return true, err
	}
	for _, queue := range queues {
		answer, err := c.Client.WorkflowService().DescribeTaskQueue(ctx, &workflowservice.DescribeTaskQueueRequest{
			Namespace: c.Info.Namespace, TaskQueue: &taskqueue.TaskQueue{Name: queue.GetName()}, TaskQueueType: queue.GetType(),
		})
		if err != nil {
			return true, fmt.Errorf("ask task queue %s for its current build: %w", queue.GetName(), err)
		}
		if answer.GetVersioningInfo().GetCurrentDeploymentVersion().GetBuildId() != d.BuildID {
			return false, nil
		}
	}
	return true, nil
}

// eventually asks again and again until there is an answer, a server that is too busy too. When ctx ends before, the error is the last of
// those that were no answer, or else the cause of the end. long is called once, when that takes long.
func eventually(ctx context.Context, long func(), ask func() (done bool, err error)) error {
	var last error
	say := time.AfterFunc(sayAfter, long)
	defer say.Stop()
	for range poll.Every(ctx, 200*time.Millisecond) {
		done, err := ask()
		switch {
		case connect.IsBusy(err):
		case done:
			return err
		default:
			last = err
		}
	}
	return cmp.Or(last, context.Cause(ctx))
}

// isNotReady reports whether the workers of a build are not all known yet.
func isNotReady(err error) bool {
	return connect.IsNotFound(err) || errors.As(err, new(*serviceerror.FailedPrecondition))
}

// takesHosts reports whether workers of a build take trainings and rollouts.
func takesHosts(ctx context.Context, c *connect.Connection, d Deployment) (bool, error) {
	queues, err := queuesOf(ctx, c, d)
	for _, queue := range queues {
		if queue.GetName() == contract.HostQueue {
			return true, nil
		}
	}
	return false, err
}

// queuesOf lists the task queues that workers of a build have polled.
func queuesOf(ctx context.Context, c *connect.Connection, d Deployment) ([]*workflowservice.DescribeWorkerDeploymentVersionResponse_VersionTaskQueue, error) {
	answer, err := c.Client.WorkflowService().DescribeWorkerDeploymentVersion(ctx, &workflowservice.DescribeWorkerDeploymentVersionRequest{
		Namespace:         c.Info.Namespace,
		DeploymentVersion: &deployment.WorkerDeploymentVersion{DeploymentName: d.Name, BuildId: d.BuildID},
	})
	if err != nil {
		return nil, fmt.Errorf("ask for build %s of worker deployment %s: %w", d.BuildID, d.Name, err)
	}
	return answer.GetVersionTaskQueues(), nil
}
