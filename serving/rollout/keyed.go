package rollout

import (
	"cmp"
	"fmt"
	"maps"
	"math"
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/serving/stats"
)

// KeyTally is what one gateway counted of keys while a revision of sticky traffic was served: each once, but another may have counted the
// same. Tests of these counts are made for each gateway by itself, with its stats.Part of alpha.
type KeyTally struct {
	// Candidate and Stable are the first answers to each key.
	Candidate stats.Counts `json:"candidate"`
	Stable    stats.Counts `json:"stable"`
	// WithKey and WithoutKey are requests.
	WithKey    int64 `json:"with_key,omitempty"`
	WithoutKey int64 `json:"without_key,omitempty"`
	// CandidateOnly and StableOnly are the mirrored keys that only one of both failed.
	CandidateOnly int64 `json:"candidate_only,omitempty"`
	StableOnly    int64 `json:"stable_only,omitempty"`
	// Losses are of the mirrored keys.
	Losses stats.PairedLosses `json:"losses,omitzero"`
}

func (k *KeyTally) plus(other *KeyTally) *KeyTally {
	if other == nil {
		return k
	}
	return &KeyTally{
		Candidate: k.Candidate.Plus(other.Candidate), Stable: k.Stable.Plus(other.Stable),
		WithKey: k.WithKey + other.WithKey, WithoutKey: k.WithoutKey + other.WithoutKey,
		CandidateOnly: k.CandidateOnly + other.CandidateOnly, StableOnly: k.StableOnly + other.StableOnly,
		Losses: k.Losses.Plus(other.Losses),
	}
}

// keyTally is a revision's of a gateway; nil where that does not count by key.
func keyTally(stage Stage, r stats.Revision) *KeyTally {
	if r.Keyed == nil {
		return nil
	}
	return &KeyTally{
		Candidate: r.Keyed.First[stage.Candidate], Stable: r.Keyed.First[stage.Stable],
		WithKey: r.Keyed.WithKey, WithoutKey: r.Keyed.WithoutKey,
		CandidateOnly: r.Keyed.CandidateOnly, StableOnly: r.Keyed.StableOnly, Losses: r.Keyed.Losses,
	}
}

// unite adds a gateway's cells to those of the others, by revision. A cell is in the union once.
func (s State) unite(stage Stage, snapshot stats.Snapshot) {
	for _, r := range snapshot.Revisions {
		if r.Keyed == nil || r.Revision < stage.Revision {
			continue
		}
		seen, known := s.Cells[r.Revision]
		if !known {
			seen.From, seen.To = r.Keyed.From, r.Keyed.To
		}
		seen.Erred, seen.Refused = seen.Erred.Union(r.Keyed.Erred), seen.Refused.Union(r.Keyed.Refused)
		s.Cells[r.Revision] = seen
	}
}

// byGateway is what each gateway has counted of keys in the stage, in the order in which they were first seen.
func (s State) byGateway() []*KeyTally {
	lives := slices.SortedFunc(maps.Values(s.Epochs), func(a, b Life) int { return cmp.Compare(a.Order, b.Order) })
	sums := make([]*KeyTally, len(lives))
	for i, life := range lives {
		sums[i] = &KeyTally{}
		for _, t := range life.Tallies {
			sums[i] = sums[i].plus(t.Keys)
		}
	}
	return sums
}

// keys is how many the candidate has answered: its share of all that were answered. Which of them chance has given to it must not decide when
// a stage ends, or the evidence that the next one goes on with would depend on it: busy keys would make an early end. But a candidate that
// answers fewer than half of what it should get does not pass. A key that several gateways answered counts at each.
func (s State) keys() int64 {
	var expected float64
	var answered int64
	for _, life := range s.Epochs {
		for _, t := range life.Tallies {
			if t.Keys != nil {
				expected += s.Cells[t.Revision].Split().Share * float64(t.Keys.Candidate.Requests+t.Keys.Stable.Requests)
				answered += t.Keys.Candidate.Requests
			}
		}
	}
	return min(int64(expected+1e-6), 2*answered)
}

// keyless says that no request of the stage had a key; "" if one had.
func (s State) keyless() string {
	var all KeyTally
	for _, k := range s.byGateway() {
		all = *all.plus(k)
	}
	if all.WithKey > 0 || all.WithoutKey == 0 {
		return ""
	}
	return fmt.Sprintf("; none of the %d requests had the key that `sticky` names, so each was a key of its own", all.WithoutKey)
}

// worseByKey says what the error test by key has found.
func (s State) worseByKey(stage Stage, look spec.Look) string {
	var candidate, all int64
	var share float64
	if stage.Spec.Shadow > 0 {
		share = 0.5
		for _, k := range s.byGateway() {
			candidate, all = candidate+k.CandidateOnly, all+k.CandidateOnly+k.StableOnly
		}
	}
	for _, k := range s.Cells {
		if split := k.Split(); stage.Spec.Shadow == 0 {
			candidate, all, share = candidate+split.Candidate, all+split.Candidate+split.Stable, max(share, split.Share)
		}
	}
	return fmt.Sprintf("more errors than the release that serves: of %d keys with errors %d got them from the candidate, which would have about %s if it were as good (e-value %s)",
		all, candidate, human.Percent(share), human.Number(look.EValue))
}

// keyedDifferences is the most that a gateway knows against the candidate of mirrored keys.
func (s State) keyedDifferences() stats.ErrorEvidence {
	most := stats.ErrorEvidence{Finished: s.Errors.Finished, Late: s.Errors.Late}
	for i, k := range s.byGateway() {
		e := most.Look(stats.Split{Candidate: k.CandidateOnly, Stable: k.StableOnly, Share: 0.5})
		e.Stage += math.Log(stats.Part(i))
		if e.Worse && (!most.Worse || e.Stage > most.Stage) {
			most = e
		}
	}
	return most
}

// keyedLatency makes the latency test by key: the bands of all gateways hold at once.
func (s State) keyedLatency(test stats.LatencyTest, of string) stats.LatencyLook {
	all := stats.LatencyLook{StableUpper: stats.Unbounded}
	for i, k := range s.byGateway() {
		part := test
		part.Alpha *= stats.Part(i)
		_, candidate, stable := timesOf(of, k.Candidate, k.Stable)
		look := part.Look(candidate, stable)
		all.CandidateLower, all.StableUpper = max(all.CandidateLower, look.CandidateLower), min(all.StableUpper, look.StableUpper)
	}
	all.Rejected = test.Rejects(all.CandidateLower, all.StableUpper)
	return all
}

// pairing numbers all pairs of numbers from 0 (Cantor's pairing function).
func pairing(a, b int) int { return (a+b)*(a+b+1)/2 + b }

// keyedLoss makes the loss test by key, and says how many keys with a label it is about, as keys does. Any gateway, and any revision of the
// stage, may have counted the same keys, so that each is tested by itself, with its part of alpha; what is returned is the most that one knows.
func (s State) keyedLoss(stage Stage, margin float64) (most stats.LossEvidence, samples int64) {
	most.Finished = s.Loss.Finished
	var found bool
	var expected float64
	var measured int64
	for _, life := range slices.SortedFunc(maps.Values(s.Epochs), func(a, b Life) int { return cmp.Compare(a.Order, b.Order) }) {
		for i, t := range life.Tallies {
			if t.Keys == nil {
				continue
			}
			candidate, stable := t.Keys.Candidate.Losses, t.Keys.Stable.Losses
			split := stats.LossSplit{Candidate: candidate, Stable: stable, Share: s.Cells[t.Revision].Split().Share}
			expected, measured = expected+split.Share*float64(candidate.N+stable.N), measured+candidate.N
			if stage.Spec.Shadow > 0 {
				split = stats.LossSplit{Paired: t.Keys.Losses}
				samples += t.Keys.Losses.N
			}
			e := s.Loss.Look(margin, split)
			// Whatever gateways and revisions come later, each of these keeps its part: an earlier test cannot give back what it has used.
			e.Stage += math.Log(stats.Part(pairing(life.Order, i)))
			if !found || e.Stage > most.Stage {
				most, found = e, true
			}
		}
	}
	if stage.Spec.Shadow > 0 {
		return most, samples
	}
	return most, min(int64(expected+1e-6), 2*measured)
}
