package spec

import "github.com/sluiceml/sluice/internal/exactjson"

// Values are plain data by name. Read from JSON, whole numbers are int64.
type Values map[string]any

// UnmarshalJSON implements json.Unmarshaler.
func (v *Values) UnmarshalJSON(text []byte) error {
	values := map[string]any(*v)
	if err := exactjson.Unmarshal(text, &values); err != nil {
		return err
	}
	*v, _ = exactjson.Numbers(values).(map[string]any)
	return nil
}

// UnmarshalJSON implements json.Unmarshaler.
func (p *Param) UnmarshalJSON(text []byte) error {
	type plain Param
	if err := exactjson.Unmarshal(text, (*plain)(p)); err != nil {
		return err
	}
	p.Default = exactjson.Numbers(p.Default)
	return nil
}
