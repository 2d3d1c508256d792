// Package noop makes a worker of the real engine in which what a step does is nothing, for tests and benchmarks of the engine itself.
package noop

import (
	"context"
	"encoding/json"
	"errors"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/internal/fault/boundary"
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/workflows"
)

// Step does what a `run` step does.
type Step func(context.Context, record.StepInput) (record.StepOutput, error)

// Nothing does nothing; its outputs are n, which is 1.
func Nothing(context.Context, record.StepInput) (record.StepOutput, error) {
	return record.StepOutput{Outputs: json.RawMessage(`{"n":1}`)}, nil
}

// Worker makes a worker with the engine's workflows and activities, in which step takes the place of the users' programs.
func Worker(c client.Client, s *store.Store, step Step) worker.Worker {
	w := worker.New(c, contract.TaskQueue, worker.Options{ // as real workers have it
		MaxConcurrentLocalActivityExecutionSize: 200, Interceptors: []interceptor.WorkerInterceptor{&boundary.Interceptor{}, &heartbeat.Interceptor{}},
	})
	engine := engine.NewEngine(s)
	for name, f := range map[string]any{
		contract.PipelineWorkflow: workflows.Pipeline, contract.LaneWorkflow: workflows.Lane, contract.ApprovalWorkflow: workflows.Approval,
	} {
		w.RegisterWorkflowWithOptions(f, workflow.RegisterOptions{Name: name})
	}
	for name, f := range map[string]any{
		contract.BeginActivity: engine.Begin, contract.ResolveActivity: engine.Resolve, contract.ExpandActivity: engine.Expand,
		contract.VerdictActivity: engine.Verdict, contract.GatherActivity: engine.Gather, contract.FinishActivity: engine.Finish,
		contract.ChildActivity: engine.Child, contract.SyncActivity: engine.Sync, contract.RecordActivity: engine.Record,
		contract.RunActivity: engine.WithVerdict(step),
	} {
		w.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	return w
}

// Submit stores a pipeline, and returns the input of runs of it that take nothing over from earlier ones.
func Submit(ctx context.Context, s *store.Store, source string) (contract.RunInput, error) {
	sub := record.Submission{File: "pipeline.yaml", Pipeline: []byte(source)}
	program, diags := dsl.Compile(document.File{Name: sub.File, Source: sub.Pipeline}, document.File{}, nil)
	if program == nil {
		return contract.RunInput{}, errors.New(diags.Text(false))
	}
	digest, err := record.WriteBlob(ctx, s, sub)
	return contract.RunInput{
		Name: program.Pipeline().Name, Submission: digest, Graph: program.Graph(), Reuse: record.Reuse{NoCache: true},
	}, err
}
