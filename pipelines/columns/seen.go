package columns

import (
	"time"

	"github.com/sluiceml/sluice/dsl/expr/value"
)

// kindSet is a set of the kinds of values that a column holds. Null is not part of it: every column may be null.
type kindSet uint32

const (
	kindBool   kindSet = 1 << iota
	kindInt            // integers that a double represents exactly
	kindBigInt         // other integers
	kindDouble
	kindText
	kindObject
	kindList
	kindOther    // values that no column of a type holds: nested too deeply, or with too many fields
	kindUint     // unsigned integers
	kindNegative // integers below 0
	kindDecimal
	kindInstant
	kindLocal
	kindDate
	kindNanos // times that microseconds do not represent
	kindDuration
	kindVaried // objects with different fields
	kindBytes
)

// kindsOf are those of values that JSON has no form for.
var kindsOf = map[value.Kind]kindSet{
	value.OfUint: kindUint, value.OfInstant: kindInstant, value.OfLocal: kindLocal, value.OfDate: kindDate, value.OfDuration: kindDuration, value.OfBytes: kindBytes,
}

// maxIntDigits is how many digits integers of 64 bits have.
const maxIntDigits = 20

const (
	// maxNested is how deeply lists and objects may nest in a column; deeper values are stored as JSON.
	maxNested = 8
	// maxFields is how many fields an object may have; larger ones are stored as JSON, since their field names are probably data.
	maxFields = 1000
	// maxVaried is how many fields objects may have together that do not all have the same; a missing field is null.
	maxVaried = 100
)

// seen is what was seen of the values of a column or the items of a list. Joining is independent of the order.
type seen struct {
	Kinds  kindSet          `json:"kinds"`
	Items  *seen            `json:"items,omitempty"`
	Fields map[string]*seen `json:"fields,omitempty"`
	// Whole and Scale are the most digits of decimals before and after the point.
	Whole int `json:"whole,omitempty"`
	Scale int `json:"scale,omitempty"`
}

// Seen holds what was seen of the columns of rows, by name.
type Seen map[string]*seen

// Add adds a row.
func (s Seen) Add(r map[string]any) {
	for name, v := range r {
		c := s[name]
		if c == nil {
			c = &seen{}
			s[name] = c
		}
		c.add(v, maxNested)
	}
}

// Join adds what was seen of other rows.
func (s Seen) Join(other Seen) {
	for name, c := range other {
		if s[name] == nil {
			s[name] = &seen{}
		}
		s[name].join(c)
	}
}

// Type returns the type of the rows, a struct. Columns in known get their type from there, and the values determine the others. If no row
// was seen, the result has the columns of known.
func (s Seen) Type(known *Type) *Type {
	out := &Type{Kind: Struct}
	var fields map[string]*Type
	if known != nil {
		fields = known.Fields
	}
	for name, c := range s {
		out.With(name, c.typeOf(fields[name]))
	}
	if len(s) == 0 {
		for name, t := range fields {
			out.With(name, (*seen)(nil).typeOf(t))
		}
	}
	return out
}

func (s *seen) add(v any, depth int) {
	switch v := v.(type) {
	case bool:
		s.Kinds |= kindBool
	case int64:
		if -maxExact <= v && v <= maxExact {
			s.Kinds |= kindInt
		} else {
			s.Kinds |= kindBigInt
		}
		if v < 0 {
			s.Kinds |= kindNegative
		}
	case value.Decimal:
		s.Kinds |= kindDecimal
		s.Whole, s.Scale = max(s.Whole, v.Digits()-v.Scale()), max(s.Scale, v.Scale())
	case time.Time:
		s.Kinds |= kindsOf[value.KindOf(v)]
		if v.Nanosecond()%1e3 != 0 {
			s.Kinds |= kindNanos
			if !Nanos.spans(v) {
				s.Kinds |= kindOther
			}
		}
	case uint64, time.Duration, []byte:
		s.Kinds |= kindsOf[value.KindOf(v)]
	case float64:
		s.Kinds |= kindDouble
	case string:
		s.Kinds |= kindText
	case map[string]any:
		s.addObject(v, depth)
	case []any:
		if depth == 0 {
			s.Kinds |= kindOther
			return
		}
		s.Kinds |= kindList
		if s.Items == nil {
			s.Items = &seen{}
		}
		for _, item := range v {
			s.Items.add(item, depth-1)
		}
	}
}

func (s *seen) addObject(object map[string]any, depth int) {
	if s.Kinds&kindObject != 0 && !sameKeys(s.Fields, object) {
		s.Kinds |= kindVaried
	}
	if depth == 0 || len(object) > maxFields || len(s.Fields) > maxFields {
		s.Kinds |= kindOther
	}
	s.Kinds |= kindObject
	if s.Kinds&kindOther != 0 {
		s.Fields = nil
		return
	}
	for name, v := range object {
		s.field(name).add(v, depth-1)
	}
}

func sameKeys[A, B any](a map[string]A, b map[string]B) bool {
	for name := range a {
		if _, ok := b[name]; !ok {
			return false
		}
	}
	return len(a) == len(b)
}

// field returns what was seen of a field of objects.
func (s *seen) field(name string) *seen {
	if s.Fields == nil {
		s.Fields = map[string]*seen{}
	}
	if s.Fields[name] == nil {
		s.Fields[name] = &seen{}
	}
	return s.Fields[name]
}

func (s *seen) join(other *seen) {
	if s.Kinds&other.Kinds&kindObject != 0 && !sameKeys(s.Fields, other.Fields) {
		s.Kinds |= kindVaried
	}
	s.Kinds |= other.Kinds
	s.Whole, s.Scale = max(s.Whole, other.Whole), max(s.Scale, other.Scale)
	if other.Items != nil {
		if s.Items == nil {
			s.Items = &seen{}
		}
		s.Items.join(other.Items)
	}
	if s.Kinds&kindOther != 0 {
		s.Fields = nil
		return
	}
	for name, field := range other.Fields {
		s.field(name).join(field)
	}
	if len(s.Fields) > maxFields {
		s.Kinds |= kindOther
		s.Fields = nil
	}
}

// typeOf returns known where it determines a type, and otherwise the type that holds all values exactly. s is nil if no value was seen.
func (s *seen) typeOf(known *Type) *Type {
	if s == nil {
		s = &seen{}
	}
	if known == nil || known.Kind == Null {
		return s.valueType()
	}
	out := *known
	switch known.Kind { //nolint:exhaustive // the others have no parts
	case List:
		out.Items = s.Items.typeOf(known.Items)
	case Map:
		out.Items = (*seen)(nil).typeOf(known.Items)
	case Struct:
		if out.Fields = nil; len(known.Fields) == 0 {
			return &Type{Kind: JSON} // no file format has structs without fields
		}
		for name, field := range known.Fields {
			out.With(name, s.Fields[name].typeOf(field))
		}
	}
	return &out
}

func (s *seen) valueType() *Type {
	switch k := s.Kinds; {
	case k == kindBool:
		return &Type{Kind: Bool}
	case k&kindOther != 0:
	case k != 0 && k&^(kindInt|kindBigInt|kindNegative) == 0:
		return &Type{Kind: Int, Bits: 64}
	case k&kindUint != 0 && k&^(kindUint|kindInt|kindBigInt) == 0:
		return &Type{Kind: Int, Bits: 64, Unsigned: true}
	case k != 0 && k&^(kindInt|kindDouble|kindNegative) == 0:
		return &Type{Kind: Float, Bits: 64}
	case k&kindDecimal != 0 && k&kindDouble != 0 && k&^(kindDecimal|kindDouble|kindInt|kindNegative) == 0: // a decimal and a double are compared as doubles
		return &Type{Kind: Float, Bits: 64}
	case k&(kindDecimal|kindUint) != 0 && k&^(kindDecimal|kindInt|kindBigInt|kindNegative|kindUint) == 0:
		whole := s.Whole
		if k != kindDecimal {
			whole = max(whole, maxIntDigits)
		}
		if t := NewDecimal(max(1, whole+s.Scale), s.Scale); t != nil {
			return t
		}
	case k&(kindInstant|kindLocal) != 0 && k&^(kindInstant|kindNanos) == 0, k&(kindInstant|kindLocal) != 0 && k&^(kindLocal|kindNanos) == 0:
		t := &Type{Kind: Timestamp, Unit: Micros, UTC: k&kindInstant != 0}
		if k&kindNanos != 0 {
			t.Unit = Nanos
		}
		return t
	case k == kindDate:
		return &Type{Kind: Date}
	case k == kindBytes:
		return &Type{Kind: Bytes}
	case k&^(kindText|kindDecimal|kindInstant|kindLocal|kindNanos|kindDate|kindDuration|kindBytes) == 0: // which have texts; no file format has durations
		return &Type{Kind: Text}
	case k == 0: // only nulls
		return &Type{Kind: Text}
	case k&^kindVaried == kindObject && len(s.Fields) > 0 && (k == kindObject || len(s.Fields) <= maxVaried):
		out := &Type{Kind: Struct}
		for name, field := range s.Fields {
			out.With(name, field.valueType())
		}
		return out
	case k == kindList:
		if items := s.Items.valueType(); items.Kind != JSON {
			return &Type{Kind: List, Items: items}
		}
	}
	return &Type{Kind: JSON}
}
