package pipelines

import (
	"bytes"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
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

// dropped is the error of a row that a rule drops: rule is that of the transform's rules, and empty when it is but one itself.
type dropped struct{ rule string }

func (*dropped) Error() string { return "dropped by a rule" }

var errDropped error = &dropped{}

// decodeRow reads one JSON object, in UTF-8. Its errors are rejections.
func decodeRow(text []byte) (row, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, reject("not_json", "%v", err)
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, reject("not_json", "text after the JSON value")
	}
	object, ok := value.(map[string]any)
	if !ok {
		return nil, reject("not_object", "a row must be a JSON object")
	}
	if _, err := numbers(object); err != nil {
		return nil, err
	}
	return object, nil
}

// numbers replaces each json.Number in v by an int64 or a float64, in place where it can.
func numbers(v any) (any, error) {
	var err error
	switch v := v.(type) {
	case json.Number:
		return number(v)
	case map[string]any:
		for key, item := range v {
			if v[key], err = numbers(item); err != nil {
				return nil, err
			}
		}
	case []any:
		for i, item := range v {
			if v[i], err = numbers(item); err != nil {
				return nil, err
			}
		}
	}
	return v, nil
}

func number(n json.Number) (any, error) {
	if i, err := n.Int64(); err == nil {
		return i, nil
	}
	f, err := n.Float64()
	if err != nil || (!bytes.ContainsAny([]byte(n), ".eE")) {
		return nil, reject("number_range", "the number %.40s does not fit 64 bits", n)
	}
	return f, nil
}

// encodeRow returns the row's canonical JSON: sorted keys, no HTML escapes, no line end. Equal rows have equal bytes.
func encodeRow(r row) ([]byte, error) {
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(map[string]any(r)); err != nil {
		return nil, fmt.Errorf("encode a row: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte{'\n'}), nil
}

// digest is the first half of a SHA-256: short enough to keep one for each row, and equal for different rows once in 2^64 rows
// squared.
type digest [16]byte

func digestOf(text []byte) digest {
	sum := sha256.Sum256(text)
	return digest(sum[:16])
}
