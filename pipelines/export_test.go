package pipelines

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	"google.golang.org/protobuf/proto"
)

// RunOn has the graphs of this process run by another runner of Beam's, by its name.
func RunOn(runner string) { ownRunner = runner }

// GraphOf is the graph of a job as a job service is given it.
func GraphOf(ctx context.Context, job Job) ([]byte, error) {
	s := openSession(job)
	defer sessions.Delete(job.WorkDir)
	s.programs = newPrograms(ctx, job.Programs)
	defer s.programs.close()
	p, err := compilePlan(job)
	if err != nil {
		return nil, err
	}
	sources, _, err := p.findSources(ctx, s.Settle)
	if err != nil {
		return nil, err
	}
	graph, err := build(job, p, sources)
	if err != nil {
		return nil, err
	}
	edges, _, err := graph.Build()
	if err != nil {
		return nil, err
	}
	env, err := graphx.CreateEnvironment(ctx, graphx.URNEnvExternal, func(context.Context) string { return "localhost:1" })
	if err != nil {
		return nil, err
	}
	pipeline, err := graphx.Marshal(edges, &graphx.Options{Environment: env})
	if err != nil {
		return nil, err
	}
	return proto.Marshal(pipeline)
}
