package rollout

import (
	"maps"
	"slices"
	"time"

	"github.com/sluiceml/sluice/serving/stats"
)

const (
	// silence is how long a gateway may be without a sign of life: they give one a second, and serve only the stable release after five
	// seconds in which they could not read the document.
	silence = 10 * time.Second
	// maxGap is how much of the time between two looks counts as silence. A look that comes late says nothing of those it looks at.
	maxGap = 2 * time.Second
)

// State is what judging has learnt in earlier looks. The zero value starts a rollout.
type State struct {
	// Errors is the error test's evidence over all stages.
	Errors stats.ErrorEvidence `json:"errors"`
	// Refusals is the same of requests that were refused as their sender's mistake, which chance gives to both releases alike.
	Refusals stats.ErrorEvidence `json:"refusals,omitzero"`
	// Loss is the loss test's.
	Loss stats.LossEvidence `json:"loss,omitzero"`
	// Epochs are the lives of gateways that were seen in the stage. What one has counted is cumulative, so that the newest of each epoch
	// is all there is to know of it, however often it was seen and whoever looked.
	Epochs map[string]Life `json:"epochs,omitempty"`
	// Crashed are the epochs that ended without their closing mark, over all stages, with the versions in use there.
	Crashed map[string][]string `json:"crashed,omitempty"`
	// Cells are those with errors, by routing revision of the stage, where traffic is sticky.
	Cells map[int64]stats.Keyed `json:"cells,omitempty"`
	// Ended is what is known of the stages before this one, by routing revision.
	Ended map[int64]Ended `json:"ended,omitempty"`
	// Awaited is how many requests had begun when the stage had its samples, by epoch and routing revision; nil before.
	Awaited map[string]map[int64]int64 `json:"awaited,omitempty"`
	// Before is what the release that serves did in the stages before this one.
	Before Past `json:"before,omitzero"`
	// Looked is when the stage was last looked at, in seconds since its start.
	Looked float64 `json:"looked,omitempty"`
}

// Life is one epoch of a gateway.
type Life struct {
	// Order in which the stage saw it, from 0.
	Order int `json:"order,omitempty"`
	// Beat is its newest sign of life, and Silent for how many seconds there was no other.
	Beat   int64   `json:"beat,omitempty"`
	Silent float64 `json:"silent,omitempty"`
	// Tallies by routing revision, the oldest first.
	Tallies []Tally `json:"tallies"`
}

// Tally is what was counted while one routing revision was served.
type Tally struct {
	Revision int64 `json:"revision"`
	// Share of the traffic that the candidate had, beside the stable release.
	Share  float64 `json:"share"`
	Counts Counts  `json:"counts"`
	// Started and Settled are those of stats.Revision.
	Started int64 `json:"started,omitempty"`
	Settled int64 `json:"settled,omitempty"`
	// Keys is set where traffic is sticky.
	Keys *KeyTally `json:"keys,omitempty"`
}

// Counts are the counts of one stage.
type Counts struct {
	Candidate stats.Counts `json:"candidate"`
	Stable    stats.Counts `json:"stable"`
	Shadow    stats.Shadow `json:"shadow"`
}

func (c Counts) plus(other Counts) Counts {
	return Counts{Candidate: c.Candidate.Plus(other.Candidate), Stable: c.Stable.Plus(other.Stable), Shadow: c.Shadow.Plus(other.Shadow)}
}

// NextStage ends a stage. It keeps the evidence, what crashed, and the counts of the serving release; the other counts start anew.
func (s State) NextStage() State {
	_, stable, _ := s.answered()
	return State{Errors: s.Errors.Next(), Refusals: s.Refusals.Next(), Loss: s.Loss.Next(), Crashed: s.Crashed, Ended: s.ended(), Before: s.Before.plus(stable)}
}

// seen adds what all gateways have counted to the state.
func (s State) seen(stage Stage, now []stats.Snapshot) State {
	gap := min(max(stage.Elapsed.Seconds()-s.Looked, 0), maxGap.Seconds())
	s.Looked = stage.Elapsed.Seconds()
	s.Epochs, s.Crashed, s.Cells = cloned(s.Epochs), cloned(s.Crashed), cloned(s.Cells)
	for _, snapshot := range now {
		before, known := s.Epochs[snapshot.Epoch]
		if snapshot.Beat < before.Beat {
			continue // an older copy
		}
		life := Life{Order: before.Order, Beat: snapshot.Beat, Tallies: tallies(stage, snapshot)}
		if !known {
			life.Order = len(s.Epochs)
		}
		s.unite(stage, snapshot)
		s.Ended = s.late(stage, snapshot)
		for i, t := range before.Tallies { // gateways report their newest revisions only
			if !slices.ContainsFunc(life.Tallies, func(now Tally) bool { return now.Revision == t.Revision }) {
				life.Tallies = slices.Insert(life.Tallies, i, t)
			}
		}
		if known && before.Beat == snapshot.Beat {
			life.Silent = before.Silent + gap
		}
		s.Epochs[snapshot.Epoch] = life
		atStage := snapshot.Revision >= stage.Revision || slices.Contains(snapshot.Active, stage.Candidate)
		switch {
		case snapshot.Beat == 0 || snapshot.Closed || !atStage:
		case life.Silent > silence.Seconds():
			s.Crashed[snapshot.Epoch] = snapshot.Active
		case known && life.Silent == 0:
			delete(s.Crashed, snapshot.Epoch) // it was frozen, or could not reach the store
		}
	}
	return s
}

// cloned is a copy that can be added to.
func cloned[K comparable, V any](m map[K]V) map[K]V {
	all := make(map[K]V, len(m))
	maps.Copy(all, m)
	return all
}

// tallies are a gateway's counts of the stage.
func tallies(stage Stage, snapshot stats.Snapshot) []Tally {
	var all []Tally
	for _, r := range snapshot.Revisions {
		if r.Revision < stage.Revision {
			continue
		}
		t := tally(stage, r)
		if snapshot.Closed {
			t.Settled = t.Started // nothing more comes
		}
		all = append(all, t)
	}
	return all
}

// tally is what a gateway has counted of a revision.
func tally(stage Stage, r stats.Revision) Tally {
	t := Tally{Revision: r.Revision, Share: float64(stage.Spec.Weight), Keys: keyTally(stage, r), Started: r.Started, Settled: r.Settled}
	if r.Weights != nil {
		candidate, stable := r.Weights[stage.Candidate], r.Weights[stage.Stable]
		t.Share = 0
		if candidate > 0 {
			t.Share = candidate / (candidate + stable)
		}
	}
	t.Counts = Counts{Candidate: r.Versions[stage.Candidate], Stable: r.Versions[stage.Stable]}
	if r.Shadow != nil && r.Shadow.Version == stage.Candidate {
		t.Counts.Shadow = *r.Shadow
	}
	return t
}

// byRevision are the stage's counts, over all gateways, by routing revision.
func (s State) byRevision() []Tally {
	sums := map[int64]Tally{}
	for _, life := range s.Epochs {
		for _, t := range life.Tallies {
			sums[t.Revision] = Tally{Revision: t.Revision, Share: t.Share, Counts: sums[t.Revision].Counts.plus(t.Counts)}
		}
	}
	all := make([]Tally, 0, len(sums))
	for _, revision := range slices.Sorted(maps.Keys(sums)) {
		all = append(all, sums[revision])
	}
	return all
}

// counts are the stage's, over all gateways and revisions.
func (s State) counts() Counts {
	var sum Counts
	for _, t := range s.byRevision() {
		sum = sum.plus(t.Counts)
	}
	return sum
}

// split is what the error test compares: the errors by the candidate's share of them that is expected of one that is as good.
func (t Tally) split() stats.Split {
	if t.Share == 0 { // it got copies
		return stats.Split{Candidate: t.Counts.Shadow.CandidateOnly, Stable: t.Counts.Shadow.StableOnly, Share: 0.5}
	}
	return stats.Split{Candidate: t.Counts.Candidate.Errors(), Stable: t.Counts.Stable.Errors(), Share: t.Share}
}

// refusals are what the test of refused requests compares.
func (t Tally) refusals() stats.Split {
	return stats.Split{Candidate: t.Counts.Candidate.ClientErrors, Stable: t.Counts.Stable.ClientErrors, Share: t.Share}
}

// splits are what tests compare by revision or, where traffic is sticky, by key.
func (s State) splits(stage Stage, of func(Tally) stats.Split, byKey func(stats.Keyed) stats.Split) (splits []stats.Split) {
	if !stage.Keyed {
		for _, t := range s.byRevision() {
			splits = append(splits, of(t))
		}
		return splits
	}
	for _, revision := range slices.Sorted(maps.Keys(s.Cells)) {
		splits = append(splits, byKey(s.Cells[revision]))
	}
	return splits
}

// crashes is how many gateways ended without a word that used a version.
func (s State) crashes(version string) int64 {
	var n int64
	for _, active := range s.Crashed {
		if version != "" && slices.Contains(active, version) {
			n++
		}
	}
	return n
}
