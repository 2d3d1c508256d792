package oip

import (
	"encoding/json"
	"errors"
	"slices"
)

// element is what the codec must know of one element type.
type element struct {
	is        func(data any) bool
	unmarshal func(flat []byte) (data any, n int, err error) // of JSON; nil where that has no form for it
	decode    func(raw []byte, n int) (data any, err error)  // of binary data
	encode    func(to []byte, data any) []byte
	size      int // bytes of an element in binary data; 0 where each has its own
	float64s  func(data any) []float64
	zeros     func(n int) any
	concat    func(a, b any) any
}

var elements = map[Datatype]element{
	Bool:   withBinary(plain(func(v bool) float64 { return map[bool]float64{true: 1}[v] }), 1, decodeBools, encodeBools),
	Uint8:  number[uint8](1),
	Uint16: number[uint16](2),
	Uint32: number[uint32](4),
	Uint64: number[uint64](8),
	Int8:   number[int8](1),
	Int16:  number[int16](2),
	Int32:  number[int32](4),
	Int64:  number[int64](8),
	FP16:   half(Float16.Float32),
	BF16:   half(BFloat16.Float32),
	FP32:   number[float32](4),
	FP64:   number[float64](8),
	Bytes:  withBinary(plain[string](nil), 0, decodeTexts, encodeTexts),
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

func withBinary[T any](e element, size int, decode func(raw []byte, n int) ([]T, error), encode func(to []byte, data []T) []byte) element {
	e.size = size
	e.decode = func(raw []byte, n int) (any, error) { return decode(raw, n) }
	e.encode = func(to []byte, data any) []byte { return encode(to, data.([]T)) }
	return e
}

func number[T uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32 | int64 | float32 | float64](size int) element {
	return withBinary(plain(func(v T) float64 { return float64(v) }), size, decodeNumbers[T], encodeNumbers[T])
}

// half is an element type of two bytes that JSON has no form for.
func half[T ~uint16](float func(T) float32) element {
	e := withBinary(plain(func(v T) float64 { return float64(float(v)) }), 2, decodeNumbers[T], encodeNumbers[T])
	e.unmarshal = nil
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
