package spill

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// Mark stands for a row in the groupings: it says where the row lies and how it compares with others.
type Mark struct {
	// Key is the digest of what the grouping is about: the fields that must be equal, or the row.
	Key rows.Digest
	// Tie is the digest of the whole row. It orders rows that order does not.
	Tie rows.Digest
	// Order is the sort key of Deduplicate, in a form whose bytes sort as the values do.
	Order []byte
	// Bands are those of the row's text, of 4 bytes each, for a Deduplicate by minhash.
	Bands []byte
	// ID is that of the spill file, Offset the place of the row in it and Size that of the row's JSON.
	ID
	Offset uint64
	Size   uint32
}

// Append adds the mark's bytes: fixed fields in big endian, the last of them the lengths of order and bands, then these.
func (m Mark) Append(b []byte) []byte {
	b = append(b, m.Key[:]...)
	b = append(b, m.Tie[:]...)
	b = binary.BigEndian.AppendUint16(b, m.Segment)
	b = binary.BigEndian.AppendUint32(b, m.Unit)
	b = binary.BigEndian.AppendUint64(b, m.Offset)
	b = binary.BigEndian.AppendUint32(b, m.Size)
	b = binary.BigEndian.AppendUint16(b, uint16(len(m.Order)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(m.Bands)))
	b = append(b, m.Order...)
	return append(b, m.Bands...)
}

// markHead is the length of a mark without its order and bands.
const markHead = 16 + 16 + 2 + 4 + 8 + 4 + 2 + 2

// Packed is one mark as append made it.
type Packed []byte

// cutMark returns the first of the marks in b, which is not empty, and the others.
func cutMark(b []byte) (first Packed, rest []byte, err error) {
	if len(b) < markHead {
		return nil, nil, fmt.Errorf("a mark of %d bytes is cut off", len(b))
	}
	size := markHead + int(binary.BigEndian.Uint16(b[50:])) + int(binary.BigEndian.Uint16(b[52:]))
	if len(b) < size {
		return nil, nil, fmt.Errorf("the order and the bands of a mark are cut off: %d of %d bytes", len(b), size)
	}
	return b[:size:size], b[size:], nil
}

// EachMark calls yield for each mark in b.
func EachMark(b []byte, yield func(Packed)) error {
	for len(b) > 0 {
		m, rest, err := cutMark(b)
		if err != nil {
			return err
		}
		yield(m)
		b = rest
	}
	return nil
}

// Mark returns the mark, which holds on to p.
func (p Packed) Mark() Mark {
	return Mark{
		Key: rows.Digest(p[:16]), Tie: rows.Digest(p[16:32]),
		ID:     ID{Segment: binary.BigEndian.Uint16(p[32:]), Unit: binary.BigEndian.Uint32(p[34:])},
		Offset: binary.BigEndian.Uint64(p[38:]), Size: binary.BigEndian.Uint32(p[46:]),
		Order: p.order(), Bands: p[markHead+len(p.order()):],
	}
}

func (p Packed) order() []byte {
	return p[markHead : markHead+int(binary.BigEndian.Uint16(p[50:]))]
}

// Compare tells which of the rows of two marks comes first: by order, then by content. Rows equal in both are interchangeable, so the
// place decides only which copy is kept, not what is in it.
func (p Packed) Compare(o Packed) int {
	return cmp.Or(bytes.Compare(p.order(), o.order()), bytes.Compare(p[16:46], o[16:46])) // tie and place
}

// Move makes the mark one of a row that lies elsewhere, so many bytes further on.
func (p Packed) Move(to ID, by uint64) {
	binary.BigEndian.PutUint16(p[32:], to.Segment)
	binary.BigEndian.PutUint32(p[34:], to.Unit)
	binary.BigEndian.PutUint64(p[38:], binary.BigEndian.Uint64(p[38:])+by)
}
