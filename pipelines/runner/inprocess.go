// Package runner runs Beam graphs: in this process, or on a runner with Beam's job API, such as Flink. It is independent of what the graphs
// do.
//
// # In this process
//
// The runner InProcess executes a graph in this process: it opens no port, starts no process and encodes no elements.
//
// A graph is cut into stages, each from an Impulse or a GroupByKey to the next GroupByKeys. A stage is one bundle, which Beam's own
// execution nodes process in one goroutine; a DoFn with much work should use workers of its own. Stages that do not wait for others run
// concurrently, up to GOMAXPROCS of them. Grouped elements are held in memory, so they should be few and small.
//
// It supports Impulse, ParDo without side inputs, state, timers and restrictions, GroupByKey, and Flatten where a GroupByKey follows, all
// in the global window. It rejects any other graph.
//
// # On a cluster
//
// RunJob runs a graph by Beam's job API. It replaces Beam's own universal.Execute, which builds a worker with the Go compiler, treats a
// canceled job as successful, and leaves the job running on the cluster when its caller is gone.
//
// StartFlink starts the job server that runs Beam graphs on Apache Flink: a Java process, which also contains the Flink cluster unless it is
// given the address of one.
package runner

import (
	"context"
	"errors"
	"fmt"
	"runtime"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/metrics"
	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/exec"
	"golang.org/x/sync/errgroup"
)

// InProcess is the name under which the runner is registered with Beam.
const InProcess = "inprocess"

func init() { beam.RegisterRunner(InProcess, ExecuteInProcess) }

// ExecuteInProcess runs a pipeline to its end. The first DoFn that returns an error or panics ends it with that error and cancels the context of the
// others. When ctx ends, ExecuteInProcess returns its cause as soon as the DoFns have returned.
//
// DoFns are used directly from the graph, so a pipeline can be executed only once.
func ExecuteInProcess(ctx context.Context, p *beam.Pipeline) (beam.PipelineResult, error) {
	edges, _, err := p.Build()
	if err != nil {
		return nil, fmt.Errorf("build the graph: %w", err)
	}
	stages, err := cut(edges)
	if err != nil {
		return nil, err
	}
	work, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	work = metrics.SetBundleID(work, InProcess) // must be the outermost context, or Beam does not find the counters
	var running errgroup.Group
	processors := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, s := range stages {
		running.Go(func() error {
			err := s.run(work, processors)
			if err != nil {
				stop(err) // the first error is the cause; others may follow from it
			}
			return err
		})
	}
	err = running.Wait()
	switch {
	case ctx.Err() != nil:
		return nil, context.Cause(ctx)
	case err != nil:
		return nil, context.Cause(work)
	}
	return result{metrics.ResultsExtractor(work)}, nil
}

// run executes the stage as one bundle, when the stages before it have ended and a slot is free.
func (s *stage) run(ctx context.Context, processors chan struct{}) error {
	for _, before := range s.after {
		select {
		case <-before.done:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
	processors <- struct{}{}
	defer func() { <-processors }()
	plan, err := exec.NewPlan(InProcess, s.units)
	if err != nil {
		return err
	}
	err = plan.Execute(ctx, InProcess, exec.DataContext{})
	if downErr := plan.Down(ctx); err == nil { // for a failed plan, Down returns the same error
		err = downErr
	}
	if err != nil {
		return innermost(err)
	}
	close(s.done)
	return nil
}

// innermost unwraps an error, to leave out the description of Beam's execution plan.
func innermost(err error) error {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

// result is the result of a pipeline that has ended.
type result struct{ counted metrics.Results }

// Metrics returns what the DoFns counted.
func (r result) Metrics() metrics.Results { return r.counted }

// JobID is empty: there is no job service.
func (r result) JobID() string { return "" }
