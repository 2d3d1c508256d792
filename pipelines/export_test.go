package pipelines

import (
	"context"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/core/runtime/graphx"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceml/sluice/pipelines/spill"
)

// RunOn has the graphs of this process run by another runner of Beam's, by its name.
func RunOn(runner string) { ownRunner = runner }

// SortLess has the groups of Combine sorted in batches that are smaller by a factor than usual. It calls seen with the number of marks of
// each batch, possibly concurrently.
func SortLess(factor int64, seen func(marks int)) {
	sortMarks = func(work, group string, refs []spill.Reference, limit int64, yield func([]spill.Mark) error) error {
		return spill.Sorted(work, group, refs, limit/factor, func(list []spill.Mark) error {
			seen(len(list))
			return yield(list)
		})
	}
}

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
