package flowtest

import (
	"context"
	"testing"

	"go.temporal.io/sdk/testsuite"
)

// InActivity runs f as an activity does.
func InActivity(t *testing.T, f func(context.Context)) {
	t.Helper()
	env := new(testsuite.WorkflowTestSuite).NewTestActivityEnvironment()
	body := func(ctx context.Context) error { f(ctx); return nil }
	env.RegisterActivity(body)
	if _, err := env.ExecuteActivity(body); err != nil {
		t.Fatal(err)
	}
}
