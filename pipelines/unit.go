package pipelines

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/format"
	"github.com/sluiceml/sluice/pipelines/program"
	"github.com/sluiceml/sluice/pipelines/rows"
	"github.com/sluiceml/sluice/pipelines/spill"
)

// task passes the rows of one unit through a segment.
type task struct {
	*segmentFn
	unitResult
	ctx     context.Context
	id      spill.ID
	spill   *spill.File
	dead    spill.DeadLetter
	files   account.FileCounts
	feeds   map[int]*program.Feed // of the programs used so far, by node
	caching bool                  // the result of the current piece is to be cached
	held    int                   // bytes of marks in memory
	text    []byte                // buffer for the encoding of a row that reaches an end
	asides  int                   // how often marks were written to a file
	rows    int                   // rows read
	// straight is the sink that all rows go to unchanged, or -1.
	straight int
}

func (s *segmentFn) newUnit(ctx context.Context, unit uint32) (*task, error) {
	id := spill.ID{Segment: s.Index, Unit: unit}
	sp, err := spill.Create(spill.Path(s.job.WorkDir, id))
	if err != nil {
		return nil, err
	}
	return &task{
		segmentFn:  s,
		unitResult: newUnitResult(),
		ctx:        ctx,
		id:         id,
		straight:   s.plan.sinkAfter(s.at()),
		spill:      sp,
		dead:       spill.DeadLetter{Path: spill.DeadPath(s.job.WorkDir, id)},
		feeds:      map[int]*program.Feed{},
	}, nil
}

// close closes the unit's files and releases its programs.
func (u *task) close() error {
	u.stopFeeds()
	u.files.Total(u.counts)
	return errors.Join(u.spill.Close(), u.dead.Close(), u.files.Write(account.UnitPath(u.job.WorkDir, u.id.Segment, u.id.Unit)))
}

// putMarksAside writes the unit's marks to a file and keeps references to them.
func (u *task) putMarksAside() error {
	if len(u.marks) == 0 {
		return nil
	}
	var packs []spill.Pack
	for key, packed := range u.marks {
		packs = append(packs, spill.Pack{Key: key.String(), Data: packed})
	}
	slices.SortFunc(packs, func(a, b spill.Pack) int { return strings.Compare(a.Key, b.Key) })
	refs, err := spill.PutAside(u.job.WorkDir, spill.AsideName("marks", fmt.Sprintf("%d-%d.%d", u.id.Segment, u.id.Unit, u.asides)), packs)
	u.packs = append(u.packs, refs...)
	clear(u.marks)
	u.held = 0
	u.asides++
	return err
}

// read passes one row of an input file through the segment.
func (u *task) read(name string, r format.Record) error {
	if err := u.tidy(); err != nil {
		return err
	}
	u.files.Of(name).Read++
	u.session.read.Add(1)
	from := rows.Origin{Name: name, Offset: r.Offset}
	entry := u.entry()
	if why, ok := errors.AsType[*rows.Rejection](r.Rejected); ok && why.Reason == rows.ReasonDamaged {
		if !entry.source.Tolerant {
			return fault.Errorf(fault.User, "transform %s: %s cannot be read: %s\nhelp: replace the file, exclude it from `path`, or set `on_unreadable: reject` to go on without its rows",
				entry.name, name, why.Message)
		}
		u.lost(entry, name, r)
	}
	if err := u.watched(entry, r.Rejected); err != nil {
		text := string(r.Text[:min(len(r.Text), rows.MaxText+4)])
		return u.refuse(entry, entry.name, from, rows.Clip(text, rows.MaxText), err)
	}
	return u.pass(entry.next, from, r.Row)
}

// maxLost bounds the rows that a corrupt file may claim.
const maxLost = 1 << 40

// lost counts the rows that cannot be read, but for the one that is rejected as a row.
func (u *task) lost(entry *node, name string, r format.Record) {
	if more := min(r.Lost, maxLost) - 1; more > 0 && entry.rejects == "" {
		u.files.Of(name).Read += more
		u.session.read.Add(more)
		u.files.Of(name).Rejected[entry.name+"/"+rows.ReasonDamaged] += more
	}
}

// resume passes one row of a spill file through the segment.
func (u *task) resume(from rows.Origin, text []byte) error {
	if err := u.tidy(); err != nil {
		return err
	}
	r, _, err := rows.Unpack(text)
	if err != nil {
		return err
	}
	u.files.Of(from.Name).Reached[u.at()]-- // the row goes on from the cut
	return u.pass(u.entry().next, from, r)
}

// pass passes a row to the next nodes, and from there on to the ends of the segment.
func (u *task) pass(next []int, from rows.Origin, r rows.Row) error {
	if u.ctx.Err() != nil {
		return context.Cause(u.ctx)
	}
	for len(next) == 1 {
		n := &u.plan.nodes[next[0]]
		switch {
		case n.end != nil:
			return u.finish(next[0], from, r)
		case n.row == nil:
			next = n.next
			continue
		case n.row.Explode != nil:
			return u.explode(n, from, r)
		case n.row.Program != nil:
			return u.ask(next[0], from, r)
		}
		to, err := u.apply(n, r)
		if err != nil {
			return u.leave(n, from, r, err)
		}
		next = to
	}
	return u.copies(next, from, r)
}

// copies passes a row to several nodes. Only the map is cloned: transforms replace a row's values but do not modify them.
func (u *task) copies(next []int, from rows.Origin, r rows.Row) error {
	for i := range next {
		mine := r
		if i < len(next)-1 {
			mine = maps.Clone(r)
			u.files.Of(from.Name).Read++
			u.counts[[2]string{account.CountCopied, account.AllRead}]++
			u.session.read.Add(1)
		}
		if err := u.pass(next[i:i+1], from, mine); err != nil {
			return err
		}
	}
	return nil
}

// leave counts a dropped row, or forwards a rejected one to refuse. It returns any other error.
func (u *task) leave(n *node, from rows.Origin, r rows.Row, err error) error {
	if drop, ok := errors.AsType[*rows.Dropped](err); ok {
		u.files.Of(from.Name).Dropped[n.row.Rule(drop)]++
		return nil
	}
	return u.refuse(n, n.name, from, map[string]any(r), err)
}

// refuse passes a row that a node has rejected to the node's output for rejected rows, or else to the dead letter, under a name.
func (u *task) refuse(n *node, name string, from rows.Origin, element any, err error) error {
	why, ok := errors.AsType[*rows.Rejection](err)
	if n.rejects == "" || !ok {
		return u.reject(name, from, element, err)
	}
	return u.pass(n.outputs[n.rejects], from, rows.Row{
		"element": element, "reason": why.Reason, "message": rows.Clip(why.Message, rows.MaxMessage),
		"source": from.Name, "offset": from.Offset,
	})
}

// maxRoom bounds the size of the buffer that is kept for encoding rows: most are smaller.
const maxRoom = 1 << 20

// finish writes a row that reaches an end of the segment to the spill file, and adds its mark.
func (u *task) finish(at int, from rows.Origin, r rows.Row) error {
	n := &u.plan.nodes[at]
	text, group, m, err := n.end.Take(u.text[:0], r)
	if room := 2 * len(text); room > cap(u.text) && room <= maxRoom {
		u.text = make([]byte, 0, room)
	}
	name, element := n.blames, any(map[string]any(r))
	if err == nil {
		if err = rows.TooLong(text); err != nil {
			name, element = n.name, rows.Clip(string(text[:rows.MaxText+4]), rows.MaxText)
		}
	}
	if err = u.watched(n, err); err != nil {
		return u.refuse(n, name, from, element, err)
	}
	if m.Offset, err = u.spill.Add(from, text); err != nil {
		return err
	}
	m.ID, m.Size = u.id, uint32(len(text))
	return u.mark(at, group, m, from)
}

// apply applies a node's transform to a row and returns the next nodes.
func (u *task) apply(n *node, r rows.Row) (next []int, err error) {
	t := n.row
	next = n.next
	switch {
	case t.Count != nil:
		err = t.Count(r, func(space, name string) { u.counts[[2]string{space, name}]++ })
	case t.Profile != nil:
		err = u.see(n, r)
	case t.Route != nil:
		var output string
		output, err = t.Route(r)
		next = n.outputs[output]
	default:
		err = t.Apply(r)
	}
	return next, u.watched(n, err)
}

// watched counts a row towards the node's threshold. It returns err, or the threshold's error if too many rows were rejected.
func (u *task) watched(n *node, err error) error {
	if n.threshold != nil {
		_, rejected := errors.AsType[*rows.Rejection](err)
		if over := u.tried(n, rejected); over != nil {
			return over
		}
	}
	return err
}

// reject writes a row to the dead letter if err is a rejection. It returns any other error.
func (u *task) reject(transform string, from rows.Origin, element any, err error) error {
	if e, ok := errors.AsType[*fault.Error](err); ok {
		return e // its message already names the place
	}
	why, ok := errors.AsType[*rows.Rejection](err)
	if !ok {
		return fmt.Errorf("transform %s, row at byte %d of %s: %w", transform, from.Offset, from.Name, err)
	}
	u.files.Of(from.Name).Rejected[transform+"/"+why.Reason]++
	return u.dead.Add(spill.DeadRow{
		Element: element, Transform: transform, Reason: why.Reason, Message: why.Message, Source: from.Name, Offset: from.Offset,
	})
}
