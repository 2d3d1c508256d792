package pipelines

import (
	"context"
	"path/filepath"

	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/meter"
	"github.com/sluiceml/sluice/pipelines/shard"
)

// shards returns the number of shards, and how many of them are converted to another format.
func (p *plan) shards() (written, converted int64) {
	for s := range p.sinks() {
		n := int64(len(s.parts()) * s.shards)
		if written += n; s.format.Open != nil {
			converted += n
		}
	}
	return written, converted
}

// convertShards converts the shards of all sinks whose format is not JSON lines.
func convertShards(ctx context.Context, job Job, p *plan, progress *meter.Phase) error {
	types, err := p.typesAt(job)
	if err != nil {
		return err
	}
	for at, n := range p.nodes {
		s, ok := n.end.(*sink)
		if !ok || s.format.Open == nil {
			continue
		}
		var paths []string
		for path := range s.paths() {
			paths = append(paths, filepath.Join(job.WorkDir, "out", path))
		}
		workers := max(1, min(job.Parallelism, int(job.Memory/format.ConvertMemory)))
		if err := shard.Convert(ctx, paths, s.format, types[at], workers, progress.Shard); err != nil {
			return err
		}
	}
	return nil
}
