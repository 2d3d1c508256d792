package pipelines

import (
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/rowjson"
)

// row is one record. Its values are nil, bool, int64, float64, string, []any and map[string]any.
type row map[string]any

// maxRow bounds one row in bytes of JSON. Workers hold some rows at a time, so it is part of what bounds the memory.
const maxRow = 16 << 20

// rejection is the error of a row that goes to the dead letter. It does not end the job.
type rejection struct {
	// reason is one of few words, counted; message tells the case at hand.
	reason, message string
}

func (r *rejection) Error() string { return r.reason + ": " + r.message }

func reject(reason, format string, args ...any) error {
	return &rejection{reason: reason, message: fmt.Sprintf(format, args...)}
}

// rejectEval rejects a row that an expression failed over; what names it.
func rejectEval(what string, err error) error {
	reason := "expression"
	if errors.Is(err, dsl.ErrCost) {
		reason = "cost"
	}
	return reject(reason, "%s: %v", what, err)
}

// dropped is the error of a row that a rule drops: rule is that of the transform's rules, and empty when it is but one itself.
type dropped struct{ rule string }

func (*dropped) Error() string { return "dropped by a rule" }

var errDropped error = &dropped{}

// decodeRow reads one JSON object, in UTF-8. Its errors are rejections. What is an object, and cannot be kept as it is written, is
// returned beside the rejection, as near as can be.
func decodeRow(text []byte) (row, error) {
	value, err := rowjson.Decode(text)
	reason := ""
	switch {
	case errors.Is(err, rowjson.ErrRange):
		reason = "number_range"
	case errors.Is(err, rowjson.ErrRepeated):
		reason = "repeated_field"
	case errors.Is(err, rowjson.ErrSurrogate):
		reason = reasonEncoding
	case err != nil:
		return nil, reject("not_json", "%v", err)
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, reject("not_object", "a row must be a JSON object")
	}
	if err != nil {
		return object, reject(reason, "%v", err)
	}
	return object, nil
}

// decodeMended is decodeRow with U+FFFD in place of what is half a character.
func decodeMended(text []byte) (row, error) {
	r, err := decodeRow(text)
	if why := (*rejection)(nil); r != nil && errors.As(err, &why) && why.reason == reasonEncoding {
		return r, nil
	}
	return r, err
}

// reasonEncoding is that of text that is none.
const reasonEncoding = "bad_encoding"

// encodeRow returns the row's canonical JSON: sorted keys, no HTML escapes, no line end. Equal rows have equal bytes.
func encodeRow(r row) ([]byte, error) { return appendRow(make([]byte, 0, 256), r) }

// appendRow appends it.
func appendRow(to []byte, r row) ([]byte, error) {
	text, err := rowjson.Append(to, map[string]any(r))
	if err != nil {
		return nil, fmt.Errorf("encode a row: %w", err)
	}
	return text, nil
}

// digest is the first half of a SHA-256: short enough to keep one for each row, and equal for different rows once in 2^64 rows
// squared.
type digest [16]byte

func digestOf(text []byte) digest {
	sum := sha256.Sum256(text)
	return digest(sum[:16])
}

// fraction maps a digest to [0, 1) evenly.
func (d digest) fraction() float64 {
	return float64(binary.BigEndian.Uint64(d[:8])>>11) / (1 << 53)
}

// bucket maps a digest to one of n groups evenly, by other bits than fraction does.
func (d digest) bucket(n int) int {
	return int(binary.BigEndian.Uint64(d[8:]) % uint64(n))
}

// keyOf is the digest of what values are compared by: 1 is 1.0.
func keyOf(v any) (digest, error) {
	text, err := rowjson.AppendComparable(nil, v)
	if err != nil {
		return digest{}, fmt.Errorf("encode a row: %w", err)
	}
	return digestOf(text), nil
}
