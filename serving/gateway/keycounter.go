package gateway

import "github.com/sluiceml/sluice/serving/stats"

// maxKeys is how many keys of a version, and of its shadow, a gateway remembers in one revision. Answers to others do not count as first ones.
const maxKeys = 1 << 16

// keyCounter counts each key of a revision once.
type keyCounter struct {
	stats.Keyed
	answered map[string]keySet // by version
	differed keySet
	measured keySet
}

// newKeyCounter begins with k; without it nothing is counted by key.
func newKeyCounter(k *stats.Keyed) *keyCounter {
	if k == nil {
		return nil
	}
	return &keyCounter{Keyed: *k, answered: map[string]keySet{}, differed: keySet{}, measured: keySet{}}
}

// stop ends the counting, and lets go of the keys: another revision is served.
func (k *keyCounter) stop() {
	if k != nil {
		k.answered, k.differed, k.measured = nil, nil, nil
	}
}

// answer counts an answer of a version, if it is an error or its key's first.
func (k *keyCounter) answer(version string, d drawn, isError bool, add func(*stats.Counts)) {
	if k == nil || k.answered == nil {
		return
	}
	cell := stats.CellOf(d.hash)
	if cell < k.From {
		return
	}
	if isError {
		k.Erred.Add(cell)
	}
	if k.answered[version] == nil {
		k.answered[version] = keySet{}
	}
	if k.answered[version].add(d) {
		counts := k.First[version]
		add(&counts)
		k.First[version] = counts
	}
}

// compare counts a mirrored request, if it is its key's first that only one of both answered well, and if it is its key's first with losses.
func (k *keyCounter) compare(d drawn, seen comparison) {
	if k == nil || k.differed == nil {
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

// keySet holds up to maxKeys hashes of keys.
type keySet map[uint64]struct{}

// add reports whether a request is the first of its key. Those without a key are, and need no memory.
func (s keySet) add(d drawn) bool {
	if !d.byKey {
		return true
	}
	if _, known := s[d.hash]; known || len(s) >= maxKeys {
		return false
	}
	s[d.hash] = struct{}{}
	return true
}
