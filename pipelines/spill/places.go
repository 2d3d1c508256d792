package spill

import (
	"encoding/binary"
	"errors"
	"slices"
	"strconv"
)

// ID identifies a spill file.
type ID struct {
	Segment uint16
	Unit    uint32
}

// Places collects the places of rows in spill files. A packed list has the segment in 2 bytes, followed by offsets of 8 bytes each, big
// endian.
type Places map[ID][]byte

// Add adds the place of a row.
func (p Places) Add(m Mark) {
	b := p[m.ID]
	if b == nil {
		b = binary.BigEndian.AppendUint16(nil, m.Segment)
	}
	p[m.ID] = binary.BigEndian.AppendUint64(b, m.Offset)
}

// PutAside writes the places of a group to a file and returns references to them, keyed by unit number: all kept rows of a unit are
// processed together.
func (p Places) PutAside(work, group string) ([]Pack, error) {
	packs := make([]Pack, 0, len(p))
	for id, packed := range p {
		packs = append(packs, Pack{strconv.FormatUint(uint64(id.Unit), 10), packed})
	}
	return PutAside(work, AsideName("places", group), packs)
}

// ReadPlaces reads the places that were emitted for one unit: sorted offsets by segment.
func ReadPlaces(work string, packed func(*[]byte) bool) (map[uint16][]uint64, error) {
	refs, err := Collect(packed)
	if err != nil {
		return nil, err
	}
	found := map[uint16][]uint64{}
	err = Fetch(work, refs, func(batch []byte) error {
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
