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

// emit emits the places under the units' numbers: all that is kept of a unit is worked on together.
func (p placed) emit(emit func(string, []byte)) {
	for id, packed := range p {
		emit(strconv.FormatUint(uint64(id.unit), 10), packed)
	}
}

// places reads what was emitted for one unit: offsets by segment, sorted.
func places(packed func(*[]byte) bool) (map[uint16][]uint64, error) {
	found := map[uint16][]uint64{}
	var batch []byte
	for packed(&batch) {
		if len(batch)%8 != 2 {
			return nil, errors.New("a list of offsets is cut off")
		}
		segment := binary.BigEndian.Uint16(batch)
		for i := 2; i < len(batch); i += 8 {
			found[segment] = append(found[segment], binary.BigEndian.Uint64(batch[i:]))
		}
	}
	for _, list := range found {
		slices.Sort(list)
	}
	return found, nil
}
