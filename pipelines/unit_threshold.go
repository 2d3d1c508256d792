package pipelines

import (
	"sync/atomic"

	"github.com/sluiceml/sluice/pipelines/account"
)

// judgedFrom is the number of rows from which on a share of rejected ones means something.
const judgedFrom = 1000

// tally counts the rows that came to a transform in this process, and those that it rejected.
type tally struct{ seen, rejected atomic.Int64 }

// tried counts a row that came to a transform with a threshold.
func (u *task) tried(n *node, rejected bool) error {
	u.counts[[2]string{account.CountTried, n.name}]++
	total := u.session.tally(n.name)
	seen, bad := total.seen.Add(1), total.rejected.Load()
	if rejected {
		u.counts[[2]string{account.CountFailed, n.name}]++
		bad = total.rejected.Add(1)
	}
	if rejected && seen >= judgedFrom {
		return n.threshold.Check(n.name, seen, bad)
	}
	return nil
}
