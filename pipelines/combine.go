package pipelines

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/apache/beam/sdks/v2/go/pkg/beam/register"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
	"github.com/sluiceml/sluice/pipelines/transform"
)

func init() {
	register.DoFn4x1[context.Context, string, func(*[]byte) bool, func(string, []byte), error](&combineFn{})
}

// combiner is a compiled Combine. It spills of a row what it needs: {"by": [values of the fields], "of": [values to combine]}.
type combiner struct {
	name   string
	by     []string
	fields []combined
}

// combined is a field that is computed of many rows.
type combined struct {
	name  string
	value *dsl.RowProgram // nil: a count of rows
	fn    string
}

func compileCombine(t spec.Transform, params map[string]any) (end, error) {
	c, err := rows.DecodeConfig[dsl.Combine](t)
	if err != nil {
		return nil, err
	}
	if len(c.Combine) == 0 {
		return nil, fmt.Errorf("combine: name a field to compute")
	}
	d := &combiner{name: t.Name, by: c.GroupBy}
	for _, name := range slices.Sorted(maps.Keys(c.Combine)) {
		f := combined{name: name, fn: c.Combine[name].Fn}
		switch {
		case slices.Contains(c.GroupBy, name):
			return nil, fmt.Errorf("combine: the rows have the field %s of group_by already", name)
		case transform.Aggregates[f.fn] == nil:
			return nil, fmt.Errorf("combine: %s: there is no function %q", name, f.fn)
		case c.Combine[name].Value != "":
			if f.value, err = dsl.CompileRow(c.Combine[name].Value, params); err != nil {
				return nil, fmt.Errorf("combine: %s: %w", name, err)
			}
		case f.fn != "count":
			return nil, fmt.Errorf("combine: %s: %s needs a value", name, f.fn)
		}
		d.fields = append(d.fields, f)
	}
	return d, nil
}

// take implements end: the rows that become one are in one group.
func (c *combiner) take(to []byte, r rows.Row) (text []byte, group string, m spill.Mark, err error) {
	by, of := make([]any, len(c.by)), make([]any, len(c.fields))
	for i, name := range c.by {
		var ok bool
		if by[i], ok = r[name]; !ok {
			return nil, "", m, rows.Reject("missing_field", "the row has no field %s", name)
		}
	}
	for i, f := range c.fields {
		if f.value == nil {
			continue
		}
		if of[i], err = f.value.Eval(r); err != nil {
			return nil, "", m, rows.RejectEval(f.name, err)
		}
		if err := transform.Aggregates[f.fn]().Check(of[i]); err != nil {
			return nil, "", m, rows.Reject("expression", "%s: %v", f.name, err)
		}
	}
	if m.Key, err = rows.KeyOf(by); err != nil {
		return nil, "", m, err
	}
	if text, err = rows.Append(to, rows.Row{"by": by, "of": of}); err != nil {
		return nil, "", m, err
	}
	m.Tie = rows.DigestOf(text)
	return text, strconv.Itoa(m.Key.Bucket(groups)), m, nil
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
	err = spill.Fetch(f.job.WorkDir, refs, func(batch []byte) error {
		return spill.EachMark(batch, func(m spill.Packed) { rows = append(rows, m.Mark()) })
	})
	if err != nil {
		return f.session.failed(err)
	}
	f.start(ctx, uint32(unit), func(u *unitWork) error { return u.combine(f.job.WorkDir, rows) })
	f.emit(ctx, emit)
	return nil
}

// combine makes a row of all that are equal in their key. They are taken in the order of what they hold, so that it does not matter in
// which they came.
func (u *unitWork) combine(work string, list []spill.Mark) error {
	c := u.entry.end.(*combiner)
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
		from, text, err := c.merge(list[:n], func(m spill.Mark) (rows.Origin, []byte, error) {
			if err := context.Cause(u.ctx); err != nil {
				return rows.Origin{}, nil, err
			}
			return spills.Record(m)
		})
		if err != nil {
			return err
		}
		u.counts[[2]string{account.CountDropped, c.name}] += int64(n - 1)
		if err := u.resume(from, text); err != nil {
			return err
		}
		list = list[n:]
	}
	return nil
}

// merge makes one row of several. It stands for the one that was read first, by the name of its file.
func (c *combiner) merge(list []spill.Mark, read func(spill.Mark) (rows.Origin, []byte, error)) (first rows.Origin, text []byte, err error) {
	all := make([]transform.Aggregate, len(c.fields))
	for i, f := range c.fields {
		all[i] = transform.Aggregates[f.fn]()
	}
	made := rows.Row{}
	for i, m := range list {
		from, text, err := read(m)
		if err != nil {
			return first, nil, err
		}
		r, err := rows.Decode(text)
		if err != nil {
			return first, nil, fmt.Errorf("a row of a spill file: %w", err)
		}
		by, of := r["by"].([]any), r["of"].([]any)
		for i, v := range of {
			if v != nil || c.fields[i].value == nil {
				all[i].Add(v)
			}
		}
		if i == 0 {
			for i, name := range c.by {
				made[name] = by[i]
			}
		}
		if i == 0 || cmp.Or(strings.Compare(from.Name, first.Name), cmp.Compare(from.Offset, first.Offset)) < 0 {
			first = from
		}
	}
	for i, f := range c.fields {
		if made[f.name], err = all[i].Value(); err != nil {
			return first, nil, fault.New(fault.User, "transform %s: %s: %w", c.name, f.name, err)
		}
	}
	text, err = rows.Encode(made)
	return first, text, err
}
