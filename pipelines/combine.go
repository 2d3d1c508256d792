package pipelines

import (
	"bytes"
	"cmp"
	"context"
	"slices"
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

// ProcessElement hands one group to a worker and emits what others have finished. Memory: the marks of the group, and one row.
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
	var rows []spill.Mark
	if err := spill.FetchMarks(f.job.WorkDir, refs, func(m spill.Packed) { rows = append(rows, m.Mark()) }); err != nil {
		return f.session.failed(err)
	}
	f.start(ctx, uint32(unit), func(u *task) error { return u.combine(f.job.WorkDir, rows) })
	f.emit(ctx, emit)
	return nil
}

// combine makes a row of all that are equal in their key. They are taken in the order of what they hold, so that it does not matter in
// which they came.
func (u *task) combine(work string, list []spill.Mark) error {
	c := u.entry().end.(*transform.Combiner)
	slices.SortFunc(list, func(a, b spill.Mark) int {
		return cmp.Or(bytes.Compare(a.Key[:], b.Key[:]), bytes.Compare(a.Tie[:], b.Tie[:]))
	})
	spills := spill.NewFiles(work)
	defer spills.Close()
	for len(list) > 0 {
		n := slices.IndexFunc(list, func(m spill.Mark) bool { return m.Key != list[0].Key })
		if n < 0 {
			n = len(list)
		}
		from, text, err := c.Merge(list[:n], func(m spill.Mark) (rows.Origin, []byte, error) {
			if err := context.Cause(u.ctx); err != nil {
				return rows.Origin{}, nil, err
			}
			return spills.Record(m)
		})
		if err != nil {
			return err
		}
		u.counts[[2]string{account.CountDropped, c.Name}] += int64(n - 1)
		if err := u.resume(from, text); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}
