package spill

import (
	"bytes"
	"encoding/binary"
)

// BestMarks holds the first mark of each key, in the order of Packed.Compare. It is a hash table that uses the keys as hashes: a Go map
// would take three times the memory.
type BestMarks struct {
	packed []byte
	// slots hold 2 * (1 + the offset in packed), plus 1 if several marks had the key; 0 is free. Their number is a power of two.
	slots  []uint64
	keys   int
	Others int64 // marks that were not the first of their key
}

// Add adds a mark.
func (b *BestMarks) Add(m Packed) {
	if 2*b.keys >= len(b.slots) {
		b.grow()
	}
	slot := b.find(m[:16])
	if *slot == 0 {
		b.keys++
		*slot = b.append(m)
		return
	}
	b.Others++
	*slot |= 1
	if held := b.at(*slot); m.Compare(held) < 0 {
		if len(held) == len(m) {
			copy(held, m)
		} else {
			*slot = b.append(m) | 1
		}
	}
}

func (b *BestMarks) append(m Packed) (slot uint64) {
	b.packed = append(b.packed, m...)
	return 2 * uint64(1+len(b.packed)-len(m))
}

func (b *BestMarks) at(slot uint64) Packed {
	m, _, _ := cutMark(b.packed[slot/2-1:]) // it was valid when it was added
	return m
}

// find returns the slot of a key, or the free slot for it.
func (b *BestMarks) find(key []byte) *uint64 {
	mask := uint64(len(b.slots) - 1)
	for i := binary.BigEndian.Uint64(key) & mask; ; i = (i + 1) & mask {
		if s := &b.slots[i]; *s == 0 || bytes.Equal(b.packed[*s/2-1:][:16], key) {
			return s
		}
	}
}

func (b *BestMarks) grow() {
	before := b.slots
	b.slots = make([]uint64, max(2*len(before), 1024))
	for _, s := range before {
		if s != 0 {
			*b.find(b.packed[s/2-1:][:16]) = s
		}
	}
}

// Each calls yield for each mark, with whether several marks had its key.
func (b *BestMarks) Each(yield func(m Packed, several bool)) {
	for _, s := range b.slots {
		if s != 0 {
			yield(b.at(s), s&1 == 1)
		}
	}
}
