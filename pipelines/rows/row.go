// Package rows is what all parts of a cleaning share: the row, its JSON and digests, where it was read, why one is rejected or dropped, and
// how the configs of transforms are decoded.
package rows

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/sluiceml/sluice/dsl/expr/meter"
	"github.com/sluiceml/sluice/pipelines/rowjson"
)

// Row is one record. Its values are nil, bool, int64, float64, string, []any and map[string]any.
type Row map[string]any

// MaxSize bounds one row in bytes of JSON. Workers hold some rows at a time, so it is part of what bounds the memory.
const MaxSize = 16 << 20

// Origin is where a row was read.
type Origin struct {
	Name   string // of the source file
	Offset int64  // of the row's first byte in it
}

// Rejection is the error of a row that goes to the dead letter. It does not end the job.
type Rejection struct {
	// Reason is one of few words, counted; message tells the case at hand.
	Reason, Message string
}

func (r *Rejection) Error() string { return r.Reason + ": " + r.Message }

// Reject makes the rejection of a row.
func Reject(reason, format string, args ...any) error {
	return &Rejection{Reason: reason, Message: fmt.Sprintf(format, args...)}
}

// Reasons that more than one package knows.
const (
	// ReasonDamaged is that of the row of a file at which it cannot be read any further: what follows is lost.
	ReasonDamaged = "damaged"
	// ReasonEncoding is that of text that is none.
	ReasonEncoding = "bad_encoding"
)

// What is shown of a rejection is bounded, in bytes: the text of what is no row, and the message.
const (
	MaxText    = 64 << 10
	MaxMessage = 1 << 10
)

// Clip cuts s to n bytes at most, at a character's end.
func Clip(s string, n int) string {
	if len(s) <= n {
		return strings.ToValidUTF8(s, "\uFFFD")
	}
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return strings.ToValidUTF8(s[:n], "\uFFFD") + "…"
}

// RejectEval rejects a row that an expression failed over; what names it.
func RejectEval(what string, err error) error {
	reason := "expression"
	if errors.Is(err, meter.ErrCost) {
		reason = "cost"
	}
	return Reject(reason, "%s: %v", what, err)
}

// Dropped is the error of a row that a rule drops: rule is that of the transform's rules, and empty when it is but one itself.
type Dropped struct{ Rule string }

func (*Dropped) Error() string { return "dropped by a rule" }

// ErrDropped is that of a transform which is but one rule.
var ErrDropped error = &Dropped{}

// Decode reads one JSON object, in UTF-8. Its errors are rejections. What is an object, and cannot be kept as it is written, is
// returned beside the rejection, as near as can be.
func Decode(text []byte) (Row, error) {
	value, err := rowjson.Decode(text)
	reason := ""
	switch {
	case errors.Is(err, rowjson.ErrRange):
		reason = "number_range"
	case errors.Is(err, rowjson.ErrRepeated):
		reason = "repeated_field"
	case errors.Is(err, rowjson.ErrSurrogate):
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

// DecodeMended is Decode with U+FFFD in place of what is half a character.
func DecodeMended(text []byte) (Row, error) {
	r, err := Decode(text)
	if why, ok := errors.AsType[*Rejection](err); ok && r != nil && why.Reason == ReasonEncoding {
		return r, nil
	}
	return r, err
}

// Encode returns the row's canonical JSON: sorted keys, no HTML escapes, no line end. Equal rows have equal bytes.
func Encode(r Row) ([]byte, error) { return Append(make([]byte, 0, 256), r) }

// Append appends it.
func Append(to []byte, r Row) ([]byte, error) {
	text, err := rowjson.Append(to, map[string]any(r))
	if err != nil {
		return nil, fmt.Errorf("encode a row: %w", err)
	}
	return text, nil
}

// Digest is the first half of a SHA-256: short enough to keep one for each row, and equal for different rows once in 2^64 rows
// squared.
type Digest [16]byte

// DigestOf returns the digest of a text.
func DigestOf(text []byte) Digest {
	sum := sha256.Sum256(text)
	return Digest(sum[:16])
}

// Fraction maps a digest to [0, 1) evenly.
func (d Digest) Fraction() float64 {
	return float64(binary.BigEndian.Uint64(d[:8])>>11) / (1 << 53)
}

// Bucket maps a digest to one of n groups evenly, by other bits than fraction does.
func (d Digest) Bucket(n int) int {
	return int(binary.BigEndian.Uint64(d[8:]) % uint64(n))
}

// KeyOf is the digest of what values are compared by: 1 is 1.0.
func KeyOf(v any) (Digest, error) {
	text, err := rowjson.AppendComparable(nil, v)
	if err != nil {
		return Digest{}, fmt.Errorf("encode a row: %w", err)
	}
	return DigestOf(text), nil
}

// TooLong returns the rejection of a row whose text is longer than MaxSize; nil when it is not.
func TooLong(text []byte) error {
	if len(text) > MaxSize {
		return Reject("too_long", "the row has more than %d bytes", MaxSize)
	}
	return nil
}
