package agent

import (
	"maps"
	"slices"

	"github.com/sluiceml/sluice/internal/metrics"
	"github.com/sluiceml/sluice/training/protocol"
)

const (
	// workKept is for how many steps the work time of a rank is kept.
	workKept = 50
	// maxWorkers bounds the ranks of a node for which it is kept, because a script may write any number.
	maxWorkers = 1024
)

// worked records how long a rank worked on a step, if a line says so.
func (m *follower) worked(line metrics.Line) {
	rank, seconds, ok := line.Work()
	if !ok {
		return
	}
	if m.work == nil {
		m.work = map[int64][]float64{}
	}
	last, known := m.work[rank]
	if !known && len(m.work) == maxWorkers {
		return
	}
	last = append(last, seconds)
	m.work[rank] = last[max(0, len(last)-workKept):]
}

// slowest returns the work of the rank with the longest median; nil if no rank has reported its own.
func (m *follower) slowest() *protocol.StepWork {
	m.mu.Lock()
	defer m.mu.Unlock()
	var slowest *protocol.StepWork
	for _, rank := range slices.Sorted(maps.Keys(m.work)) {
		sorted := slices.Sorted(slices.Values(m.work[rank]))
		if median := sorted[len(sorted)/2]; slowest == nil || median > slowest.Seconds {
			slowest = &protocol.StepWork{Rank: int(rank), Seconds: median, Steps: len(sorted)}
		}
	}
	return slowest
}
