package batch

import (
	"maps"
	"time"
)

// Stats are what a Batcher has done since it was made.
type Stats struct {
	// Succeeded and Failed requests. Requests that did not fit the model are neither.
	Succeeded, Failed int64
	// Rows of the inferences, and how many Inferences there were: their ratio is the average batch.
	Rows, Inferences int64
	// Sizes counts the inferences by their rows.
	Sizes map[int64]int64
	// Requests is the time from the arrival of requests to their answers, Queued the part of it in which they waited, summed over requests.
	Requests, Queued time.Duration
	// Computed is the time of inferences.
	Computed time.Duration
	// Pending requests wait now.
	Pending int
	// Limit is how many rows an inference of several requests may have now.
	Limit int
}

// add counts an inference of some requests.
func (s *Stats) add(batch []*request, began time.Time, took time.Duration, now time.Time) {
	var rows int64
	for _, r := range batch {
		rows += max(r.rows, 1)
		s.Requests += now.Sub(r.arrived)
		s.Queued += began.Sub(r.arrived)
		if r.err == nil {
			s.Succeeded++
		} else {
			s.Failed++
		}
	}
	if batch[0].err == nil { // all of them have the same outcome
		s.Rows += rows
		s.Inferences++
		if s.Sizes == nil {
			s.Sizes = map[int64]int64{}
		}
		s.Sizes[rows]++
	}
	s.Computed += took
}

// Stats returns the counts.
func (b *Batcher) Stats() Stats {
	b.mu.Lock()
	defer b.mu.Unlock()
	s := b.counts
	s.Sizes = maps.Clone(s.Sizes)
	s.Pending, s.Limit = len(b.queue), b.limit.rows
	return s
}
