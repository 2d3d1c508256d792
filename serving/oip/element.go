package oip

import (
	"encoding/json"
	"errors"
	"slices"
)

// element is what the codec must know of one element type.
type element struct {
	is        func(data any) bool
	unmarshal func(flat []byte) (data any, n int, err error)
	float64s  func(data any) []float64
	zeros     func(n int) any
	concat    func(a, b any) any
}

var elements = map[Datatype]element{
	Bool:   plain(func(v bool) float64 { return map[bool]float64{true: 1}[v] }),
	Uint8:  number[uint8](),
	Uint16: number[uint16](),
	Uint32: number[uint32](),
	Uint64: number[uint64](),
	Int8:   number[int8](),
	Int16:  number[int16](),
	Int32:  number[int32](),
	Int64:  number[int64](),
	FP32:   number[float32](),
	FP64:   number[float64](),
	Bytes:  plain[string](nil),
}

func number[T uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32 | int64 | float32 | float64]() element {
	return plain(func(v T) float64 { return float64(v) })
}

// plain is an element type whose Go slice has the JSON form the protocol wants.
func plain[T any](float func(T) float64) element {
	e := element{
		is:        func(data any) bool { _, ok := data.([]T); return ok },
		unmarshal: func(flat []byte) (any, int, error) { return decode[T](flat) },
		zeros:     func(n int) any { return make([]T, n) },
		concat:    func(a, b any) any { return slices.Concat(a.([]T), b.([]T)) },
	}
	if float != nil {
		e.float64s = func(data any) []float64 {
			values := data.([]T)
			out := make([]float64, len(values))
			for i, v := range values {
				out[i] = float(v)
			}
			return out
		}
	}
	return e
}

// decode reads a flat JSON array. A null is refused: encoding/json would leave the element's zero value in its place.
func decode[T any](flat []byte) ([]T, int, error) {
	var cells []*T
	if err := json.Unmarshal(flat, &cells); err != nil {
		return nil, 0, err
	}
	out := make([]T, len(cells))
	for i, c := range cells {
		if c == nil {
			return nil, 0, errors.New("an element is null")
		}
		out[i] = *c
	}
	return out, len(out), nil
}
