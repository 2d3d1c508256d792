package rollout

import (
	"maps"

	"github.com/sluiceml/sluice/serving/stats"
)

// Ended is what is known of the requests of a routing revision whose stage has ended. Some fail long after that, and count all the same.
type Ended struct {
	// Judged is what was known when the stage ended, or a later one.
	Judged Outcomes `json:"judged"`
	// Epochs is what each gateway has reported last, and Cells those with errors, of all gateways, where traffic is sticky.
	Epochs map[string]Outcomes `json:"epochs"`
	Cells  *stats.Keyed        `json:"cells,omitempty"`
}

// Outcomes are those of the requests of a revision.
type Outcomes struct {
	// Split is that of the error test.
	Split stats.Split `json:"split"`
	// Requests and Failures are the candidate's.
	Requests int64 `json:"requests"`
	Failures int64 `json:"failures"`
}

func (t Tally) outcomes() Outcomes {
	split := t.split()
	if t.Share == 0 && t.Keys != nil { // copies of keys are tested for each gateway by itself, and only in their stage
		split = stats.Split{}
	}
	return Outcomes{Split: split, Requests: t.Counts.Candidate.Requests, Failures: t.Counts.Candidate.Failures}
}

// now is the sum over gateways.
func (e Ended) now() Outcomes {
	sum := Outcomes{Split: stats.Split{Share: e.Judged.Split.Share}}
	for _, o := range e.Epochs {
		sum.Split.Candidate, sum.Split.Stable = sum.Split.Candidate+o.Split.Candidate, sum.Split.Stable+o.Split.Stable
		sum.Requests, sum.Failures = sum.Requests+o.Requests, sum.Failures+o.Failures
	}
	if e.Cells != nil {
		sum.Split = e.Cells.Split()
	}
	return sum
}

// ended are the revisions of the stages so far, with the current one among them.
func (s State) ended() map[int64]Ended {
	all := cloned(s.Ended)
	for epoch, life := range s.Epochs {
		for _, t := range life.Tallies {
			e, known := all[t.Revision]
			if !known {
				e.Judged.Split.Share, e.Epochs = t.outcomes().Split.Share, map[string]Outcomes{}
				if cells, keyed := s.Cells[t.Revision]; keyed && t.Share > 0 {
					e.Cells = &cells
				}
			}
			e.Epochs[epoch] = t.outcomes()
			all[t.Revision] = e
		}
	}
	for revision, e := range all {
		e.Judged = e.now()
		all[revision] = e
	}
	return all
}

// late adds what a gateway reports of revisions whose stages have ended.
func (s State) late(stage Stage, snapshot stats.Snapshot) map[int64]Ended {
	all := maps.Clone(s.Ended)
	for _, r := range snapshot.Revisions {
		e, known := all[r.Revision]
		if !known || r.Revision >= stage.Revision {
			continue
		}
		e.Epochs = maps.Clone(e.Epochs)
		e.Epochs[snapshot.Epoch] = tally(stage, r).outcomes()
		if e.Cells != nil && r.Keyed != nil {
			cells := *e.Cells
			cells.Erred = cells.Erred.Union(r.Keyed.Erred)
			e.Cells = &cells
		}
		all[r.Revision] = e
	}
	return all
}

// lateEvidence is how the evidence of the stages before has changed since they ended, and what has become of the candidate's requests since.
func (s State) lateEvidence() (evidence float64, candidate stats.Counts) {
	for _, e := range s.Ended {
		now := e.now()
		evidence += now.Split.Carried() - e.Judged.Split.Carried()
		candidate.Requests += now.Requests - e.Judged.Requests
		candidate.Failures += now.Failures - e.Judged.Failures
	}
	return evidence, candidate
}

// unanswered is how many requests and copies had begun when the stage had its samples, and have not ended. Those of a gateway that has
// crashed never will.
func (s *State) unanswered() (n int64) {
	begins := s.Awaited == nil
	awaited := map[string]map[int64]int64{}
	for epoch, life := range s.Epochs {
		if _, crashed := s.Crashed[epoch]; crashed {
			continue
		}
		awaited[epoch] = s.Awaited[epoch]
		if begins {
			awaited[epoch] = map[int64]int64{}
		}
		for _, t := range life.Tallies {
			if begins {
				awaited[epoch][t.Revision] = t.Started
			}
			n += max(0, awaited[epoch][t.Revision]-t.Settled)
		}
	}
	if begins {
		s.Awaited = awaited
	}
	return n
}
