package columns

import (
	"encoding/base64"
	"fmt"
	"iter"
	"maps"
	"math"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/google/uuid"

	"github.com/sluiceml/sluice/pipelines/rowjson"
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
	localLayout = "2006-01-02T15:04:05.999999999"
	clockLayout = "15:04:05.999999999"
	day         = 24 * 60 * 60
)

// TimestampText formats a timestamp: in RFC 3339 if it is an instant (utc), and without a zone if it is a local time.
func TimestampText(n int64, unit Unit, utc bool) (string, error) {
	per := unit.perSecond()
	seconds := n / per
	if n%per < 0 {
		seconds--
	}
	return InstantText(time.Unix(seconds, (n-seconds*per)*(1e9/per)), utc)
}

// InstantText is TimestampText for a time.Time.
func InstantText(t time.Time, utc bool) (string, error) {
	t = t.UTC()
	if t.Year() < 0 || t.Year() > 9999 {
		return "", rows.Reject("number_range", "a timestamp is in the year %d; supported are years from 0 to 9999", t.Year())
	}
	if utc {
		return t.Format(time.RFC3339Nano), nil
	}
	return t.Format(localLayout), nil
}

// DateText formats a date, given as days since 1970-01-01.
func DateText(days int32) (string, error) {
	t := time.Unix(int64(days)*day, 0).UTC()
	if t.Year() < 0 || t.Year() > 9999 {
		return "", rows.Reject("number_range", "a date is in the year %d; supported are years from 0 to 9999", t.Year())
	}
	return t.Format(time.DateOnly), nil
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

// DecimalText formats a decimal from its unscaled value in two's complement, big endian.
func DecimalText(raw []byte, scale int) (string, error) {
	if len(raw) > maxDecimalBytes {
		return "", rows.Reject("number_range", "a decimal has %d bytes, more than the maximum of %d", len(raw), maxDecimalBytes)
	}
	n := new(big.Int).SetBytes(raw)
	if len(raw) > 0 && raw[0] >= 0x80 {
		n.Sub(n, new(big.Int).Lsh(big.NewInt(1), uint(8*len(raw))))
	}
	return pointed(n.String(), scale), nil
}

// SmallDecimalText is DecimalText for a 64-bit unscaled value.
func SmallDecimalText(n int64, scale int) string { return pointed(strconv.FormatInt(n, 10), scale) }

// pointed inserts the decimal point into an unscaled number.
func pointed(digits string, scale int) string {
	if scale == 0 {
		return digits
	}
	sign := ""
	if digits[0] == '-' {
		sign, digits = "-", digits[1:]
	}
	if missing := scale + 1 - len(digits); missing > 0 {
		digits = strings.Repeat("0", missing) + digits
	}
	at := len(digits) - scale
	return sign + digits[:at] + "." + digits[at:]
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
		text, err := rowjson.Append(nil, v)
		return string(text), err == nil
	case Bool:
		_, ok = v.(bool)
		return v, ok
	case Int:
		n, ok := v.(int64)
		return v, ok && t.holds(n)
	case Float:
		return t.float(v)
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
	case Text, Bytes, UUID, Enum, Timestamp, Date, Time, Decimal:
	}
	text, ok := v.(string)
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
	case Text, Bytes, UUID, Enum, Timestamp, Date, Time, Decimal:
		return true
	case Bool, Int, Float, JSON, List, Map, Struct, Null:
	}
	return false
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
	if n, whole := v.(int64); whole {
		f, ok = float64(n), -maxExact <= n && n <= maxExact
	}
	if t.Bits < 64 {
		ok = ok && float64(float32(f)) == f
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
	case Bytes:
		b, err := base64.StdEncoding.Strict().DecodeString(text)
		return b, err == nil && (t.Size == 0 || t.Size == len(b)) && !strings.ContainsAny(text, "\r\n")
	case UUID:
		id, err := uuid.Parse(text)
		return id[:], err == nil && id.String() == text
	case Decimal:
		return t.decimal(text)
	}
	n, again, err := t.time(text)
	return n, err == nil && again == text
}

// time parses a date or time, and formats it again for comparison.
func (t *Type) time(text string) (n int64, again string, err error) {
	layout := localLayout
	switch {
	case t.Kind == Date:
		layout = time.DateOnly
	case t.Kind == Time:
		layout = clockLayout
	case t.UTC:
		layout = time.RFC3339Nano
	}
	at, err := time.Parse(layout, text)
	if err != nil {
		return 0, "", err
	}
	per := t.Unit.perSecond()
	switch t.Kind {
	case Date:
		n = at.Unix() / day
		again, err = DateText(int32(n))
	case Time:
		n = int64(at.Sub(at.Truncate(day*time.Second))) / (1e9 / per)
		again, err = TimeText(n, t.Unit)
	default:
		n = at.Unix()*per + int64(at.Nanosecond())/(1e9/per)
		again, err = TimestampText(n, t.Unit, t.UTC)
	}
	return n, again, err
}

func (t *Type) decimal(text string) (raw any, ok bool) {
	whole, fraction, _ := strings.Cut(text, ".")
	if len(text) > t.Precision+3 { // sign, point, and the 0 before the point
		return nil, false
	}
	n, ok := new(big.Int).SetString(whole+fraction, 10)
	if !ok || len(strings.TrimLeft(n.String(), "-")) > t.Precision || pointed(n.String(), t.Scale) != text {
		return nil, false
	}
	return n, true
}

// Finite rejects NaN and infinities, which JSON cannot represent.
func Finite(f float64) (any, error) {
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, rows.Reject("number_range", "%v is not a number that a row can hold, because JSON has none; write null or another number to the file instead", f)
	}
	return f, nil
}

// Misfit is the error for a value that does not fit the type of its column.
type Misfit struct {
	Column string
	Value  any
}

func (m *Misfit) Error() string {
	return fmt.Sprintf("the column %s: a %T does not fit the type of the column", m.Column, m.Value)
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
