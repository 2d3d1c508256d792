// Package value defines the values that rows hold in addition to those of JSON, and their canonical texts.
//
// The values of a row are nil, bool, int64, uint64, float64, string, []byte, Decimal, time.Time, time.Duration, []any and map[string]any. A
// time.Time is an instant, unless its location is Local or Date. Arithmetic in CEL keeps the location.
package value

import (
	"cmp"
	"encoding/base64"
	"fmt"
	"math"
	"strconv"
	"time"
)

// The locations of times that are not instants. Both have the offset of UTC, so that all times compare by what a clock there shows.
var (
	// Local is the location of a date and time of day without a time zone.
	Local = time.FixedZone("local", 0)
	// Date is the location of a date, whose time of day is midnight.
	Date = time.FixedZone("date", 0)
)

// layouts are those of the texts of times: RFC 3339, and without a time zone for those that are not instants.
var layouts = map[*time.Location]string{time.UTC: time.RFC3339Nano, Local: "2006-01-02T15:04:05.999999999", Date: time.DateOnly}

// TimeText returns the text of a time: RFC 3339 for an instant, in UTC, and without a time zone for a local time.
func TimeText(t time.Time) string {
	in := locations[KindOf(t)]
	return t.In(in).Format(layouts[in])
}

// ParseTime parses a text that TimeText returns for a time in a location: UTC, Local or Date.
func ParseTime(text string, in *time.Location) (time.Time, error) {
	t, err := time.ParseInLocation(layouts[in], text, in)
	if t = t.In(in); err == nil && (t.Year() < 0 || t.Year() > 9999) {
		err = fmt.Errorf("%q is in the year %d in UTC", text, t.Year())
	}
	return t, err
}

// Kind is the kind of a value that JSON has no form for.
type Kind byte

// The kinds; JSON is that of all other values.
const (
	OfJSON     Kind = 0
	OfUint     Kind = 'u'
	OfDecimal  Kind = 'd'
	OfInstant  Kind = 'i'
	OfLocal    Kind = 'l'
	OfDate     Kind = 'a'
	OfDuration Kind = 's'
	OfBytes    Kind = 'b'
	OfNoNumber Kind = 'N' // NaN and infinities
)

// locations are those of times by their kinds.
var locations = map[Kind]*time.Location{OfInstant: time.UTC, OfLocal: Local, OfDate: Date}

// KindOf returns the kind of a value.
func KindOf(v any) Kind {
	switch v := v.(type) {
	case uint64:
		return OfUint
	case float64:
		if !Finite(v) {
			return OfNoNumber
		}
	case Decimal:
		return OfDecimal
	case time.Duration:
		return OfDuration
	case []byte:
		return OfBytes
	case time.Time:
		switch in := v.Location(); {
		case in == Date && v.Equal(v.Truncate(24*time.Hour)):
			return OfDate
		case in == Date || in == Local:
			return OfLocal
		}
		return OfInstant
	}
	return OfJSON
}

// Text returns the canonical text of a value that JSON has no form for. ok is false for other values.
func Text(v any) (text string, ok bool) {
	switch v := v.(type) {
	case uint64:
		return strconv.FormatUint(v, 10), true
	case float64:
		return strconv.FormatFloat(v, 'g', -1, 64), !Finite(v)
	case Decimal:
		return v.String(), true
	case time.Time:
		return TimeText(v), true
	case time.Duration:
		return v.String(), true
	case []byte:
		return base64.StdEncoding.EncodeToString(v), true
	}
	return "", false
}

// Parse parses a text that Text returns for a value of a kind.
func Parse(k Kind, text string) (any, error) {
	switch k {
	case OfUint:
		return strconv.ParseUint(text, 10, 64)
	case OfDecimal:
		return ParseDecimal(text)
	case OfInstant, OfLocal, OfDate:
		return ParseTime(text, locations[k])
	case OfDuration:
		return time.ParseDuration(text)
	case OfBytes:
		return base64.StdEncoding.Strict().DecodeString(text)
	case OfNoNumber:
		return strconv.ParseFloat(text, 64)
	case OfJSON:
	}
	return nil, fmt.Errorf("there is no kind %q of values", k)
}

// JSON returns a value as JSON holds it: NaN and infinities become null, and values that JSON has no form for their texts. It does not
// modify v.
func JSON(v any) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, item := range v {
			out[i] = JSON(item)
		}
		return out
	case map[string]any:
		return JSONObject(v)
	case uint64:
		return v
	}
	switch text, ok := Text(v); {
	case KindOf(v) == OfNoNumber:
		return nil
	case ok:
		return text
	}
	return v
}

// JSONObject is JSON for an object.
func JSONObject(object map[string]any) map[string]any {
	out := make(map[string]any, len(object))
	for name, v := range object {
		out[name] = JSON(v)
	}
	return out
}

// Finite reports whether a number is neither NaN nor infinite.
func Finite(f float64) bool { return !math.IsNaN(f) && !math.IsInf(f, 0) }

// Restore returns after with the types of before: a program that got before as JSON has returned after. What is the JSON of before, or a number
// equal to it, becomes before, and another text in the place of a time, a duration or a decimal becomes one if it is a canonical text.
func Restore(before, after any) any {
	switch was := before.(type) {
	case []any:
		if list, ok := after.([]any); ok {
			for i := range min(len(list), len(was)) {
				list[i] = Restore(was[i], list[i])
			}
		}
		return after
	case map[string]any:
		if object, ok := after.(map[string]any); ok {
			for name, v := range object {
				object[name] = Restore(was[name], v)
			}
		}
		return after
	}
	same := JSON(before)
	if Ordered(same) && Ordered(after) && Compare(same, after) == 0 {
		return before
	}
	_, wasText := same.(string)
	if text, ok := after.(string); ok && wasText && KindOf(before) != OfBytes { // which many texts could be
		if again, err := Parse(KindOf(before), text); err == nil {
			if canonical, _ := Text(again); canonical == text {
				return again
			}
		}
	}
	return after
}

// typeNames are the names of the types of values by their kinds.
var typeNames = map[Kind]string{
	OfUint: "integer", OfDecimal: "decimal", OfInstant: "timestamp", OfLocal: "local timestamp", OfDate: "date", OfDuration: "duration", OfBytes: "bytes",
}

// TypeName returns the name of a value's type in messages, types of columns and profiles.
func TypeName(v any) string {
	switch v.(type) {
	case nil:
		return "null"
	case bool:
		return "boolean"
	case int64:
		return "integer"
	case float64:
		return "number"
	case string:
		return "string"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return cmp.Or(typeNames[KindOf(v)], fmt.Sprintf("%T", v))
}
