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
	// Sizes are those inferences by their rows.
	Sizes map[int64]Size
	// Requests is the time from the arrival of requests to their answers, Queued the part of it in which they waited, summed over requests.
	Requests, Queued time.Duration
	// FailedAfter is the part of Requests of those that failed.
	FailedAfter time.Duration
	// Answered is of the requests that succeeded: how long they waited, and the whole time of the inferences that they were part of.
	Answered struct {
		Queued time.Duration
		Parts
	}
	// Computed is the time of inferences.
	Computed time.Duration
	// Last is when the last request arrived of those that have ended.
	Last time.Time
	// Pending requests wait now.
	Pending int
	// Limit is how many rows an inference of several requests may have now.
	Limit int
}

// Size is the inferences of one size.
type Size struct {
	Inferences int64
	Parts
}

// Parts are the times of inferences: of putting the rows of requests together, of the model, and of taking the answers apart.
type Parts struct{ Joined, Ran, Split time.Duration }

func (p *Parts) add(other Parts) {
	p.Joined += other.Joined
	p.Ran += other.Ran
	p.Split += other.Split
}

// add counts an inference of some requests.
func (s *Stats) add(batch []*request, began time.Time, took time.Duration, parts Parts, now time.Time) {
	var rows int64
	for _, r := range batch {
		rows += max(r.rows, 1)
		s.Queued += began.Sub(r.arrived)
		if r.err != nil {
			s.fail(r.arrived, now)
			continue
		}
		s.Succeeded++
		s.ended(r.arrived, now)
		s.Answered.Queued += began.Sub(r.arrived)
		s.Answered.add(parts)
	}
	if batch[0].err == nil { // all of them have the same outcome
		s.Rows += rows
		s.Inferences++
		if s.Sizes == nil {
			s.Sizes = map[int64]Size{}
		}
		size := s.Sizes[rows]
		size.Inferences++
		size.add(parts)
		s.Sizes[rows] = size
	}
	s.Computed += took
}

// fail counts a request that failed.
func (s *Stats) fail(arrived, now time.Time) {
	s.Failed++
	s.FailedAfter += now.Sub(arrived)
	s.ended(arrived, now)
}

func (s *Stats) ended(arrived, now time.Time) {
	s.Requests += now.Sub(arrived)
	if arrived.After(s.Last) {
		s.Last = arrived
	}
}

// One counts a request that was an inference by itself, for a model whose rows are not known.
func (s *Stats) One(arrived time.Time, took time.Duration, err error) {
	s.add([]*request{{rows: 1, arrived: arrived, err: err}}, arrived, took, Parts{Ran: took}, arrived.Add(took))
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
