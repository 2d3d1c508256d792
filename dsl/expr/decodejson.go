package expr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Decode reads JSON as a value of type t. Fields of objects are read when asked for; null is absent.
func (ts *TypeSystem) Decode(t *cel.Type, raw json.RawMessage) (ref.Val, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 || string(raw) == "null" {
		return nil, nil
	}
	switch t.Kind() {
	case types.DynKind:
		return ts.decodeAny(raw)
	case types.StructKind:
		return ts.decodeObject(ts.ObjectType(t), raw)
	case types.ListKind:
		var items []json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, fmt.Errorf("a list: %w", err)
		}
		list := make([]ref.Val, len(items))
		for i, item := range items {
			v, err := ts.Decode(t.Parameters()[0], item)
			if err != nil {
				return nil, err
			}
			if v == nil {
				v = types.NullValue
			}
			list[i] = v
		}
		return types.NewRefValList(ts, list), nil
	case types.MapKind:
		var items map[string]json.RawMessage
		if err := json.Unmarshal(raw, &items); err != nil {
			return nil, fmt.Errorf("a map: %w", err)
		}
		fields := make(map[ref.Val]ref.Val, len(items))
		for key, item := range items {
			v, err := ts.Decode(t.Parameters()[1], item)
			if err != nil {
				return nil, err
			}
			if v != nil {
				fields[types.String(key)] = v
			}
		}
		return ts.NewMap(fields), nil
	}
	return decodeScalar(t, raw)
}

// decodeObject reads the fields of an object when the first is asked for: of a long list of objects few are.
func (ts *TypeSystem) decodeObject(typ *ObjectType, raw json.RawMessage) (ref.Val, error) {
	if raw[0] != '{' {
		return nil, fmt.Errorf("%s: an object is expected", typ.Name)
	}
	var parts map[string]json.RawMessage
	seen := map[string]ref.Val{}
	return &Object{typ: typ, get: func(field string) (ref.Val, error) {
		if v, ok := seen[field]; ok {
			return v, nil
		}
		t, ok := typ.Fields[field]
		if !ok && typ.Rest != nil {
			t, ok = typ.Rest, true
		}
		if !ok {
			return nil, nil
		}
		if parts == nil {
			if err := json.Unmarshal(raw, &parts); err != nil {
				return nil, fmt.Errorf("%s: %w", typ.Name, err)
			}
		}
		v, err := ts.Decode(t, parts[field])
		if zero := typ.Zeros[field]; zero != nil && err == nil {
			v, err = ts.decodeCounts(t, v, zero)
		}
		if err != nil {
			return nil, fmt.Errorf("`.%s` is not what it was declared to be: %w", field, err)
		}
		seen[field] = v
		return v, nil
	}}, nil
}

// decodeAny reads what has no type: whole numbers are ints.
func (ts *TypeSystem) decodeAny(raw json.RawMessage) (ref.Val, error) {
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber()
	var v any
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	return ts.NativeToValue(numbers(v)), nil
}

// numbers puts int64 and float64 in the place of every json.Number.
func numbers(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := v.Int64(); err == nil {
			return n
		}
		f, _ := v.Float64()
		return f
	case []any:
		for i := range v {
			v[i] = numbers(v[i])
		}
	case map[string]any:
		for key := range v {
			v[key] = numbers(v[key])
		}
	}
	return v
}

func decodeScalar(t *cel.Type, raw json.RawMessage) (v ref.Val, err error) {
	switch t.Kind() {
	case types.BoolKind:
		var b bool
		err = json.Unmarshal(raw, &b)
		v = types.Bool(b)
	case types.IntKind:
		var n int64
		err = json.Unmarshal(raw, &n)
		v = types.Int(n)
	case types.DoubleKind:
		var f float64
		err = json.Unmarshal(raw, &f)
		v = types.Double(f)
	case types.StringKind:
		var s string
		err = json.Unmarshal(raw, &s)
		v = types.String(s)
	case types.DurationKind:
		var d spec.Duration
		err = json.Unmarshal(raw, &d)
		v = types.Duration{Duration: time.Duration(d)}
	case types.TimestampKind:
		var at time.Time
		err = json.Unmarshal(raw, &at)
		v = types.Timestamp{Time: at}
	default:
		return nil, fmt.Errorf("a %s cannot be read from JSON", t)
	}
	if err != nil {
		return nil, fmt.Errorf("%s is no %s", bytes.TrimSpace(raw), t)
	}
	return v, nil
}
