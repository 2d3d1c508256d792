package columns

import (
	"maps"
	"math"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
)

const (
	// leastShare replaces the share of an empty part in PSI, which is undefined there.
	leastShare = 0.0001
	// A column is categorical if it has at most maxCategories different texts, each of which occurs leastCount times on average in the
	// earlier dataset. Texts that rarely occur twice are not categories, however few rows there are.
	maxCategories = 100
	leastCount    = 10
	deciles       = 10
)

// Drift compares the columns that both profiles have; p is the newer.
func (p *Profile) Drift(base *Profile) map[string]spec.ColumnDrift {
	out := map[string]spec.ColumnDrift{}
	for name, c := range p.Columns {
		if b := base.Columns[name]; b != nil && p.Rows > 0 && base.Rows > 0 {
			now, before := p.parts(c, base, b)
			out[name] = spec.ColumnDrift{PSI: psi(now, before), JS: jensenShannon(now, before), KS: kolmogorovSmirnov(&c.measures, &b.measures)}
		}
	}
	return out
}

// parts divides the rows of both profiles by the values of a column, and returns the number of rows in each part. The first part is null.
func (p *Profile) parts(c *Column, base *Profile, b *Column) (now, before []int64) {
	now, before = []int64{p.Nulls(c)}, []int64{base.Nulls(b)}
	if b.categorical() {
		n, o := byCategory(c, b)
		return append(now, n...), append(before, o...)
	}
	n, o := byDecile(&c.measures, &b.measures)
	return append(now, n...), append(before, o...)
}

// categorical reports whether the values are few, frequent texts, each of which becomes a part of its own.
func (c *Column) categorical() bool {
	return c.values.ranks == nil && len(c.values.counts) <= maxCategories && c.Types["string"] == c.number(false) &&
		c.number(false) >= leastCount*c.values.distinct()
}

// byCategory divides values into the categories of the earlier profile, and others. If the newer profile has more than maxValues different
// values, their counts are unknown, and all are others.
func byCategory(c, b *Column) (now, before []int64) {
	others := c.number(false)
	for _, hash := range slices.Sorted(maps.Keys(b.values.counts)) {
		n := int64(0)
		if v := c.values.counts[hash]; v != nil {
			n = v.Count
		}
		now, before = append(now, n), append(before, b.values.counts[hash].Count)
		others -= n
	}
	return append(now, others), append(before, 0)
}

// byDecile divides numbers at the deciles of the earlier profile. Deciles that fall on the same bucket make one part.
func byDecile(c, b *Histogram) (now, before []int64) {
	keys, mine, theirs := align(c, b)
	total, below, edge := b.Count(), int64(0), 1
	now, before = []int64{0}, []int64{0}
	for i := range keys {
		last := len(now) - 1
		now[last] += mine[i]
		before[last] += theirs[i]
		below += theirs[i]
		if edge < deciles && below*deciles >= total*int64(edge) && below > 0 {
			for edge < deciles && below*deciles >= total*int64(edge) {
				edge++
			}
			now, before = append(now, 0), append(before, 0)
		}
	}
	return now, before
}

// align returns the buckets of two histograms at the width of the wider one, in order, with the counts of each.
func align(c, b *Histogram) (keys []uint64, mine, theirs []int64) {
	shift := max(c.shift, b.shift)
	at := func(h *Histogram) map[uint64]int64 {
		wide := Histogram{shift: h.shift, buckets: h.buckets}
		wide.widen(shift)
		return wide.buckets
	}
	m, t := at(c), at(b)
	all := map[uint64]bool{}
	for key := range m {
		all[key] = true
	}
	for key := range t {
		all[key] = true
	}
	keys = slices.Sorted(maps.Keys(all))
	for _, key := range keys {
		mine = append(mine, m[key])
		theirs = append(theirs, t[key])
	}
	return keys, mine, theirs
}

// psi returns the population stability index of two divisions.
func psi(now, before []int64) (sum float64) {
	for i, totals := 0, [2]float64{total(now), total(before)}; i < len(now); i++ {
		if now[i] == 0 && before[i] == 0 {
			continue
		}
		n, b := max(float64(now[i])/totals[0], leastShare), max(float64(before[i])/totals[1], leastShare)
		sum += (n - b) * math.Log(n/b)
	}
	return sum
}

// jensenShannon returns the Jensen-Shannon divergence of two divisions, in bits.
func jensenShannon(now, before []int64) (sum float64) {
	for i, totals := 0, [2]float64{total(now), total(before)}; i < len(now); i++ {
		n, b := float64(now[i])/totals[0], float64(before[i])/totals[1]
		middle := (n + b) / 2
		if n > 0 {
			sum += n / 2 * math.Log2(n/middle)
		}
		if b > 0 {
			sum += b / 2 * math.Log2(b/middle)
		}
	}
	return min(max(sum, 0), 1)
}

// kolmogorovSmirnov returns the largest distance between two cumulative distributions. It is 1 if only one of them is empty.
func kolmogorovSmirnov(c, b *Histogram) (largest float64) {
	n, o := c.Count(), b.Count()
	if n == 0 || o == 0 {
		if n == o {
			return 0
		}
		return 1
	}
	_, mine, theirs := align(c, b)
	var below [2]int64
	for i := range mine {
		below[0] += mine[i]
		below[1] += theirs[i]
		largest = max(largest, math.Abs(float64(below[0])/float64(n)-float64(below[1])/float64(o)))
	}
	return largest
}

func total(counts []int64) (sum float64) {
	for _, n := range counts {
		sum += float64(n)
	}
	return sum
}

// SchemaChange returns how the fields of the rows differ from those of an earlier profile. Computed columns are not fields, and null counts
// as a value of any type.
func (p *Profile) SchemaChange(base *Profile) spec.SchemaChange {
	out := spec.SchemaChange{Added: []string{}, Removed: []string{}, Retyped: []string{}}
	for _, name := range slices.Sorted(maps.Keys(p.Columns)) {
		c, b := p.Columns[name], base.Columns[name]
		switch {
		case c.Computed:
		case b == nil || b.Computed:
			out.Added = append(out.Added, name)
		default:
			if was, now := b.typeNames(), c.typeNames(); was != now && was != typeNull && now != typeNull {
				out.Retyped = append(out.Retyped, name+": "+was+", now "+now)
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(base.Columns)) {
		if c := p.Columns[name]; !base.Columns[name].Computed && (c == nil || c.Computed) {
			out.Removed = append(out.Removed, name)
		}
	}
	out.Changed = len(out.Added)+len(out.Removed)+len(out.Retyped) > 0
	return out
}

// typeNames returns the types of the values; null only if there is no other.
func (c *Column) typeNames() string {
	var names []string
	for _, typ := range slices.Sorted(maps.Keys(c.Types)) {
		if typ != typeNull {
			names = append(names, typ)
		}
	}
	if names == nil {
		return typeNull
	}
	return strings.Join(names, " or ")
}
