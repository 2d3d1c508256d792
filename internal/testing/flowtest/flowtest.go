// Package flowtest is where the unit tests of workflows and activities run: Temporal's test environments, and counters of what they count.
package flowtest

import (
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"

	"github.com/sluiceml/sluice/internal/fault/boundary"
)

// New is an environment in which time passes only where nothing is under way. Its limits are for a busy machine: at the first activity the
// SDK reads the whole binary of the test, within what it otherwise takes for a deadlock.
func New(metrics ...client.MetricsHandler) *testsuite.TestWorkflowEnvironment {
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(log.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	for _, handler := range metrics {
		suite.SetMetricsHandler(handler)
	}
	env := suite.NewTestWorkflowEnvironment()
	env.SetTestTimeout(2 * time.Minute)
	env.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: asWorkers})
	return env
}

// Activities is an environment of activities alone.
func Activities() *testsuite.TestActivityEnvironment {
	var suite testsuite.WorkflowTestSuite
	return suite.NewTestActivityEnvironment().SetWorkerOptions(worker.Options{Interceptors: asWorkers})
}

// asWorkers is what all workers have.
var asWorkers = []interceptor.WorkerInterceptor{&boundary.Interceptor{}}
