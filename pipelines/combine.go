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

// combineFn runs a segment that begins at a Combine. Its elements are the marks of one group, which is the unit.
type combineFn struct{ segmentFn }

// ProcessElement hands one group to a worker and emits what others have finished. Memory: some marks of the group, and one row.
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

// combine makes a row of all that are equal in their key. They are taken in the order of what they hold, so that it does not matter in
// which they came.
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
	err := spill.Sorted(work, key, refs, spill.MaxSorted, func(list []spill.Mark) error {
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
