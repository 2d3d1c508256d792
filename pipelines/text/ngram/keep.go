package ngram

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Kept is what Keep returns for a row that stays.
const Kept = -1

// Keep decides for n rows, in their order, which of them stay. A row goes when it is like an earlier one that stays: Keep returns that
// row, the first such one, for each. So nothing that comes later changes what was decided of a row, and a row that is like one that went
// may stay. Rows are compared that share a band, but for a band that maxShared rows share which stay: a template makes it, and tells nothing.
// So a row is compared with so many for each band at most. alike must be symmetric; an error of it ends the work.
//
// The bands of row i are bandsOf(i), always as many. Memory: about 20 bytes for each band of each row that stays. If that is more than room,
// the error is a FullError.
func Keep(n int, bandsOf func(i int) []uint32, alike func(i, j int) (bool, error), room int64) ([]int, error) {
	of := make([]int, n)
	seen := index{}
	var candidates []uint32
	for i := range n {
		bands := bandsOf(i)
		candidates = seen.find(candidates[:0], bands)
		of[i] = Kept
		for _, c := range candidates {
			j := seen.rows[c]
			yes, err := alike(i, j)
			if err != nil {
				return nil, err
			}
			if yes {
				of[i] = j
				break
			}
		}
		if of[i] != Kept {
			continue
		}
		if seen.size(len(bands)) > room || uint64(len(seen.bands)+len(bands)) >= math.MaxUint32 {
			return nil, &FullError{Rows: len(seen.rows)}
		}
		seen.add(i, bands)
	}
	return of, nil
}

// maxShared is how many rows that stay are found by one band.
const maxShared = 64

// FullError is the error of rows that have no place in memory.
type FullError struct {
	// Rows is how many have one.
	Rows int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("there is room for the bands of %d rows", e.Rows)
}

// index finds rows by their bands. An entry is a band of a row; the entries of a slot are chained.
type index struct {
	rows  []int    // by the number of the row in the index
	full  []bool   // by band of the row that was looked for last: as many rows as there may be are found by it
	out   []bool   // by entry: it is not chained, since it was full
	bands []uint32 // by entry: the row's number times the bands of a row, and the band
	next  []uint32 // by entry: 1 + the next entry of the slot, or 0
	heads []uint32 // by slot: 1 + the first entry, or 0; a power of two
}

// size is how many bytes the index has when it has grown to hold another row.
func (x *index) size(bands int) int64 {
	entries := int64(len(x.bands) + bands)
	return entries*(4+4+1) + 4*int64(1)<<bits.Len64(uint64(entries)+1024) + 8*int64(len(x.rows)+1)
}

// slot is where band number i is looked for.
func (x *index) slot(i int, band uint32) uint64 {
	return mix(uint64(i)<<32|uint64(band)) >> (65 - bits.Len(uint(len(x.heads))))
}

// find appends the numbers of the rows that share a band with these, in their order.
func (x *index) find(to []uint32, bands []uint32) []uint32 {
	x.full = append(x.full[:0], make([]bool, len(bands))...)
	if len(x.heads) == 0 {
		return to
	}
	n := uint32(len(bands))
	for i, band := range bands {
		before := len(to)
		for e := x.heads[x.slot(i, band)]; e != 0; e = x.next[e-1] {
			if at := e - 1; x.bands[at] == band && at%n == uint32(i) {
				to = append(to, at/n)
			}
		}
		x.full[i] = len(to)-before >= maxShared
	}
	slices.Sort(to)
	return slices.Compact(to)
}

// add adds the row that was looked for last.
func (x *index) add(row int, bands []uint32) {
	x.rows = append(x.rows, row)
	x.out = append(x.out, x.full...)
	x.bands = append(x.bands, bands...)
	if len(x.bands) > len(x.heads) {
		x.grow(len(bands))
		return
	}
	for i, band := range bands {
		x.link(i, band)
	}
}

// link chains the next entry into its slot.
func (x *index) link(i int, band uint32) {
	if x.out[len(x.next)] {
		x.next = append(x.next, 0)
		return
	}
	head := &x.heads[x.slot(i, band)]
	x.next = append(x.next, *head)
	*head = uint32(len(x.next))
}

// grow makes room and chains all entries anew.
func (x *index) grow(bandsOfRow int) {
	x.heads = make([]uint32, 1<<bits.Len(uint(len(x.bands))+1024))
	x.next = x.next[:0]
	for at, band := range x.bands {
		x.link(at%bandsOfRow, band)
	}
}
