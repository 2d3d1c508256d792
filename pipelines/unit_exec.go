package pipelines

import (
	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/pipelines/program"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// reserved are the fields of the protocol with programs, which rows must not have.
var reserved = []string{"_row", "_drop", "_reject"}

// ask sends a row to the program of an Exec. The row continues when the program has answered, at the latest when the unit ends.
func (u *task) ask(at int, from rows.Origin, r rows.Row) error {
	n := &u.plan.nodes[at]
	for _, field := range reserved {
		if _, ok := r[field]; ok {
			return u.answered(n, from, r, program.Answer{Reject: "reserved_field", Message: "a row for a program must not have the field " + field})
		}
	}
	u.dead.Unordered = true
	text, err := rows.Encode(r)
	if err != nil {
		return err
	}
	f, ok := u.feeds[at]
	if !ok {
		f = n.row.Program.Feed()
		u.feeds[at] = f
	}
	return f.Send(u.ctx, text, func(a program.Answer) error { return u.answered(n, from, r, a) })
}

// answered continues with a row that the program has answered.
func (u *task) answered(n *node, from rows.Origin, r rows.Row, a program.Answer) error {
	var err error
	switch {
	case a.Drop != "":
		err = &rows.Dropped{Rule: a.Drop}
	case a.Reject != "":
		err = &rows.Rejection{Reason: a.Reject, Message: a.Message}
	}
	if err = u.watched(n, err); err != nil {
		return u.leave(n, from, r, err)
	}
	value.Restore(map[string]any(r), map[string]any(a.Row)) // programs see JSON
	return u.pass(n.next, from, a.Row)
}

// do processes the unit until its last row has reached an end.
func (u *task) do(work func(*task) error) error {
	if err := work(u); err != nil {
		return err
	}
	return u.drain()
}

// looseRows is about how many rows a unit reads before its dead letter is sorted, which bounds the rejected rows that wait for it. Most
// units are smaller.
const looseRows = 1 << 20

// tidy drains the unit every looseRows rows.
func (u *task) tidy() error {
	if u.rows++; u.rows%looseRows != 0 {
		return nil
	}
	return u.drain()
}

// drain waits for the answers to all rows, in plan order, since the rows of one program may go on to the next, and sorts the dead letter.
func (u *task) drain() error {
	for at := range u.plan.nodes {
		if f, ok := u.feeds[at]; ok {
			if err := f.Flush(u.ctx); err != nil {
				return err
			}
		}
	}
	return u.dead.Order()
}

// stopFeeds releases the programs.
func (u *task) stopFeeds() {
	for _, f := range u.feeds {
		f.Close()
	}
}
