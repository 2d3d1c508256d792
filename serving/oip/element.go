package oip

import (
	"encoding/json"
	"slices"
	"strconv"
)

// element is what the codec must know of one element type.
type element struct {
	size int // bytes of an element in binary data; 0 where each has its own
	// read reads JSON, of about so many elements; nil where that has no form for the type. The error is a Misfit.
	read     func(raw json.RawMessage, about int) (data any, n int, err error)
	write    func(to []byte, data any) []byte // JSON
	decode   func(raw []byte, n int) (data any, err error)
	encode   func(to []byte, data any) []byte
	float64s func(data any) []float64
	finite   func(data any) bool // nil where every element is
	zeros    func(n int) any
	concat   func(a, b any) any
}

var elements = map[Datatype]element{
	Bool:   form[bool]{Bool, 1, decodeBools, encodeBools, readBool, strconv.AppendBool, floatOfBool}.element(),
	Uint8:  unsigned[uint8](Uint8, 1),
	Uint16: unsigned[uint16](Uint16, 2),
	Uint32: unsigned[uint32](Uint32, 4),
	Uint64: unsigned[uint64](Uint64, 8),
	Int8:   signed[int8](Int8, 1),
	Int16:  signed[int16](Int16, 2),
	Int32:  signed[int32](Int32, 4),
	Int64:  signed[int64](Int64, 8),
	FP16:   half(FP16, Float16.Float32),
	BF16:   half(BF16, BFloat16.Float32),
	FP32:   float[float32](FP32, 4),
	FP64:   float[float64](FP64, 8),
	Bytes:  form[string]{Bytes, 0, decodeTexts, encodeTexts, readText, appendText, nil}.element(),
}

// form is how the elements of a Go type are carried.
type form[T any] struct {
	datatype Datatype
	size     int
	decode   func(raw []byte, n int) ([]T, error)
	encode   func(to []byte, data []T) []byte
	read     func(cell []byte) (v T, ok bool) // JSON; nil where that has no form for it
	write    func(to []byte, v T) []byte      // JSON
	float    func(T) float64                  // nil where it is no number
}

func (f form[T]) element() element {
	e := element{
		size:   f.size,
		decode: func(raw []byte, n int) (any, error) { return f.decode(raw, n) },
		encode: func(to []byte, data any) []byte { return f.encode(to, data.([]T)) },
		zeros:  func(n int) any { return make([]T, n) },
		concat: func(a, b any) any { return slices.Concat(a.([]T), b.([]T)) },
	}
	if f.read != nil {
		e.read = func(raw json.RawMessage, about int) (any, int, error) { return f.readAll(raw, about) }
		e.write = func(to []byte, data any) []byte { return f.writeAll(to, data.([]T)) }
	}
	if f.float != nil {
		e.float64s = func(data any) []float64 {
			values := data.([]T)
			out := make([]float64, len(values))
			for i, v := range values {
				out[i] = f.float(v)
			}
			return out
		}
	}
	return e
}

func unsigned[T uint8 | uint16 | uint32 | uint64](datatype Datatype, size int) element {
	return form[T]{datatype, size, decodeNumbers[T], encodeNumbers[T], readUint[T](8 * size), appendUint[T], float64Of[T]}.element()
}

func signed[T int8 | int16 | int32 | int64](datatype Datatype, size int) element {
	return form[T]{datatype, size, decodeNumbers[T], encodeNumbers[T], readInt[T](8 * size), appendInt[T], float64Of[T]}.element()
}

func float[T float32 | float64](datatype Datatype, size int) element {
	e := form[T]{datatype, size, decodeNumbers[T], encodeNumbers[T], readFloat[T](8 * size), appendFloat[T](8 * size), float64Of[T]}.element()
	e.finite = func(data any) bool { return !slices.ContainsFunc(data.([]T), isNotFinite[T]) }
	return e
}

// half is an element type of two bytes that JSON has no form for.
func half[T ~uint16](datatype Datatype, value func(T) float32) element {
	e := form[T]{datatype, 2, decodeNumbers[T], encodeNumbers[T], nil, nil, func(v T) float64 { return float64(value(v)) }}.element()
	e.finite = func(data any) bool {
		return !slices.ContainsFunc(data.([]T), func(v T) bool { return isNotFinite(value(v)) })
	}
	return e
}

func float64Of[T uint8 | uint16 | uint32 | uint64 | int8 | int16 | int32 | int64 | float32 | float64](v T) float64 {
	return float64(v)
}

func floatOfBool(v bool) float64 {
	if v {
		return 1
	}
	return 0
}

// isNotFinite reports NaN and infinity, of which no difference is a number.
func isNotFinite[T float32 | float64](v T) bool { return v-v != 0 }
