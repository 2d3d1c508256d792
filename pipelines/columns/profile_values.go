package columns

import (
	"cmp"
	"errors"
	"math"
	"math/bits"
	"slices"
	"unicode/utf8"
)

// values counts distinct values and finds the most frequent: exactly up to maxValues of them; above that only their approximate number is
// known, by HyperLogLog (Flajolet et al., 2007). Which of the two applies depends only on the values.
type values struct {
	counts map[uint64]*counted // by hash; nil if there were too many
	ranks  []byte              // the registers of HyperLogLog, if there were too many
}

type counted struct {
	// Text is the value, truncated.
	Text  string `json:"value"`
	Count int64  `json:"count"`
	Hash  uint64 `json:"hash,string"`
}

const (
	maxValues = 1000
	// registers is the number of registers of HyperLogLog; the standard error is 1.04/sqrt(4096) = 1.6%.
	registerBits = 12
	registers    = 1 << registerBits
	// maxText is how many bytes of a value are kept.
	maxText = 100
)

// add counts a value n times; text is called only if the value is new.
func (v *values) add(hash uint64, n int64, text func() string) {
	if v.ranks != nil {
		v.rank(hash)
		return
	}
	if c := v.counts[hash]; c != nil {
		c.Count += n
		return
	}
	if v.counts == nil {
		v.counts = map[uint64]*counted{}
	}
	if len(v.counts) == maxValues {
		v.overflow()
		v.rank(hash)
		return
	}
	v.counts[hash] = &counted{Text: shorten(text()), Count: n, Hash: hash}
}

func (v *values) overflow() {
	v.ranks = make([]byte, registers)
	for hash := range v.counts {
		v.rank(hash)
	}
	v.counts = nil
}

func (v *values) rank(hash uint64) {
	at := hash >> (64 - registerBits)
	rank := byte(bits.LeadingZeros64(hash<<registerBits|1<<(registerBits-1)) + 1)
	v.ranks[at] = max(v.ranks[at], rank)
}

func (v *values) merge(other *values) {
	for hash, c := range other.counts {
		v.add(hash, c.Count, func() string { return c.Text })
	}
	if other.ranks == nil {
		return
	}
	if v.ranks == nil {
		v.overflow()
	}
	for i, rank := range other.ranks {
		v.ranks[i] = max(v.ranks[i], rank)
	}
}

// distinct returns the number of different values.
func (v *values) distinct() int64 {
	if v.ranks == nil {
		return int64(len(v.counts))
	}
	sum, empty := 0.0, 0
	for _, rank := range v.ranks {
		sum += math.Ldexp(1, -int(rank))
		if rank == 0 {
			empty++
		}
	}
	const m = float64(registers)
	estimate := 0.7213 / (1 + 1.079/m) * m * m / sum
	if estimate <= 2.5*m && empty > 0 { // linear counting is more accurate in this range
		estimate = m * math.Log(m/float64(empty))
	}
	return max(int64(math.Round(estimate)), maxValues+1)
}

// sorted returns the counted values, the most frequent first.
func (v *values) sorted() []*counted {
	var all []*counted
	for _, c := range v.counts {
		all = append(all, c)
	}
	slices.SortFunc(all, func(a, b *counted) int {
		return cmp.Or(cmp.Compare(b.Count, a.Count), cmp.Compare(a.Text, b.Text), cmp.Compare(a.Hash, b.Hash))
	})
	return all
}

var errValues = errors.New("not the values of a profile")

func (v *values) decode(list []*counted, ranks []byte) error {
	*v = values{}
	if ranks != nil {
		if len(ranks) != registers || len(list) > 0 {
			return errValues
		}
		v.ranks = ranks
		return nil
	}
	if len(list) > maxValues {
		return errValues
	}
	for _, c := range list {
		v.add(c.Hash, c.Count, func() string { return c.Text })
	}
	return nil
}

// shorten truncates a text to maxText bytes, at a character boundary.
func shorten(s string) string {
	if len(s) <= maxText {
		return s
	}
	end := maxText - len("…")
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
