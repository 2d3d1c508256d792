// Package exactjson reads JSON of any shape with whole numbers as they are written. As doubles those above 2^53, such as nanoseconds and seeds,
// would be rounded.
package exactjson

import (
	"bytes"
	"encoding/json"
	"errors"
	"io"
)

// Unmarshal is json.Unmarshal with a json.Number for each number that is read into an any.
func Unmarshal(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(into); err != nil {
		return err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return errors.New("something follows it")
	}
	return nil
}

// RepeatedKey returns a key that an object has twice. Unmarshal keeps the last value of such a key.
func RepeatedKey(object []byte) (key string, twice bool) {
	dec := json.NewDecoder(bytes.NewReader(object))
	if open, err := dec.Token(); err != nil || open != json.Delim('{') {
		return "", false
	}
	seen := map[string]bool{}
	for dec.More() {
		var value json.RawMessage
		token, err := dec.Token()
		if err != nil || dec.Decode(&value) != nil {
			return "", false
		}
		if key, _ = token.(string); seen[key] {
			return key, true
		}
		seen[key] = true
	}
	return "", false
}

// Value decodes one value; its numbers are those of Numbers.
func Value(text []byte) (any, error) {
	var v any
	if err := Unmarshal(text, &v); err != nil {
		return nil, err
	}
	return Numbers(v), nil
}

// Numbers puts an int64 in the place of every json.Number of v that is a whole number, and a float64 in that of every other. One that fits
// neither stays.
func Numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		if f, err := v.Float64(); err == nil {
			return f
		}
	case []any:
		for i := range v {
			v[i] = Numbers(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = Numbers(v[name])
		}
	}
	return v
}
