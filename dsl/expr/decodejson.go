package expr

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/exactjson"
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
		return nil, fmt.Errorf("%s: expected an object", typ.Name)
	}
	var mu sync.Mutex // several evaluations may read the same object
	var parts map[string]json.RawMessage
	seen := map[string]ref.Val{}
	return &Object{typ: typ, get: func(field string) (ref.Val, error) {
		mu.Lock()
		defer mu.Unlock()
		if v, ok := seen[field]; ok {
			return v, nil
		}
		t := typ.typeOf(field)
		if t == nil {
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
			return nil, fmt.Errorf("`.%s` does not have its declared type: %w", field, err)
		}
		seen[field] = v
		return v, nil
	}}, nil
}

// decodeAny reads what has no type: whole numbers are ints.
func (ts *TypeSystem) decodeAny(raw json.RawMessage) (ref.Val, error) {
	v, err := exactjson.Value(raw)
	if err != nil {
		return nil, err
	}
	return ts.NativeToValue(v), nil
}

// scalars read the JSON of what is neither an object, a list nor a map.
var scalars = map[types.Kind]func(raw json.RawMessage) (ref.Val, error){
	types.BoolKind:      scalar(func(b bool) ref.Val { return types.Bool(b) }),
	types.IntKind:       scalar(func(n int64) ref.Val { return types.Int(n) }),
	types.DoubleKind:    scalar(func(f float64) ref.Val { return types.Double(f) }),
	types.StringKind:    scalar(func(s string) ref.Val { return types.String(s) }),
	types.DurationKind:  scalar(func(d spec.Duration) ref.Val { return types.Duration{Duration: time.Duration(d)} }),
	types.TimestampKind: scalar(func(at time.Time) ref.Val { return types.Timestamp{Time: at} }),
}

func scalar[T any](value func(T) ref.Val) func(json.RawMessage) (ref.Val, error) {
	return func(raw json.RawMessage) (ref.Val, error) {
		var v T
		err := json.Unmarshal(raw, &v)
		return value(v), err
	}
}

func decodeScalar(t *cel.Type, raw json.RawMessage) (ref.Val, error) {
	read := scalars[t.Kind()]
	if read == nil {
		return nil, fmt.Errorf("a %s cannot be read from JSON", t)
	}
	v, err := read(raw)
	if err != nil {
		return nil, fmt.Errorf("%s is not a %s", bytes.TrimSpace(raw), t)
	}
	return v, nil
}
