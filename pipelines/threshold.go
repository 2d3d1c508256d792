package pipelines

import (
	"encoding/json"
	"fmt"
	"sync/atomic"

	"github.com/sluiceml/sluice/dsl"
)

// judgedFrom is the number of rows from which on a share of rejected ones means something.
const judgedFrom = 1000

// threshold is how many of its rows a transform may reject. The workers of a process judge together, as the rows come; what all
// processes have counted is judged at the end.
type threshold struct {
	share float64
}

// tally counts the rows that came to a transform in this process, and those that it rejected.
type tally struct{ seen, rejected atomic.Int64 }

// compileThreshold reads a transform's error_handling; nil when it has none.
func compileThreshold(t dsl.Transform) (*threshold, error) {
	var c struct {
		ErrorHandling *dsl.ErrorHandling `json:"error_handling"`
	}
	if len(t.Config) > 0 {
		if err := json.Unmarshal(t.Config, &c); err != nil {
			return nil, fmt.Errorf("config: %w", err)
		}
	}
	if c.ErrorHandling == nil || c.ErrorHandling.Threshold == nil {
		return nil, nil
	}
	return &threshold{share: float64(*c.ErrorHandling.Threshold)}, nil
}

// judge returns an error when more was rejected than may be.
func (h *threshold) judge(name string, seen, rejected int64) error {
	if float64(rejected) <= h.share*float64(seen) {
		return nil
	}
	return fault(TypeUser, "transform %s rejected %d of %d rows, which is more than the %s its error_handling allows", name, rejected, seen, dsl.Share(h.share))
}

// tried counts a row that came to a transform with a threshold.
func (u *unitWork) tried(n *node, rejected bool) error {
	u.counts[[2]string{countTried, n.name}]++
	total := u.session.tally(n.name)
	seen, bad := total.seen.Add(1), total.rejected.Load()
	if rejected {
		u.counts[[2]string{countFailed, n.name}]++
		bad = total.rejected.Add(1)
	}
	if rejected && seen >= judgedFrom {
		return n.threshold.judge(n.name, seen, bad)
	}
	return nil
}
