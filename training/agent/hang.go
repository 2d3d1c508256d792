package agent

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

const (
	// stallFloor and stallFactor are the default of `after`: stallFactor times the median time between steps, but not less than stallFloor,
	// since an evaluation or an export may lie between two steps.
	stallFloor  = 10 * time.Minute
	stallFactor = 30
	// stallAfter is how many times between steps must be known for that.
	stallAfter = 5
	// startupLimit is the default of `startup`. Ranks that do not find each other usually give up by themselves within half of it.
	startupLimit = time.Hour
	// rescanAfter is how long ranks that hang are left alone before their files are scanned again.
	rescanAfter = 10 * time.Second
)

// checkHang logs the stacks of the ranks and kills them if they have made no progress for too long. With `action: warn` it only logs a
// warning. Only node 0 can tell: ranks of other nodes write no metrics, and most print nothing.
func (r *ranks) checkHang(now time.Time) {
	limit := r.hangLimit()
	if r.p.index > 0 || limit == 0 || r.hung || r.wasTold() {
		return
	}
	silent := now.Sub(r.progressedAt())
	if silent > limit && (r.silent == "" || now.Sub(r.scannedAt) > rescanAfter) { // not each time, because it is slow if there are many files
		r.wroteAt, r.scannedAt = r.lastWritten(now), now
		silent = now.Sub(r.progressedAt())
	}
	why := ""
	if silent > limit {
		why = fmt.Sprintf("no new step, output or file for %s", max(silent, time.Second).Truncate(time.Second))
		if step := r.metrics.state().Step; step > 0 {
			why += fmt.Sprintf(" after step %d", step)
		}
	}
	restart := r.p.spec.Hang == nil || r.p.spec.Hang.Action != spec.HangWarn
	r.mu.Lock()
	first := r.silent == ""
	r.silent, r.hung = why, why != "" && restart
	r.mu.Unlock()
	if why == "" || !first {
		return
	}
	r.node.log.Warn("the ranks hang", "why", why, "generation", r.key.Generation, "restart", restart)
	if restart {
		r.logStacks()
		r.proc.Kill()
	}
}

// hangLimit returns how long the ranks may currently be without progress; 0 means forever.
func (r *ranks) hangLimit() time.Duration {
	var declared spec.Hang
	if r.p.spec.Hang != nil {
		declared = *r.p.spec.Hang
	}
	after, startup := time.Duration(declared.After), time.Duration(declared.Startup)
	typical, started, itself := r.metrics.typical()
	declares := len(r.p.spec.Metrics) > 0 || r.p.spec.TotalSteps > 0
	frameworks := layoutOf(r.p.spec.Checkpoint.Layout).notes != nil // its steps may be known only at checkpoints, hours apart
	switch {
	case declared.Action == spec.HangIgnore:
		return 0
	case started && after > 0:
		return after
	case typical > 0:
		return max(r.node.stallFloor, stallFactor*typical)
	case startup > 0:
		return startup
	case itself, declares && !frameworks:
		return max(after, startupLimit)
	}
	return after
}

// progressedAt returns when the ranks last made progress, as far as is known without a scan of their files.
func (r *ranks) progressedAt() time.Time {
	said := time.Unix(0, max(r.said.last.Load(), r.started.last.Load()))
	return slices.MaxFunc([]time.Time{r.startedAt, r.metrics.state().At, said, r.wroteAt}, time.Time.Compare)
}

// lastWritten returns when a checkpoint or an output was last written to.
func (r *ranks) lastWritten(now time.Time) time.Time {
	var last time.Time
	for _, dir := range []string{r.p.dirs.checkpoints, r.p.folder.Output} {
		seen, err := shapeOf(dir)
		if errors.Is(err, fs.ErrNotExist) {
			return now // a file was deleted during the scan
		}
		last = slices.MaxFunc([]time.Time{last, seen.newest}, time.Time.Compare)
	}
	return cmp.Or(last, r.startedAt)
}

// typical returns the median time between two steps, or between groups of steps if these are fast; 0 until enough are known. started is
// true if there was a step, and itself if the script wrote it.
func (m *follower) typical() (median time.Duration, started, itself bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	itself = m.started && !m.fed
	if len(m.spacing) < stallAfter {
		return 0, m.started, itself
	}
	sorted := slices.SortedFunc(slices.Values(m.spacing), func(a, b spacing) int { return cmp.Compare(a.time, b.time) })
	return sorted[len(sorted)/2].time, m.started, itself
}
