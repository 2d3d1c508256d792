package pipelines

import (
	"bytes"
	"cmp"
	"encoding/binary"
	"fmt"
)

// mark stands for a row in the groupings: it says where the row lies and how it compares with others.
type mark struct {
	// key is the digest of what the grouping is about: the fields that must be equal, or the row.
	key digest
	// tie is the digest of the whole row. It orders rows that order does not.
	tie digest
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

// readMark reads the first mark packed in b, which is not empty, and returns what follows it. The mark holds on to b.
func readMark(b []byte) (m mark, rest []byte, err error) {
	if len(b) < markHead {
		return m, nil, fmt.Errorf("a mark of %d bytes is cut off", len(b))
	}
	m = mark{
		key: digest(b[:16]), tie: digest(b[16:32]),
		segment: binary.BigEndian.Uint16(b[32:]), unit: binary.BigEndian.Uint32(b[34:]),
		offset: binary.BigEndian.Uint64(b[38:]), size: binary.BigEndian.Uint32(b[46:]),
	}
	order, bands := int(binary.BigEndian.Uint16(b[50:])), int(binary.BigEndian.Uint16(b[52:]))
	b = b[markHead:]
	if len(b) < order+bands {
		return m, nil, fmt.Errorf("the order and the bands of a mark are cut off: %d of %d bytes", len(b), order+bands)
	}
	m.order, m.bands = b[:order:order], b[order:order+bands:order+bands]
	return m, b[order+bands:], nil
}

// marks calls yield for each mark packed in b. What the marks hold is b's.
func marks(b []byte, yield func(mark)) error {
	for len(b) > 0 {
		m, rest, err := readMark(b)
		if err != nil {
			return err
		}
		yield(m)
		b = rest
	}
	return nil
}

// before reports whether m's row comes before o's: by order, then by content. Rows equal in both are interchangeable, so the
// place decides only which copy is kept, not what is in it.
func (m mark) before(o mark) bool {
	if c := bytes.Compare(m.order, o.order); c != 0 {
		return c < 0
	}
	if c := bytes.Compare(m.tie[:], o.tie[:]); c != 0 {
		return c < 0
	}
	return cmp.Or(cmp.Compare(m.segment, o.segment), cmp.Compare(m.unit, o.unit), cmp.Compare(m.offset, o.offset)) < 0
}

// unit maps a digest to [0, 1) evenly.
func unit(d digest) float64 {
	return float64(binary.BigEndian.Uint64(d[:8])>>11) / (1 << 53)
}

// bucket maps a digest to one of n groups evenly, by other bits than unit does.
func bucket(d digest, n int) int {
	return int(binary.BigEndian.Uint64(d[8:]) % uint64(n))
}
