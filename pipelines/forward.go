package pipelines

import (
	"context"

	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
)

// sinkAfter returns the node of the sink that receives all rows of an entry unchanged, or -1.
func (p *plan) sinkAfter(entry int) int {
	for next := p.nodes[entry].next; len(next) == 1; {
		n := &p.nodes[next[0]]
		if _, ok := n.end.(*sink); ok {
			return next[0]
		}
		if n.end != nil || n.row != nil {
			return -1
		}
		next = n.next
	}
	return -1
}

// again passes a row of a spill file through the segment. If the segment leads straight to a sink, the row is not written again: the sink's
// mark refers to it where it is.
func (u *task) again(id spill.ID, offset uint64, from rows.Origin, text []byte) error {
	if u.straight < 0 {
		return u.resume(from, text)
	}
	if u.ctx.Err() != nil {
		return context.Cause(u.ctx)
	}
	n := &u.plan.nodes[u.straight]
	s := n.end.(*sink)
	var r rows.Row
	if s.looks() {
		var err error
		if r, _, err = rows.Unpack(text); err != nil {
			return err
		}
	}
	u.files.Of(from.Name).Reached[u.at()]--
	group, m, err := s.mark(r, text)
	if err != nil {
		return u.reject(n.blames, from, map[string]any(r), err)
	}
	m.ID, m.Offset, m.Size = id, offset, uint32(len(text))
	return u.mark(u.straight, group, m, from)
}

// maxMarks bounds the marks that a unit holds in memory, in bytes, so that all workers together use a fixed share of the job's memory. The
// share allows for slices, which need more than twice their size while they grow. Few units reach it: large files that must be read by one
// worker, and rows with many bands.
func (j *Job) maxMarks() int { return int(j.Memory) / 8 / j.Parallelism }

// mark adds a mark to a group of an end.
func (u *task) mark(at int, group string, m spill.Mark, from rows.Origin) error {
	key := groupKey{at, group}
	before := len(u.marks[key])
	u.marks[key] = m.Append(u.marks[key])
	u.files.Of(from.Name).Reached[at]++
	if u.held += len(u.marks[key]) - before; u.held <= u.job.maxMarks() {
		return nil
	}
	u.caching = false // a cache entry must hold all marks of its piece
	return u.putMarksAside()
}
