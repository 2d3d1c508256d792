package control

import (
	"testing"

	"go.temporal.io/api/deployment/v1"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/taskqueue/v1"
)

func TestUnattended(t *testing.T) {
	worker := func(build string) *taskqueue.PollerInfo {
		mode := enums.WORKER_VERSIONING_MODE_VERSIONED
		if build == "" {
			mode = enums.WORKER_VERSIONING_MODE_UNVERSIONED
		}
		return &taskqueue.PollerInfo{DeploymentOptions: &deployment.WorkerDeploymentOptions{DeploymentName: "d", BuildId: build, WorkerVersioningMode: mode}}
	}
	version := func(build string) *deployment.WorkerDeploymentVersion {
		if build == "" {
			return nil
		}
		return &deployment.WorkerDeploymentVersion{DeploymentName: "d", BuildId: build}
	}
	const noCurrent = "no build of worker deployment d is the current one: `sluice worker set-current --deployment d --build-id one` lets new runs start"
	for _, test := range []struct {
		workers              []string // by their builds
		current, begun, want string
	}{
		{[]string{""}, "", "", ""},
		{[]string{"one"}, "", "", noCurrent},
		{[]string{"one", ""}, "", "", ""},
		{[]string{"one"}, "one", "", ""},
		{[]string{"two"}, "two", "two", ""},
		{[]string{"two", ""}, "two", "one", "no worker of build one is running, but the run needs that build: start one with `sluice worker --deployment d --build-id one`"},
	} {
		var workers []*taskqueue.PollerInfo
		for _, build := range test.workers {
			workers = append(workers, worker(build))
		}
		if got := unattended(workers, version(test.current), version(test.begun)); got != test.want {
			t.Errorf("workers %q, %q is current and the run began on %q: %q, want %q", test.workers, test.current, test.begun, got, test.want)
		}
	}
}
