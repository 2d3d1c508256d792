package stats

import (
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"math"
	"math/bits"
	"slices"
)

// Cells is how many cells the keys of sticky traffic are hashed to. A cell is what a release gets and what is counted, so that memory is
// bounded however many keys there are. 0.1% of the traffic is 64 cells.
const Cells = 64000

const (
	cellWords = Cells / 64
	cellBytes = Cells / 8
)

// CellOf is the cell of a key with this hash.
func CellOf(hash uint64) int {
	cell, _ := bits.Mul64(hash, Cells)
	return int(cell)
}

// CellsOf is how many cells have a share of the traffic: those whose middle is below it.
func CellsOf(share float64) int { return int(math.Ceil(share*Cells - 0.5)) }

// CellSet is a set of cells. Sets of different gateways are united, so that a cell is in it once whoever counted it. The zero value is empty.
type CellSet struct{ words []uint64 }

// Add puts a cell into the set.
func (s *CellSet) Add(cell int) {
	if s.words == nil {
		s.words = make([]uint64, cellWords)
	}
	s.words[cell/64] |= 1 << (cell % 64)
}

// Has reports whether a cell is in the set.
func (s CellSet) Has(cell int) bool { return s.words != nil && s.words[cell/64]&(1<<(cell%64)) != 0 }

// Count is how many cells from one on and below another are in the set.
func (s CellSet) Count(from, to int) int64 {
	var n int64
	for i, word := range s.words {
		if word == 0 || 64*i+64 <= from || 64*i >= to {
			continue
		}
		for ; word != 0; word &= word - 1 {
			if cell := 64*i + bits.TrailingZeros64(word); cell >= from && cell < to {
				n++
			}
		}
	}
	return n
}

// Union is the set of the cells in either.
func (s CellSet) Union(other CellSet) CellSet {
	union := CellSet{words: slices.Clone(s.words)}
	if union.words == nil {
		return CellSet{words: slices.Clone(other.words)}
	}
	for i, word := range other.words {
		union.words[i] |= word
	}
	return union
}

// IsZero reports whether the set is empty, for JSON.
func (s CellSet) IsZero() bool { return s.words == nil }

// Equal reports whether both have the same cells.
func (s CellSet) Equal(other CellSet) bool {
	for i := range cellWords {
		if s.word(i) != other.word(i) {
			return false
		}
	}
	return true
}

func (s CellSet) word(i int) uint64 {
	if s.words == nil {
		return 0
	}
	return s.words[i]
}

// MarshalText implements encoding.TextMarshaler: base64 of the cells, two bytes each, or of a bit for every cell where that is shorter.
func (s CellSet) MarshalText() ([]byte, error) {
	var raw []byte
	if n := s.Count(0, Cells); 2*n >= cellBytes {
		for _, word := range s.words {
			raw = binary.LittleEndian.AppendUint64(raw, word)
		}
	} else {
		for cell := range Cells {
			if s.Has(cell) {
				raw = binary.LittleEndian.AppendUint16(raw, uint16(cell))
			}
		}
	}
	return base64.StdEncoding.AppendEncode(nil, raw), nil
}

// UnmarshalText implements encoding.TextUnmarshaler.
func (s *CellSet) UnmarshalText(text []byte) error {
	raw, err := base64.StdEncoding.AppendDecode(nil, text)
	if err != nil {
		return fmt.Errorf("a set of cells: %w", err)
	}
	if len(raw) > cellBytes || len(raw)%2 != 0 {
		return fmt.Errorf("a set of cells has %d bytes; it must be up to %d, and even", len(raw), cellBytes)
	}
	*s = CellSet{}
	if len(raw) == cellBytes {
		s.words = make([]uint64, cellWords)
		for i := range s.words {
			s.words[i] = binary.LittleEndian.Uint64(raw[8*i:])
		}
		return nil
	}
	for ; len(raw) > 0; raw = raw[2:] {
		cell := binary.LittleEndian.Uint16(raw)
		if cell >= Cells {
			return fmt.Errorf("a set of cells has cell %d; the last is %d", cell, Cells-1)
		}
		s.Add(int(cell))
	}
	return nil
}
