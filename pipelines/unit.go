package pipelines

import (
	"context"
	"errors"
	"fmt"

	"github.com/sluiceml/sluice/pipelines/program"
)

// unitWork takes the rows of one unit through a segment.
type unitWork struct {
	unitResult
	ctx     context.Context
	unit    uint32
	segment uint16
	entry   *node
	plan    *plan
	session *session
	spill   *spill
	dead    deadLetter
	feeds   map[int]*program.Feed // of the programs it has used, by node
}

func (s *segmentFn) newUnit(ctx context.Context, unit uint32) (*unitWork, error) {
	sp, err := createSpill(spillPath(s.job.WorkDir, uint16(s.Index), unit))
	if err != nil {
		return nil, err
	}
	return &unitWork{
		unitResult: unitResult{marks: map[string][]byte{}, counts: map[[2]string]int64{}},
		ctx:        ctx,
		unit:       unit,
		segment:    uint16(s.Index),
		entry:      s.entry(),
		plan:       s.plan,
		session:    s.session,
		spill:      sp,
		dead:       deadLetter{path: deadPath(s.job.WorkDir, s.Index, unit)},
		feeds:      map[int]*program.Feed{},
	}, nil
}

// close closes the unit's files, and lets go of its programs.
func (u *unitWork) close() error {
	u.stopFeeds()
	return errors.Join(u.spill.close(), u.dead.close())
}

// read takes one row of an input file through the segment.
func (u *unitWork) read(name string, r record) error {
	u.counts[[2]string{countRead, allRead}]++
	u.session.rowRead()
	from := origin{name, r.offset}
	if r.rejected != nil {
		text := string(r.text[:min(len(r.text), maxDeadText+4)])
		return u.reject(u.entry.name, from, clip(text, maxDeadText), r.rejected)
	}
	return u.pass(u.entry.next, from, r.row)
}

// resume takes one row of a spill file through the segment.
func (u *unitWork) resume(from origin, text []byte) error {
	r, err := decodeRow(text)
	if err != nil {
		return fmt.Errorf("a row of a spill file: %w", err)
	}
	return u.pass(u.entry.next, from, r)
}

// pass takes a row to the nodes that come next, and from there on to an end of the segment.
func (u *unitWork) pass(next []int, from origin, r row) error {
	if err := context.Cause(u.ctx); err != nil {
		return err
	}
	for {
		at := next[0]
		n := &u.plan.nodes[at]
		switch {
		case n.end != nil:
			return u.finish(at, from, r)
		case n.row == nil:
		case n.row.explode != nil:
			return u.explode(n, from, r)
		case n.row.program != nil:
			return u.ask(at, from, r)
		default:
			if err := u.apply(n.row, r); err != nil {
				return u.leave(n, from, r, err)
			}
		}
		next = n.next
	}
}

// leave counts a row that a transform has dropped or rejected; any other error it returns.
func (u *unitWork) leave(n *node, from origin, r row, err error) error {
	var drop *dropped
	if errors.As(err, &drop) {
		u.counts[[2]string{countDropped, n.row.rule(drop)}]++
		return nil
	}
	return u.reject(n.name, from, r, err)
}

// finish takes a row to an end of the segment.
func (u *unitWork) finish(at int, from origin, r row) error {
	n := &u.plan.nodes[at]
	text, group, m, err := n.end.take(r)
	if err != nil {
		return u.reject(n.rejects, from, r, err)
	}
	if err := tooLong(text); err != nil {
		return u.reject(n.name, from, clip(string(text[:maxDeadText+4]), maxDeadText), err)
	}
	if m.offset, err = u.spill.add(from, text); err != nil {
		return err
	}
	m.segment, m.unit, m.size = u.segment, u.unit, uint32(len(text))
	key := endPrefix(at) + group
	u.marks[key] = m.append(u.marks[key])
	return nil
}

// apply applies one transform to a row.
func (u *unitWork) apply(t *rowTransform, r row) error {
	var err error
	if t.count != nil {
		err = t.count(r, func(space, name string) { u.counts[[2]string{space, name}]++ })
	} else {
		err = t.apply(r)
	}
	return u.watched(t, err)
}

// watched returns what a transform said of a row, or that it has rejected too many.
func (u *unitWork) watched(t *rowTransform, err error) error {
	if t.threshold != nil {
		var why *rejection
		if over := u.tried(t, errors.As(err, &why)); over != nil {
			return over
		}
	}
	return err
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
