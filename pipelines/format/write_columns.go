package format

import (
	"maps"
	"slices"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// kindSet is a set of the kinds of values that a column holds. Null is in none: every column may be null.
type kindSet uint8

const (
	kindBool   kindSet = 1 << iota
	kindInt            // that a double holds exactly
	kindBigInt         // that it does not
	kindDouble
	kindText
	kindObject
	kindList
)

// maxExact is the largest whole number up to which a double holds all.
const maxExact = 1 << 53

// maxListDepth is how deeply lists nest in a column before they are JSON.
const maxListDepth = 8

// shape is what was seen of a column's values, or of the items of lists. Shapes can be joined in any order.
type shape struct {
	Kinds kindSet `json:"kinds"`
	Items *shape  `json:"items,omitempty"`
}

// Shapes are the columns of rows, by name.
type Shapes map[string]*shape

// Add takes in a row.
func (s Shapes) Add(r rows.Row) {
	for name, v := range r {
		c := s[name]
		if c == nil {
			c = &shape{}
			s[name] = c
		}
		c.add(v, maxListDepth)
	}
}

// Join takes in the columns of other rows.
func (s Shapes) Join(other Shapes) {
	for name, c := range other {
		if s[name] == nil {
			s[name] = &shape{}
		}
		s[name].join(c)
	}
}

// names returns the columns in order.
func (s Shapes) names() []string { return slices.Sorted(maps.Keys(s)) }

func (s *shape) add(v any, depth int) {
	switch v := v.(type) {
	case bool:
		s.Kinds |= kindBool
	case int64:
		if -maxExact <= v && v <= maxExact {
			s.Kinds |= kindInt
		} else {
			s.Kinds |= kindBigInt
		}
	case float64:
		s.Kinds |= kindDouble
	case string:
		s.Kinds |= kindText
	case map[string]any:
		s.Kinds |= kindObject
	case []any:
		if depth == 0 {
			s.Kinds |= kindObject
			return
		}
		s.Kinds |= kindList
		if s.Items == nil {
			s.Items = &shape{}
		}
		for _, item := range v {
			s.Items.add(item, depth-1)
		}
	}
}

func (s *shape) join(other *shape) {
	s.Kinds |= other.Kinds
	if other.Items == nil {
		return
	}
	if s.Items == nil {
		s.Items = &shape{}
	}
	s.Items.join(other.Items)
}

// storage is how a column is stored where all its values must have one type.
type storage int

const (
	storeJSON storage = iota // values that differ in type, and objects
	storeBool
	storeInt
	storeDouble
	storeText
	storeList
)

// storage returns the type that holds all values exactly.
func (s *shape) storage() storage {
	switch k := s.Kinds; {
	case k == kindBool:
		return storeBool
	case k != 0 && k&^(kindInt|kindBigInt) == 0:
		return storeInt
	case k != 0 && k&^(kindInt|kindDouble) == 0:
		return storeDouble
	case k == kindText, k == 0: // or nothing but nulls
		return storeText
	case k == kindList && s.Items.storage() != storeJSON:
		return storeList
	}
	return storeJSON
}
