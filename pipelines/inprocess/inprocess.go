// Package inprocess is a Beam runner that executes a graph in this process: it opens no port, starts no process and encodes no element.
//
// A graph is cut into stages, each from an Impulse or a GroupByKey to the GroupByKeys that its elements come to. A stage is one bundle, which
// Beam's own execution nodes work through in one goroutine; a DoFn that has much to do brings its workers. Stages that wait for nothing run
// side by side, as many as there are processors. What is grouped is in memory, so elements should be few and small.
//
// It knows Impulse, ParDo without side inputs, state, timers and restrictions, GroupByKey, and Flatten where a GroupByKey follows, all in
// the global window. It refuses any other graph.
package inprocess

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

// Name is the name that Beam knows the runner by.
const Name = "inprocess"

func init() { beam.RegisterRunner(Name, Execute) }

// Execute runs a pipeline to its end. The first DoFn that returns an error or panics ends it with that error, and the context of the others.
// When ctx ends, Execute returns its cause, as soon as the DoFns have returned.
//
// DoFns are used as they lie in the graph, so that a pipeline can be executed once only.
func Execute(ctx context.Context, p *beam.Pipeline) (beam.PipelineResult, error) {
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
	work = metrics.SetBundleID(work, Name) // the outermost context, or Beam does not find where to count
	var running errgroup.Group
	processors := make(chan struct{}, runtime.GOMAXPROCS(0))
	for _, s := range stages {
		running.Go(func() error {
			err := s.run(work, processors)
			if err != nil {
				stop(err) // of several, the first is the cause: the others may fail because of it
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

// run executes the stage, as one bundle, when those before it have ended and a processor is free.
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
	plan, err := exec.NewPlan(Name, s.units)
	if err != nil {
		return err
	}
	err = plan.Execute(ctx, Name, exec.DataContext{})
	if downErr := plan.Down(ctx); err == nil { // of a plan that failed, Down tells the same again
		err = downErr
	}
	if err != nil {
		return innermost(err)
	}
	close(s.done)
	return nil
}

// innermost is what went wrong, without the execution plan that it went wrong in.
func innermost(err error) error {
	for errors.Unwrap(err) != nil {
		err = errors.Unwrap(err)
	}
	return err
}

// result is what is known of a pipeline that has ended.
type result struct{ counted metrics.Results }

// Metrics returns what the DoFns counted.
func (r result) Metrics() metrics.Results { return r.counted }

// JobID is empty: there is no service to ask by it.
func (r result) JobID() string { return "" }
