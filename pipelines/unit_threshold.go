package pipelines

import (
	"sync/atomic"

	"github.com/sluiceml/sluice/pipelines/account"
)

// judgedFrom is the least number of rows for which the share of rejected rows is meaningful.
const judgedFrom = 1000

// tally counts the rows that a transform in this process has seen and rejected.
type tally struct{ seen, rejected atomic.Int64 }

// tried counts a row that reached a transform with a threshold. From judgedFrom rows on, it returns an error if the threshold is exceeded.
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
