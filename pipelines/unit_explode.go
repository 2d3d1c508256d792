package pipelines

import (
	"errors"

	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// explode passes on the rows that an Explode makes of a row.
func (u *task) explode(n *node, from rows.Origin, r rows.Row) error {
	made := int64(0)
	err := n.row.Explode(r, func(r rows.Row) error {
		if made++; made > 1 {
			u.files.Of(from.Name).Read++
			u.counts[[2]string{account.CountExploded, n.name}]++
			u.session.read.Add(1)
		}
		return u.pass(n.next, from, r)
	})
	if made > 0 {
		return errors.Join(err, u.watched(n, nil))
	}
	if err = u.watched(n, err); err != nil {
		return u.leave(n, from, r, err)
	}
	u.files.Of(from.Name).Dropped[n.name]++
	return nil
}
