package columns

import (
	"fmt"
	"iter"
	"maps"
	"math"
	"math/big"
	"slices"
	"time"

	"github.com/google/uuid"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// Unit is the number of decimal digits of a second: 3, 6 or 9.
type Unit int

// The units of times.
const (
	Millis Unit = 3
	Micros Unit = 6
	Nanos  Unit = 9
)

// perSecond returns the number of units in a second.
func (u Unit) perSecond() int64 {
	switch u {
	case Millis:
		return 1e3
	case Micros:
		return 1e6
	case Nanos:
	}
	return 1e9
}

const (
	clockLayout = "15:04:05.999999999"
	day         = 24 * 60 * 60
)

// TimeOf returns a timestamp as a value of a row: an instant, or a local time.
func TimeOf(n int64, unit Unit, utc bool) (any, error) {
	per := unit.perSecond()
	seconds := n / per
	if n%per < 0 {
		seconds--
	}
	in := value.Local
	if utc {
		in = time.UTC
	}
	return InRange(time.Unix(seconds, (n-seconds*per)*(1e9/per)).In(in))
}

// DateOf returns a date, given as days since 1970-01-01.
func DateOf(days int32) (any, error) {
	return InRange(time.Unix(int64(days)*day, 0).In(value.Date))
}

// InRange rejects times beyond the years that have a text.
func InRange(t time.Time) (any, error) {
	if t.Year() < 0 || t.Year() > 9999 {
		return nil, rows.Reject("number_range", "a time is in the year %d; supported are years from 0 to 9999", t.Year())
	}
	return t, nil
}

// TimeText formats a time of day.
func TimeText(n int64, unit Unit) (string, error) {
	per := unit.perSecond()
	if n < 0 || n >= day*per {
		return "", rows.Reject("number_range", "%d is not a time of day", n)
	}
	return time.Unix(n/per, n%per*(1e9/per)).UTC().Format(clockLayout), nil
}

// maxDecimalBytes bounds the size of a decimal's unscaled value, in bytes.
const maxDecimalBytes = 512

// DecimalOf returns a decimal, given as its unscaled value in two's complement, big endian.
func DecimalOf(raw []byte, scale int) (any, error) {
	if len(raw) > maxDecimalBytes {
		return nil, rows.Reject("number_range", "a decimal has %d bytes, more than the maximum of %d", len(raw), maxDecimalBytes)
	}
	n := new(big.Int).SetBytes(raw)
	if len(raw) > 0 && raw[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	return value.BigDecimal(n, scale), nil
}

// UUIDText formats the 16 bytes of a UUID.
func UUIDText(raw []byte) (string, error) {
	id, err := uuid.FromBytes(raw)
	return id.String(), err
}

// Physical returns the representation of a non-null value in a file with typed columns: a bool, int64, float64, string, []byte, or *big.Int
// (the unscaled value of a decimal). Lists, maps and structs are returned unchanged. ok reports whether the representation stands for
// exactly this value.
func (t *Type) Physical(v any) (raw any, ok bool) {
	switch t.Kind {
	case JSON:
		text, err := rows.AppendValue(nil, v)
		return string(text), err == nil
	case Bool:
		_, ok = v.(bool)
		return v, ok
	case Int:
		return t.whole(v)
	case Float:
		return t.float(v)
	case Decimal:
		return t.decimal(v)
	case Timestamp, Date:
		return t.time(v)
	case List:
		_, ok = v.([]any)
		return v, ok
	case Struct:
		_, ok = v.(map[string]any)
		return v, ok
	case Map:
		_, object := v.(map[string]any)
		return v, object || t.Key.pairs(v)
	case Null:
		return nil, false
	case Bytes:
		b, ok := v.([]byte)
		return b, ok && (t.Size == 0 || t.Size == len(b))
	case Text, UUID, Enum, Time:
	}
	text, ok := v.(string)
	if !ok && t.Kind == Text {
		text, ok = value.Text(v)
	}
	if !ok {
		return nil, false
	}
	return t.ofText(text)
}

// pairs reports whether v is a map in the form of a list of key-value objects, which maps with other than text keys have.
func (t *Type) pairs(v any) bool {
	_, list := v.([]any)
	return list && !t.IsText()
}

// IsText reports whether values of the type are strings in a row.
func (t *Type) IsText() bool {
	switch t.Kind {
	case Text, UUID, Enum, Time:
		return true
	case Bool, Int, Float, JSON, Bytes, Timestamp, Date, Decimal, List, Map, Struct, Null:
	}
	return false
}

// whole is Physical for integers. Unsigned ones beyond an int64 are returned as one with the same bits.
func (t *Type) whole(v any) (raw any, ok bool) {
	switch v := v.(type) {
	case uint64:
		if t.Unsigned {
			return int64(v), t.Bits >= 64 || v < 1<<t.Bits
		}
		return int64(v), v <= math.MaxInt64 && t.holds(int64(v))
	case int64:
		return v, t.holds(v)
	}
	return nil, false
}

// holds reports whether an integer fits the type's bits.
func (t *Type) holds(n int64) bool {
	switch {
	case t.Unsigned:
		return n >= 0 && (t.Bits >= 64 || n < 1<<t.Bits)
	case t.Bits >= 64:
		return true
	}
	return -1<<(t.Bits-1) <= n && n < 1<<(t.Bits-1)
}

// maxExact is the largest integer up to which a double represents every integer exactly.
const maxExact = 1 << 53

func (t *Type) float(v any) (raw any, ok bool) {
	f, ok := v.(float64)
	switch v := v.(type) {
	case int64:
		f, ok = float64(v), -maxExact <= v && v <= maxExact
	case value.Decimal:
		f, ok = v.Float(), true
	}
	if t.Bits < 64 {
		ok = ok && (float64(float32(f)) == f || f != f)
	}
	return f, ok
}

// ofText is Physical for types whose values are strings in a row.
func (t *Type) ofText(text string) (raw any, ok bool) {
	switch t.Kind { //nolint:exhaustive // the others are no texts
	case Text:
		return text, true
	case Enum:
		return text, t.Symbols == nil || slices.Contains(t.Symbols, text)
	case UUID:
		id, err := uuid.Parse(text)
		return id[:], err == nil && id.String() == text
	}
	at, err := time.Parse(clockLayout, text)
	if err != nil {
		return nil, false
	}
	n := int64(at.Sub(at.Truncate(day*time.Second))) / (1e9 / t.Unit.perSecond())
	again, err := TimeText(n, t.Unit)
	return n, err == nil && again == text
}

// time is Physical for dates and timestamps.
func (t *Type) time(v any) (raw any, ok bool) {
	at, ok := v.(time.Time)
	kind := value.OfLocal
	switch {
	case t.Kind == Date:
		kind = value.OfDate
	case t.UTC:
		kind = value.OfInstant
	}
	if !ok || value.KindOf(at) != kind {
		return nil, false
	}
	if t.Kind == Date {
		return at.Unix() / day, true
	}
	per := t.Unit.perSecond()
	nanos := int64(at.Nanosecond())
	if nanos%(1e9/per) != 0 || !t.Unit.spans(at) {
		return nil, false
	}
	return at.Unix()*per + nanos/(1e9/per), true
}

// spans reports whether a time fits 64 bits in a unit.
func (u Unit) spans(t time.Time) bool {
	return u != Nanos || -maxNanoSeconds < t.Unix() && t.Unix() < maxNanoSeconds
}

// maxNanoSeconds is how many seconds fit 64 bits as nanoseconds.
const maxNanoSeconds = math.MaxInt64 / 1_000_000_000

// decimal is Physical for decimals, to which integers belong.
func (t *Type) decimal(v any) (raw any, ok bool) {
	d, ok := value.Exact(v)
	if !ok {
		return nil, false
	}
	d, ok = d.Rescale(t.Scale)
	return d.Unscaled(), ok && d.Digits() <= t.Precision
}

// Misfit is the error for a value that does not fit the type of its column.
type Misfit struct {
	Column string
	Value  any
}

func (m *Misfit) Error() string {
	return fmt.Sprintf("the column %s: a value of type %s does not fit the type of the column", m.Column, value.TypeName(m.Value))
}

// Entries yields the keys and values of a map, in order.
func (t *Type) Entries(v any) iter.Seq2[any, any] {
	return func(yield func(key, value any) bool) {
		switch v := v.(type) {
		case map[string]any:
			for _, key := range slices.Sorted(maps.Keys(v)) {
				if !yield(key, v[key]) {
					return
				}
			}
		case []any: // of key-value objects
			for _, entry := range v {
				object, _ := entry.(map[string]any)
				if !yield(object["key"], object["value"]) {
					return
				}
			}
		}
	}
}

// TwosComplement returns a number in two's complement, big endian, in size bytes.
func TwosComplement(n *big.Int, size int) []byte {
	if n.Sign() < 0 {
		n = new(big.Int).Add(n, new(big.Int).Lsh(big.NewInt(1), uint(8*size)))
	}
	return n.FillBytes(make([]byte, size))
}
