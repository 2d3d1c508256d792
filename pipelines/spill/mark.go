package spill

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// Mark represents a row in groupings: it says where the row is and how it compares with others.
type Mark struct {
	// Key is the digest of what rows are grouped by: the fields that must be equal, or the whole row.
	Key rows.Digest
	// Tie is the digest of the whole row. It orders rows whose Order is equal.
	Tie rows.Digest
	// Order is the sort key of a Deduplicate, encoded so that its bytes sort like the values.
	Order []byte
	// Bands are the bands of the row's text, of 4 bytes each, for a Deduplicate by minhash.
	Bands []byte
	// ID identifies the spill file, Offset is the row's offset in it, and Size the length of its JSON.
	ID
	Offset uint64
	Size   uint32
}

// Append appends the encoded mark: fixed fields in big endian, ending with the lengths of Order and Bands, and then these two.
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

// markHead is the length of an encoded mark without Order and Bands.
const markHead = 16 + 16 + 2 + 4 + 8 + 4 + 2 + 2

// Packed is a mark as encoded by Append.
type Packed []byte

// cutMark returns the first mark in b, which must not be empty, and the rest.
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

// Mark decodes the mark. The result refers to p.
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

// Compare compares two marks by Order and then by content. Rows that are equal in both are interchangeable, so the place only decides which
// copy is kept, not what it contains.
func (p Packed) Compare(o Packed) int {
	return cmp.Or(bytes.Compare(p.order(), o.order()), bytes.Compare(p[16:46], o[16:46])) // tie and place
}

// Move changes the mark for a row that was moved to another spill file, by bytes further on.
func (p Packed) Move(to ID, by uint64) {
	binary.BigEndian.PutUint16(p[32:], to.Segment)
	binary.BigEndian.PutUint32(p[34:], to.Unit)
	binary.BigEndian.PutUint64(p[38:], binary.BigEndian.Uint64(p[38:])+by)
}
