package pipelines

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// mark stands for a row in the groupings: it says where the row lies and how it compares with others.
type mark struct {
	// key is the digest of what the grouping is about: the fields that must be equal, or the row.
	key rows.Digest
	// tie is the digest of the whole row. It orders rows that order does not.
	tie rows.Digest
	// order is the sort key of Deduplicate, in a form whose bytes sort as the values do.
	order []byte
	// bands are those of the row's text, of 4 bytes each, for a Deduplicate by minhash.
	bands []byte
	// segment and unit are those of the spill file, offset the place of the row in it and size that of the row's JSON.
	segment uint16
	unit    uint32
	offset  uint64
	size    uint32
}

// append adds the mark's bytes: fixed fields in big endian, the last of them the lengths of order and bands, then these.
func (m mark) append(b []byte) []byte {
	b = append(b, m.key[:]...)
	b = append(b, m.tie[:]...)
	b = binary.BigEndian.AppendUint16(b, m.segment)
	b = binary.BigEndian.AppendUint32(b, m.unit)
	b = binary.BigEndian.AppendUint64(b, m.offset)
	b = binary.BigEndian.AppendUint32(b, m.size)
	b = binary.BigEndian.AppendUint16(b, uint16(len(m.order)))
	b = binary.BigEndian.AppendUint16(b, uint16(len(m.bands)))
	b = append(b, m.order...)
	return append(b, m.bands...)
}

// markHead is the length of a mark without its order and bands.
const markHead = 16 + 16 + 2 + 4 + 8 + 4 + 2 + 2

// packedMark is one mark as append made it.
type packedMark []byte

// cutMark returns the first of the marks in b, which is not empty, and the others.
func cutMark(b []byte) (first packedMark, rest []byte, err error) {
	if len(b) < markHead {
		return nil, nil, fmt.Errorf("a mark of %d bytes is cut off", len(b))
	}
	size := markHead + int(binary.BigEndian.Uint16(b[50:])) + int(binary.BigEndian.Uint16(b[52:]))
	if len(b) < size {
		return nil, nil, fmt.Errorf("the order and the bands of a mark are cut off: %d of %d bytes", len(b), size)
	}
	return b[:size:size], b[size:], nil
}

// marks calls yield for each mark in b.
func marks(b []byte, yield func(packedMark)) error {
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

// mark returns the mark, which holds on to p.
func (p packedMark) mark() mark {
	return mark{
		key: rows.Digest(p[:16]), tie: rows.Digest(p[16:32]),
		segment: binary.BigEndian.Uint16(p[32:]), unit: binary.BigEndian.Uint32(p[34:]),
		offset: binary.BigEndian.Uint64(p[38:]), size: binary.BigEndian.Uint32(p[46:]),
		order: p.order(), bands: p[markHead+len(p.order()):],
	}
}

func (p packedMark) order() []byte {
	return p[markHead : markHead+int(binary.BigEndian.Uint16(p[50:]))]
}

// compare tells which of the rows of two marks comes first: by order, then by content. Rows equal in both are interchangeable, so the
// place decides only which copy is kept, not what is in it.
func (p packedMark) compare(o packedMark) int {
	return cmp.Or(bytes.Compare(p.order(), o.order()), bytes.Compare(p[16:46], o[16:46])) // tie and place
}

// move makes the mark one of a row that lies elsewhere, so many bytes further on.
func (p packedMark) move(segment uint16, unit uint32, by uint64) {
	binary.BigEndian.PutUint16(p[32:], segment)
	binary.BigEndian.PutUint32(p[34:], unit)
	binary.BigEndian.PutUint64(p[38:], binary.BigEndian.Uint64(p[38:])+by)
}
