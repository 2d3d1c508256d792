package pipelines

import (
	"context"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
	"github.com/sluiceml/sluice/pipelines/transform"
)

func init() {
	register.DoFn4x1[context.Context, string, func(*[]byte) bool, func(string, []byte), error](&combineFn{})
}

// combineFn runs a segment that begins at a Combine. Each element holds the marks of one group; a group is a unit.
type combineFn struct{ segmentFn }

// ProcessElement passes one group to a worker and emits the results that other workers have finished. Memory: a bounded number of the
// group's marks, and one row.
func (f *combineFn) ProcessElement(ctx context.Context, key string, packed func(*[]byte) bool, emit func(string, []byte)) error {
	_, group, _ := strings.Cut(key, "/")
	unit, err := strconv.ParseUint(group, 10, 32)
	if err != nil {
		return err
	}
	refs, err := spill.Collect(packed)
	if err != nil {
		return f.session.failed(err)
	}
	f.start(ctx, uint32(unit), func(u *task) error {
		done, err := u.session.turn(u.ctx)
		if err != nil {
			return err
		}
		defer done()
		return u.combine(f.job.WorkDir, key, refs)
	})
	f.emit(ctx, emit)
	return nil
}

// sortMarks is a variable so that tests can see with how many marks at a time it is used.
var sortMarks = spill.Sorted

// combine merges all rows with the same key into one. They are processed in an order that depends only on their content, so the result does
// not depend on the order in which they arrived.
func (u *task) combine(work, key string, refs []spill.Reference) error {
	c := u.entry().end.(*transform.Combiner)
	spills := spill.NewFiles(work)
	defer spills.Close()
	var made *transform.Combined
	end := func() error {
		if made == nil {
			return nil
		}
		from, text, err := made.Row()
		if err != nil {
			return err
		}
		u.counts[[2]string{account.CountDropped, c.Name}] += made.Rows - 1
		return u.resume(from, text)
	}
	var last rows.Digest
	err := sortMarks(work, key, refs, spill.MaxSorted, func(list []spill.Mark) error {
		for _, m := range list {
			if err := context.Cause(u.ctx); err != nil {
				return err
			}
			if made == nil || m.Key != last {
				if err := end(); err != nil {
					return err
				}
				made, last = c.Begin(), m.Key
			}
			from, text, err := spills.Record(m)
			if err != nil {
				return err
			}
			if err := made.Add(from, text); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return end()
}
