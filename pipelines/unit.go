package pipelines

import (
	"context"
	"errors"
	"fmt"
	"strconv"
)

// unitWork takes the rows of one unit through a segment.
type unitWork struct {
	unitResult
	ctx     context.Context
	unit    uint32
	segment segment
	plan    *plan
	session *session
	spill   *spill
	dead    deadLetter
}

func (s *segmentFn) newUnit(ctx context.Context, unit uint32) (*unitWork, error) {
	sp, err := createSpill(spillPath(s.job.WorkDir, s.Index, unit))
	if err != nil {
		return nil, err
	}
	return &unitWork{
		unitResult: unitResult{marks: map[string][]byte{}, counts: map[[2]string]int64{}},
		ctx:        ctx,
		unit:       unit,
		segment:    s.plan.segments[s.Index],
		plan:       s.plan,
		session:    s.session,
		spill:      sp,
		dead:       deadLetter{path: deadPath(s.job.WorkDir, s.Index, unit)},
	}, nil
}

// close closes the unit's files.
func (u *unitWork) close() error { return errors.Join(u.spill.close(), u.dead.close()) }

// read takes one row of an input file through the segment.
func (u *unitWork) read(name string, r record) error {
	u.counts[[2]string{countRead, allRead}]++
	u.session.rowRead()
	from := origin{name, r.offset}
	if r.rejected != nil {
		text := string(r.text[:min(len(r.text), maxDeadText+4)])
		return u.reject(u.plan.sourceName, from, clip(text, maxDeadText), r.rejected)
	}
	return u.pass(from, r.row)
}

// resume takes one row of a spill file through the segment.
func (u *unitWork) resume(from origin, text []byte) error {
	r, err := decodeRow(text)
	if err != nil {
		return fmt.Errorf("a row of a spill file: %w", err)
	}
	return u.pass(from, r)
}

// pass applies the segment's transforms and its end to a row.
func (u *unitWork) pass(from origin, r row) error { return u.passFrom(0, from, r) }

// passFrom is pass without the first transforms.
func (u *unitWork) passFrom(first int, from origin, r row) error {
	if err := context.Cause(u.ctx); err != nil {
		return err
	}
	for i, t := range u.segment.transforms[first:] {
		if t.explode != nil {
			return u.explode(t, first+i+1, from, r)
		}
		var drop *dropped
		switch err := u.apply(t, r); {
		case err == nil:
		case errors.As(err, &drop):
			u.counts[[2]string{countDropped, t.rule(drop)}]++
			return nil
		default:
			return u.reject(t.name, from, r, err)
		}
	}
	return u.finish(from, r)
}

// finish takes a row through the end of the segment.
func (u *unitWork) finish(from origin, r row) error {
	text, err := encodeRow(r)
	if err != nil {
		return err
	}
	if err := tooLong(text); err != nil {
		return u.reject(u.plan.sinkName, from, clip(string(text[:maxDeadText+4]), maxDeadText), err)
	}
	name, group, m, err := u.end(r, text)
	if err != nil {
		return u.reject(name, from, r, err)
	}
	record, json, err := u.spill.add(from, text)
	if err != nil {
		return err
	}
	m.unit, m.offset, m.size = u.unit, record, uint32(len(text))
	if u.segment.dedup == nil {
		m.offset = json
	}
	u.marks[group] = m.append(u.marks[group])
	return nil
}

// apply applies one transform to a row.
func (u *unitWork) apply(t rowTransform, r row) error {
	var err error
	if t.count != nil {
		err = t.count(r, func(space, name string) { u.counts[[2]string{space, name}]++ })
	} else {
		err = t.apply(r)
	}
	if t.threshold != nil {
		var why *rejection
		if over := u.tried(t, errors.As(err, &why)); over != nil {
			return over
		}
	}
	return err
}

// end returns the mark of a row at the end of the segment, its group, and the name of the transform that asks for it.
func (u *unitWork) end(r row, text []byte) (name, group string, m mark, err error) {
	if d := u.segment.dedup; d != nil {
		m, err = d.mark(r, text)
		return d.name, strconv.Itoa(bucket(m.key, groups)), m, err
	}
	part, err := u.plan.split.part(r)
	if err != nil {
		return u.plan.split.name, "", m, err
	}
	m.key = digestOf(text)
	m.tie = m.key
	return u.plan.sinkName, shardPath(part, bucket(m.key, u.plan.shards), u.plan.shards), m, nil
}

// reject writes a row to the dead letter if err is a rejection; any other error it returns.
func (u *unitWork) reject(transform string, from origin, element any, err error) error {
	var why *rejection
	if e := (*Error)(nil); errors.As(err, &e) {
		return e // it says where
	}
	if !errors.As(err, &why) {
		return fmt.Errorf("transform %s, row at byte %d of %s: %w", transform, from.offset, from.name, err)
	}
	u.counts[[2]string{countRejected, transform + "/" + why.reason}]++
	return u.dead.add(deadRow{
		Element: element, Transform: transform, Reason: why.reason, Message: why.message, Source: from.name, Offset: from.offset,
	})
}
