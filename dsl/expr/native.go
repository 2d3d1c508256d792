package expr

import (
	"errors"
	"fmt"
	"math"
	"strconv"

	"github.com/google/cel-go/common/types"
	"github.com/google/cel-go/common/types/ref"
	"github.com/google/cel-go/common/types/traits"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/dsl/spec"
)

// JSONValue turns a CEL value into what encoding/json would make of the same JSON, but keeps whole numbers whole.
func JSONValue(v ref.Val) (any, error) { return jsonValues.native(v) }

// natives converts CEL values to those of Go: of JSON, or of rows, which have more types (see package value).
type natives struct{ rows bool }

var jsonValues, rowValues = natives{}, natives{rows: true}

func (n natives) native(v ref.Val) (any, error) {
	switch v := v.(type) {
	case types.Null:
		return nil, nil
	case types.Bool:
		return bool(v), nil
	case types.Int:
		return int64(v), nil
	case types.String:
		return string(v), nil
	case *Object:
		return v.native()
	case *types.Optional:
		if !v.HasValue() {
			return nil, nil
		}
		return n.native(v.GetValue())
	case traits.Lister:
		return n.list(v)
	case traits.Mapper:
		return n.object(v)
	case *types.Err:
		return nil, v
	}
	switch v.(type) {
	case types.Uint, types.Double, types.Bytes, types.Timestamp, types.Duration, value.Decimal:
		if n.rows {
			return v.Value(), nil
		}
		return plainJSON(v.Value())
	}
	return nil, fmt.Errorf("a value of type %s cannot be written as JSON", v.Type().TypeName())
}

// plainJSON returns a value that JSON has no form for, or a double, as JSON has it.
func plainJSON(v any) (any, error) {
	switch v := v.(type) {
	case uint64:
		if v > math.MaxInt64 {
			return nil, fmt.Errorf("%d is too large for a field", v)
		}
		return int64(v), nil
	case float64:
		if !value.Finite(v) {
			return nil, fmt.Errorf("%v is not a JSON number", v)
		}
		return v, nil
	}
	text, _ := value.Text(v)
	return text, nil
}

func (n natives) list(v traits.Lister) (any, error) {
	list := []any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		item, err := n.native(it.Next())
		if err != nil {
			return nil, err
		}
		list = append(list, item)
	}
	return list, nil
}

func (n natives) object(v traits.Mapper) (any, error) {
	object := map[string]any{}
	for it := v.Iterator(); it.HasNext() == types.True; {
		key := it.Next()
		name, ok := key.(types.String)
		if !ok {
			return nil, errors.New("a map with keys that are not strings cannot be written as JSON")
		}
		value, err := n.native(v.Get(key))
		if err != nil {
			return nil, err
		}
		object[string(name)] = value
	}
	return object, nil
}

// textOf is a scalar as it reads inside a text: a double that is whole has no decimals.
func textOf(v ref.Val) (string, error) {
	switch v := v.(type) {
	case types.String:
		return string(v), nil
	case types.Bool:
		return strconv.FormatBool(bool(v)), nil
	case types.Int:
		return strconv.FormatInt(int64(v), 10), nil
	case types.Uint:
		return strconv.FormatUint(uint64(v), 10), nil
	case types.Double:
		return spec.FormatDouble(float64(v)), nil
	case types.Duration:
		return spec.Duration(v.Duration).String(), nil
	case types.Timestamp:
		return v.Time.UTC().Format("2006-01-02T15:04:05Z07:00"), nil
	}
	return "", fmt.Errorf("a %s cannot be part of a string", v.Type().TypeName())
}
