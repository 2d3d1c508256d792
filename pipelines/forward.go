package pipelines

import (
	"context"
	"fmt"

	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
)

// sinkAfter returns the node of the sink that all rows of an entry go to as they are, or -1.
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

// again takes a row of a spill file through the segment. Where nothing lies between here and a sink it stays as it is and where it lies.
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
		if r, err = rows.Decode(text); err != nil {
			return fmt.Errorf("a row of a spill file: %w", err)
		}
	}
	u.files.Of(from.Name).Reached[u.at()]--
	group, m, err := s.mark(r, text)
	if err != nil {
		return u.reject(n.blames, from, r, err)
	}
	m.ID, m.Offset, m.Size = id, offset, uint32(len(text))
	return u.mark(u.straight, group, m, from)
}

// maxMarks bounds the marks of a unit that are in memory, in bytes, so that those of all workers take a share of the job's memory: while a
// slice grows it takes more than twice as much. Few units have as many: a large file that one worker must read alone, or rows of many bands.
func (j *Job) maxMarks() int { return int(j.Memory) / 8 / j.Parallelism }

// mark adds a mark to those of a group of an end.
func (u *task) mark(at int, group string, m spill.Mark, from rows.Origin) error {
	key := groupKey{at, group}
	before := len(u.marks[key])
	u.marks[key] = m.Append(u.marks[key])
	u.files.Of(from.Name).Reached[at]++
	if u.held += len(u.marks[key]) - before; u.held <= u.job.maxMarks() {
		return nil
	}
	u.caching = false // an entry has all marks of its piece
	return u.putMarksAside()
}
