package pipelines

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
)

// spillID names a spill file.
type spillID struct {
	segment uint16
	unit    uint32
}

// placed collects the places of rows in spill files: packed, the segment in 2 bytes and then offsets of 8 bytes, big endian.
type placed map[spillID][]byte

func (p placed) add(m mark) {
	id := spillID{m.segment, m.unit}
	b := p[id]
	if b == nil {
		b = binary.BigEndian.AppendUint16(nil, m.segment)
	}
	p[id] = binary.BigEndian.AppendUint64(b, m.offset)
}

// putAside puts the places of a group aside and returns references to them, under the units' numbers: all that is kept of a unit is worked
// on together.
func (p placed) putAside(work, group string) ([]pack, error) {
	packs := make([]pack, 0, len(p))
	for id, packed := range p {
		packs = append(packs, pack{strconv.FormatUint(uint64(id.unit), 10), packed})
	}
	return putAside(work, asideName("places", group), packs)
}

// places reads what was emitted for one unit: offsets by segment, sorted.
func places(work string, packed func(*[]byte) bool) (map[uint16][]uint64, error) {
	refs, err := collect(packed)
	if err != nil {
		return nil, err
	}
	found := map[uint16][]uint64{}
	err = fetch(work, refs, func(batch []byte) error {
		if len(batch)%8 != 2 {
			return errors.New("a list of offsets is cut off")
		}
		segment := binary.BigEndian.Uint16(batch)
		for i := 2; i < len(batch); i += 8 {
			found[segment] = append(found[segment], binary.BigEndian.Uint64(batch[i:]))
		}
		return nil
	})
	for _, list := range found {
		slices.Sort(list)
	}
	return found, err
}
