package oip

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
)

// Datatype is an element type of the protocol.
type Datatype string

// The element types of the protocol. FP16 and BF16 have no JSON form; BYTES are text in JSON, and any bytes in binary data.
const (
	Bool   Datatype = "BOOL"
	Uint8  Datatype = "UINT8"
	Uint16 Datatype = "UINT16"
	Uint32 Datatype = "UINT32"
	Uint64 Datatype = "UINT64"
	Int8   Datatype = "INT8"
	Int16  Datatype = "INT16"
	Int32  Datatype = "INT32"
	Int64  Datatype = "INT64"
	FP16   Datatype = "FP16"
	BF16   Datatype = "BF16"
	FP32   Datatype = "FP32"
	FP64   Datatype = "FP64"
	Bytes  Datatype = "BYTES"
)

// Supported reports whether Sluice carries the type.
func (d Datatype) Supported() bool {
	_, ok := elements[d]
	return ok
}

// HasJSON reports whether tensors of the type have a JSON form.
func (d Datatype) HasJSON() bool { return elements[d].read != nil }

func unsupported(d Datatype) error {
	return fmt.Errorf("datatype %q is not supported; use one of BOOL, UINT8-64, INT8-64, FP16, BF16, FP32, FP64, BYTES", d)
}

// maxElements bounds a tensor before anything is allocated for it.
const maxElements = 1 << 28

// Tensor is a named array in row-major order.
type Tensor struct {
	Name  string
	Shape []int64
	// Data is a flat slice whose element type is the tensor's: []bool, []uint8 ... []int64, []Float16, []BFloat16,
	// []float32, []float64 or []string.
	Data any
}

// Datatype returns the protocol's name of the tensor's element type, "" when Data is none of the slices a tensor may hold.
func (t Tensor) Datatype() Datatype {
	switch t.Data.(type) {
	case []bool:
		return Bool
	case []uint8:
		return Uint8
	case []uint16:
		return Uint16
	case []uint32:
		return Uint32
	case []uint64:
		return Uint64
	case []int8:
		return Int8
	case []int16:
		return Int16
	case []int32:
		return Int32
	case []int64:
		return Int64
	case []Float16:
		return FP16
	case []BFloat16:
		return BF16
	case []float32:
		return FP32
	case []float64:
		return FP64
	case []string:
		return Bytes
	}
	return ""
}

// Float64s returns the elements as float64, and whether the tensor is numeric. Booleans are 0 and 1.
func (t Tensor) Float64s() ([]float64, bool) {
	e, ok := elements[t.Datatype()]
	if !ok || e.float64s == nil {
		return nil, false
	}
	return e.float64s(t.Data), true
}

// Concat puts the rows of b behind those of a. Both have the same element type, and the same shape but for the first dimension.
func Concat(a, b Tensor) (Tensor, error) {
	if len(a.Shape) == 0 || len(a.Shape) != len(b.Shape) || !slices.Equal(a.Shape[1:], b.Shape[1:]) || a.Datatype() != b.Datatype() {
		return Tensor{}, fmt.Errorf("tensor %q of shape %s and %s does not continue one of shape %s and %s", b.Name, shown(b.Shape), b.Datatype(), shown(a.Shape), a.Datatype())
	}
	shape := slices.Clone(a.Shape)
	shape[0] += b.Shape[0]
	return Tensor{Name: a.Name, Shape: shape, Data: elements[a.Datatype()].concat(a.Data, b.Data)}, nil
}

// Check reports why the tensor is no result: what it holds is no datatype of the protocol, or NaN or infinity, which JSON has no form for
// and which no client can use.
func (t Tensor) Check() error {
	e, ok := elements[t.Datatype()]
	if !ok {
		return fmt.Errorf("tensor %q has elements of type %T, which the protocol does not support", t.Name, t.Data)
	}
	if e.finite != nil && !e.finite(t.Data) {
		return fmt.Errorf("tensor %q contains NaN or infinity, which JSON cannot represent", t.Name)
	}
	return nil
}

// DecodeData reads JSON, which is valid, of a scalar or a flat or nested array into the slice of a datatype; n is how many elements it has. An
// element that does not fit is a Misfit.
func DecodeData(datatype Datatype, raw json.RawMessage) (data any, n int, err error) {
	return decodeData(datatype, raw, 0)
}

// decodeData is DecodeData of about so many elements.
func decodeData(datatype Datatype, raw json.RawMessage, about int64) (data any, n int, err error) {
	e, ok := elements[datatype]
	switch {
	case !ok:
		return nil, 0, unsupported(datatype)
	case e.read == nil:
		return nil, 0, fmt.Errorf("%s has no JSON form; send it as binary data", datatype)
	case len(raw) == 0:
		return nil, 0, errors.New("data is missing")
	}
	return e.read(raw, int(about))
}

// CountElements is how many elements a tensor of a shape has. A shape is refused that has no or negative dimensions, or that no message can
// have the elements for.
func CountElements(shape []int64) (int64, error) {
	if len(shape) == 0 {
		return 0, errors.New("shape is missing")
	}
	if len(shape) > MaxDimensions {
		return 0, tooManyDimensions(len(shape))
	}
	n := int64(1)
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %s has a negative dimension", shown(shape))
		}
		if d > maxElements || n*d > maxElements {
			return 0, fmt.Errorf("shape %s is larger than %d elements", shown(shape), maxElements)
		}
		n *= d
	}
	return n, nil
}

// Zero makes a tensor of the described type with every open dimension 1 and every element zero or empty.
func Zero(meta TensorMetadata) (Tensor, error) {
	e, ok := elements[meta.Datatype]
	if !ok {
		return Tensor{}, fmt.Errorf("input %q: datatype %q is not supported", meta.Name, meta.Datatype)
	}
	shape := slices.Clone(meta.Shape)
	for i, d := range shape {
		if d < 0 {
			shape[i] = 1
		}
	}
	n, err := CountElements(shape)
	if err != nil {
		return Tensor{}, fmt.Errorf("input %q: %w", meta.Name, err)
	}
	return Tensor{Name: meta.Name, Shape: shape, Data: e.zeros(int(n))}, nil
}
