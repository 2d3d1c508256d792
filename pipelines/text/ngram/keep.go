package ngram

import (
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Kept is Keep's result for a row that is kept.
const Kept = -1

// Keep decides, for n rows in their order, which to keep. A row is dropped if it resembles an earlier kept row; the result is the first
// such row for each dropped row, and Kept for the others. So later rows never change a decision, and a row that resembles only dropped rows
// is kept. Two rows are compared if they share a band, but a band finds only the first maxShared kept rows that have it: a band of more
// rows comes from a template and means little. This bounds the number of comparisons for each row. alike must be symmetric; Keep stops at
// its first error.
//
// bandsOf(i) returns the bands of row i, of which all rows have the same number. Memory: about 20 bytes for each band of each kept row. If
// that exceeds room, the error is a *FullError.
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

// maxShared is how many kept rows a band can find.
const maxShared = 64

// FullError is the error for rows that do not fit the memory.
type FullError struct {
	// Rows is how many kept rows fit.
	Rows int
}

func (e *FullError) Error() string {
	return fmt.Sprintf("there is room for the bands of %d rows", e.Rows)
}

// index finds rows by their bands. An entry is a band of a row; the entries of a slot are chained.
type index struct {
	rows  []int    // by row number in the index
	full  []bool   // by band of the row last passed to find: the band already finds maxShared rows
	out   []bool   // by entry: not chained, since its band was full
	bands []uint32 // by entry, which is the row number times the bands per row, plus the band's index
	next  []uint32 // by entry: 1 + the next entry of the slot, or 0
	heads []uint32 // by slot: 1 + the first entry, or 0; the length is a power of two
}

// size returns the index's size in bytes after it has grown to hold another row.
func (x *index) size(bands int) int64 {
	entries := int64(len(x.bands) + bands)
	return entries*(4+4+1) + 4*int64(1)<<bits.Len64(uint64(entries)+1024) + 8*int64(len(x.rows)+1)
}

// slot returns the slot of a band with index i.
func (x *index) slot(i int, band uint32) uint64 {
	return mix(uint64(i)<<32|uint64(band)) >> (65 - bits.Len(uint(len(x.heads))))
}

// find appends the numbers of the rows that share a band with the given ones, in ascending order.
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

// add adds the row that was last passed to find.
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

// link adds the next entry to the chain of its slot.
func (x *index) link(i int, band uint32) {
	if x.out[len(x.next)] {
		x.next = append(x.next, 0)
		return
	}
	head := &x.heads[x.slot(i, band)]
	x.next = append(x.next, *head)
	*head = uint32(len(x.next))
}

// grow enlarges the table and chains all entries again.
func (x *index) grow(bandsOfRow int) {
	x.heads = make([]uint32, 1<<bits.Len(uint(len(x.bands))+1024))
	x.next = x.next[:0]
	for at, band := range x.bands {
		x.link(at%bandsOfRow, band)
	}
}
