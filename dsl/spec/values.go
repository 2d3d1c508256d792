package spec

import (
	"bytes"
	"encoding/json"
)

// Values are plain data by name. Read from JSON, whole numbers are int64: as doubles those above 2^53, such as nanoseconds and seeds, would be
// rounded.
type Values map[string]any

// UnmarshalJSON implements json.Unmarshaler.
func (v *Values) UnmarshalJSON(text []byte) error {
	values := map[string]any(*v)
	if err := decodeNumbers(text, &values); err != nil {
		return err
	}
	*v, _ = exact(values).(map[string]any)
	return nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Param) UnmarshalJSON(text []byte) error {
	type plain Param
	if err := decodeNumbers(text, (*plain)(p)); err != nil {
		return err
	}
	p.Default = exact(p.Default)
	return nil
}

func decodeNumbers(text []byte, into any) error {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	return dec.Decode(into)
}

// exact has int64 and float64 in the place of json.Number.
func exact(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, err := v.Float64()
		if err != nil {
			return v // out of range
		}
		return f
	case []any:
		for i := range v {
			v[i] = exact(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = exact(v[name])
		}
	}
	return v
}
