// Package rows has what all parts of cleaning share: the row, its JSON and digests, where it was read, why it is rejected or dropped, and
// the decoding of transforms' configs.
//
// # JSON
//
// It encodes and decodes rows as JSON as encoding/json does, for values of a few types and several times as fast, since cleaning spends most
// of its time on JSON. It does no I/O.
//
// Values are those of JSON, nil, bool, int64, float64, string, []any and map[string]any, and those of package value, which have a form of
// their own between the parts of a cleaning. What is accepted and written, and how invalid Unicode is replaced, is as in encoding/json, except
// for numbers: a number without fraction and exponent is an int64, and a float64 is always written with one of them, so that decoding returns
// the same values. If JSON cannot be represented exactly, an error says so.
package rows

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/sluiceml/sluice/dsl/expr/meter"
	"github.com/sluiceml/sluice/dsl/expr/value"
)

// Row is one record. Its values are those of package value.
type Row map[string]any

// MaxSize bounds the size of one row, in bytes of JSON. Each worker holds several rows at a time, so it is part of the bound on memory.
const MaxSize = 16 << 20

// Origin is the place where a row was read.
type Origin struct {
	Name   string // name of the source file
	Offset int64  // offset of the row's first byte in the file
}

// Rejection is the error for a row that goes to the dead letter. It does not end the job.
type Rejection struct {
	// Reason is one of a few words that rows are counted by; Message has the details.
	Reason, Message string
}

func (r *Rejection) Error() string { return r.Reason + ": " + r.Message }

// Reject returns a *Rejection.
func Reject(reason, format string, args ...any) error {
	return &Rejection{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// InColumn names the column whose value is the reason of a rejection: for a part of a value, the path to it. Other errors stay.
func InColumn(path []string, err error) error {
	why, ok := errors.AsType[*Rejection](err)
	if !ok || len(path) == 0 {
		return err
	}
	return Reject(why.Reason, "column %s: %s", strings.Join(path, "."), why.Message)
}

// Reasons that several packages use.
const (
	// ReasonDamaged is the reason at the point where a file is corrupt: nothing after it can be read.
	ReasonDamaged = "damaged"
	// ReasonEncoding is the reason for text in an invalid encoding.
	ReasonEncoding = "bad_encoding"
)

// The limits, in bytes, of what the dead letter shows: the text of an invalid row, and the message.
const (
	MaxText    = 64 << 10
	MaxMessage = 1 << 10
)

// Clip truncates s to at most n bytes, plus an ellipsis, at a character boundary, and replaces invalid UTF-8.
func Clip(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.ToValidUTF8(s[:n], "\uFFFD") + "…"
}

// RejectEval rejects a row for which the evaluation of an expression failed; what names the expression.
func RejectEval(what string, err error) error {
	reason := "expression"
	if errors.Is(err, meter.ErrCost) {
		reason = "cost"
	}
	return Reject(reason, "%s: %v", what, err)
}

// Dropped is the error for a row that a rule drops. Rule names the rule if the transform has several; otherwise it is empty.
type Dropped struct{ Rule string }

func (*Dropped) Error() string { return "dropped by a rule" }

// ErrDropped is the error for a row dropped by a transform that has a single rule.
var ErrDropped error = &Dropped{}

// Decode decodes one JSON object, in UTF-8. Its errors are rejections. If the object cannot be represented exactly, it is returned together
// with the rejection, as closely as possible.
func Decode(text []byte) (Row, error) { return decode(text, DecodeValue) }

// DecodeExact is Decode, but numbers that are not integers of 64 bits are decimals.
func DecodeExact(text []byte) (Row, error) { return decode(text, DecodeExactValue) }

func decode(text []byte, as func([]byte) (any, error)) (Row, error) {
	value, err := as(text)
	reason := ""
	switch {
	case errors.Is(err, ErrRange):
		reason = "number_range"
	case errors.Is(err, ErrRepeated):
		reason = "repeated_field"
	case errors.Is(err, ErrSurrogate):
		reason = ReasonEncoding
	case err != nil:
		return nil, Reject("not_json", "%v", err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, Reject("not_object", "a row must be a JSON object")
	}
	if err != nil {
		return object, Reject(reason, "%v", err)
	}
	return object, nil
}

// Mended returns a decoder that accepts unpaired surrogates, which become U+FFFD.
func Mended(decode func([]byte) (Row, error)) func([]byte) (Row, error) {
	return func(text []byte) (Row, error) {
		r, err := decode(text)
		if why, ok := errors.AsType[*Rejection](err); ok && r != nil && why.Reason == ReasonEncoding {
			return r, nil
		}
		return r, err
	}
}

// Encode returns the row's canonical JSON: sorted keys, no HTML escapes, no line end. Values that JSON has no form for are texts.
func Encode(r Row) ([]byte, error) {
	text, err := AppendValue(make([]byte, 0, 256), map[string]any(r))
	if err != nil {
		return nil, fmt.Errorf("encode a row: %w", err)
	}
	return text, nil
}

// Pack appends the text of a row for Unpack, which keeps the types of all values. It is JSON if the row has only values of JSON. Equal rows have equal bytes.
func Pack(to []byte, r Row) ([]byte, error) {
	text, err := AppendTypedValue(to, map[string]any(r))
	if err != nil {
		return nil, fmt.Errorf("encode a row: %w", err)
	}
	return text, nil
}

// Unpack decodes a row from a text of Pack. typed reports whether the text is more than JSON.
func Unpack(text []byte) (r Row, typed bool, err error) {
	v, typed, err := DecodeTypedValue(text)
	if err != nil {
		return nil, false, fmt.Errorf("a row of a spill file: %w", err)
	}
	object, ok := v.(map[string]any)
	if !ok {
		return nil, false, errors.New("a row of a spill file is not an object")
	}
	return object, typed, nil
}

// Typed reports whether a row has values that JSON has no form for.
func Typed(r Row) bool {
	for _, v := range r {
		if typed(v) {
			return true
		}
	}
	return false
}

func typed(v any) bool {
	switch v := v.(type) {
	case []any:
		return slices.ContainsFunc(v, typed)
	case map[string]any:
		return Typed(v)
	}
	return value.KindOf(v) != value.OfJSON
}

// Digest is the first half of a SHA-256: short enough to keep one for each row, and long enough that different rows have different digests
// (a collision is to be expected at about 2^64 rows).
type Digest [16]byte

// DigestOf returns the digest of a text.
func DigestOf(text []byte) Digest {
	sum := sha256.Sum256(text)
	return Digest(sum[:16])
}

// Fraction maps digests uniformly to [0, 1).
func (d Digest) Fraction() float64 {
	return float64(binary.BigEndian.Uint64(d[:8])>>11) / (1 << 53)
}

// Bucket maps digests uniformly to n groups, by other bits than Fraction.
func (d Digest) Bucket(n int) int {
	return int(binary.BigEndian.Uint64(d[8:]) % uint64(n))
}

// KeyOf returns the digest of a value for comparison: equal values have the same, such as 1 and 1.0.
func KeyOf(v any) (Digest, error) {
	text, err := AppendComparable(nil, v)
	if err != nil {
		return Digest{}, fmt.Errorf("encode a row: %w", err)
	}
	return DigestOf(text), nil
}

// TooLong returns a rejection if a row's text is longer than MaxSize, and nil otherwise.
func TooLong(text []byte) error {
	if len(text) > MaxSize {
		return Reject("too_long", "the row has more than %d bytes", MaxSize)
	}
	return nil
}
