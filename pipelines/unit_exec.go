package pipelines

import (
	"github.com/sluiceml/sluice/pipelines/program"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// reserved are the fields that say to a program and by it what a row's own fields cannot.
var reserved = []string{"_row", "_drop", "_reject"}

// ask takes a row to the program of an Exec. It goes on when the program has answered, which is by the end of the unit.
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

// answered takes a row on with what the program has made of it.
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
	return u.pass(n.next, from, a.Row)
}

// do works on the unit, until its last row has come to an end.
func (u *task) do(work func(*task) error) error {
	if err := work(u); err != nil {
		return err
	}
	return u.drain()
}

// looseRows is how many rows of a unit may wait for their place in the dead letter, about. Most units are smaller.
const looseRows = 1 << 20

// tidy drains the unit now and then.
func (u *task) tidy() error {
	if u.rows++; u.rows%looseRows != 0 {
		return nil
	}
	return u.drain()
}

// drain waits for the answers to all rows, of a program before one that its rows go on to, and orders what was rejected.
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

// stopFeeds gives the programs back.
func (u *task) stopFeeds() {
	for _, f := range u.feeds {
		f.Close()
	}
}
