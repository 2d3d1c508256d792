package gateway

import "github.com/sluiceml/sluice/serving/stats"

// keyMarks is how many marks there are for keys that were answered in a revision: 2 MiB of bits, enough for many more keys than a stage
// needs, at the smallest weight, too. A key whose mark another has set counts with that one.
const keyMarks = 1 << 24

// keyCounter counts each key of a revision once.
type keyCounter struct {
	stats.Keyed
	stopped bool
	// marks of the keys with an answer, with a mirrored request that only one answered well, and with a mirrored request that has losses
	answered, differed, measured keySet
}

// newKeyCounter begins with k; without it nothing is counted by key.
func newKeyCounter(k *stats.Keyed) *keyCounter {
	if k == nil {
		return nil
	}
	return &keyCounter{Keyed: *k}
}

// stop ends the counting of first answers, and lets go of the keys: another revision is served. Errors that come late are still counted.
func (k *keyCounter) stop() {
	if k != nil {
		k.stopped, k.answered, k.differed, k.measured = true, nil, nil, nil
	}
}

// answer counts an answer of a version, if it is an error or its key's first.
func (k *keyCounter) answer(version string, d drawn, what outcome, add func(*stats.Counts)) {
	if k == nil || what == clientLeft {
		return
	}
	cell := stats.CellOf(d.hash)
	switch {
	case cell < k.From || what == answered:
	case what == clientError:
		k.Refused.Add(cell)
	default:
		k.Erred.Add(cell)
	}
	if k.stopped {
		return
	}
	if d.byKey {
		k.WithKey++
	} else {
		k.WithoutKey++
	}
	if cell >= k.From && what != clientError && k.answered.add(d) {
		counts := k.First[version]
		add(&counts)
		k.First[version] = counts
	}
}

// compare counts a mirrored request, if it is its key's first that only one of both answered well, and if it is its key's first with losses.
func (k *keyCounter) compare(d drawn, seen comparison) {
	if k == nil || k.stopped {
		return
	}
	if seen.hasLoss && k.measured.add(d) {
		k.Losses.Add(seen.loss, seen.stableLoss)
	}
	if seen.candidateErr == seen.stableErr || !k.differed.add(d) {
		return
	}
	if seen.candidateErr {
		k.CandidateOnly++
	} else {
		k.StableOnly++
	}
}

// keySet has the marks of keys, which the low bits of a hash choose: the high ones choose the release.
type keySet []uint64

// add reports whether a request is the first of its key. Those without a key are, and need no memory.
func (s *keySet) add(d drawn) bool {
	if !d.byKey {
		return true
	}
	if *s == nil {
		*s = make(keySet, keyMarks/64)
	}
	mark := d.hash % keyMarks
	word, bit := &(*s)[mark/64], uint64(1)<<(mark%64)
	if *word&bit != 0 {
		return false
	}
	*word |= bit
	return true
}
