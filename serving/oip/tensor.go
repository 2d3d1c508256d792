package oip

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"math"
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
func (d Datatype) HasJSON() bool { return elements[d].unmarshal != nil }

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
	for name, e := range elements {
		if e.is(t.Data) {
			return name
		}
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
		return Tensor{}, fmt.Errorf("tensor %q of shape %v and %s does not continue one of shape %v and %s", b.Name, b.Shape, b.Datatype(), a.Shape, a.Datatype())
	}
	shape := slices.Clone(a.Shape)
	shape[0] += b.Shape[0]
	return Tensor{Name: a.Name, Shape: shape, Data: elements[a.Datatype()].concat(a.Data, b.Data)}, nil
}

// Check reports why the tensor is no result: what it holds is no datatype of the protocol, or NaN or infinity, which JSON has no form for
// and which no client can use.
func (t Tensor) Check() error {
	if t.Datatype() == "" {
		return fmt.Errorf("tensor %q has elements of type %T, which the protocol does not support", t.Name, t.Data)
	}
	if values, ok := t.Float64s(); ok && slices.ContainsFunc(values, func(v float64) bool { return math.IsNaN(v) || math.IsInf(v, 0) }) {
		return fmt.Errorf("tensor %q contains NaN or infinity, which JSON cannot represent", t.Name)
	}
	return nil
}

// DecodeData reads JSON, a scalar or a flat or nested array, into the slice of a datatype; n is how many elements it has.
func DecodeData(datatype Datatype, raw json.RawMessage) (data any, n int, err error) {
	e, ok := elements[datatype]
	if !ok {
		return nil, 0, unsupported(datatype)
	}
	if e.unmarshal == nil {
		return nil, 0, fmt.Errorf("%s has no JSON form; send it as binary data", datatype)
	}
	flat, err := flatten(raw)
	if err != nil {
		return nil, 0, err
	}
	data, n, err = e.unmarshal(flat)
	if err != nil {
		return nil, 0, cmp.Or(e.misfit(datatype, flat), fmt.Errorf("data is not valid JSON: %w", err))
	}
	return data, n, nil
}

// CountElements is how many elements a tensor of a shape has. A shape is refused that has no or negative dimensions, or that no message can
// have the elements for.
func CountElements(shape []int64) (int64, error) {
	if len(shape) == 0 {
		return 0, errors.New("shape is missing")
	}
	n := int64(1)
	for _, d := range shape {
		if d < 0 {
			return 0, fmt.Errorf("shape %v has a negative dimension", shape)
		}
		if d > maxElements || n*d > maxElements {
			return 0, fmt.Errorf("shape %v is larger than %d elements", shape, maxElements)
		}
		n *= d
	}
	return n, nil
}

// flatten removes the inner brackets of a nested array and puts a scalar into brackets. Brackets inside strings stay.
func flatten(raw json.RawMessage) ([]byte, error) {
	raw = bytes.TrimSpace(raw)
	if len(raw) == 0 {
		return nil, errors.New("data is missing")
	}
	if raw[0] != '[' {
		return slices.Concat([]byte{'['}, raw, []byte{']'}), nil
	}
	if rest := bytes.TrimLeft(raw[1:], " \t\r\n"); len(rest) == 0 || rest[0] != '[' {
		return raw, nil
	}
	out := make([]byte, 0, len(raw))
	out = append(out, '[')
	inString, escaped := false, false
	for _, c := range raw {
		switch {
		case inString:
			inString = escaped || c != '"'
			escaped = !escaped && c == '\\'
		case c == '"':
			inString = true
		case c == '[' || c == ']':
			continue
		}
		out = append(out, c)
	}
	return append(out, ']'), nil
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
