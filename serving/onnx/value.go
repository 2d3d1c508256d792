package onnx

import (
	"errors"
	"fmt"
	"strings"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluiceml/sluice/serving/oip"
)

// element is how tensors of one element type get to ONNX Runtime and back.
type element struct {
	onnx  ort.TensorElementDataType
	write func(shape ort.Shape, data any) (ort.Value, error)
	read  func(v ort.Value) (data any, err error)
}

var elements = map[oip.Datatype]element{
	oip.Bool:   plain[bool](ort.TensorElementDataTypeBool),
	oip.Uint8:  plain[uint8](ort.TensorElementDataTypeUint8),
	oip.Uint16: plain[uint16](ort.TensorElementDataTypeUint16),
	oip.Uint32: plain[uint32](ort.TensorElementDataTypeUint32),
	oip.Uint64: plain[uint64](ort.TensorElementDataTypeUint64),
	oip.Int8:   plain[int8](ort.TensorElementDataTypeInt8),
	oip.Int16:  plain[int16](ort.TensorElementDataTypeInt16),
	oip.Int32:  plain[int32](ort.TensorElementDataTypeInt32),
	oip.Int64:  plain[int64](ort.TensorElementDataTypeInt64),
	oip.FP32:   plain[float32](ort.TensorElementDataTypeFloat),
	oip.FP64:   plain[float64](ort.TensorElementDataTypeDouble),
	oip.Bytes:  {ort.TensorElementDataTypeString, writeStrings, readStrings},
}

var errNoTensor = errors.New("it is not a tensor of a supported type")

// plain is an element type that Go has, too.
func plain[T ort.TensorData](onnx ort.TensorElementDataType) element {
	return element{
		onnx:  onnx,
		write: func(shape ort.Shape, data any) (ort.Value, error) { return ort.NewTensor(shape, data.([]T)) },
		read: func(v ort.Value) (any, error) {
			t, ok := v.(*ort.Tensor[T])
			if !ok {
				return nil, errNoTensor
			}
			return t.GetData(), nil
		},
	}
}

func writeStrings(shape ort.Shape, data any) (ort.Value, error) {
	texts := data.([]string)
	for _, s := range texts {
		if strings.IndexByte(s, 0) >= 0 { // ONNX Runtime's strings end at a zero byte: the rest would be lost
			return nil, errors.New("a string contains a NUL byte")
		}
	}
	v, err := ort.NewStringTensor(shape)
	if err != nil {
		return nil, err
	}
	if err := v.SetContents(texts); err != nil {
		return nil, errors.Join(err, v.Destroy())
	}
	return v, nil
}

func readStrings(v ort.Value) (any, error) {
	t, ok := v.(*ort.StringTensor)
	if !ok {
		return nil, errNoTensor
	}
	return t.GetContents()
}

// metadata translates ONNX Runtime's description of inputs or outputs, and fills names.
func metadata(infos []ort.InputOutputInfo, names []string) ([]oip.TensorMetadata, error) {
	out := make([]oip.TensorMetadata, len(infos))
	for i, info := range infos {
		out[i] = oip.TensorMetadata{Name: info.Name, Shape: info.Dimensions}
		for datatype, e := range elements {
			if info.OrtValueType == ort.ONNXTypeTensor && info.DataType == e.onnx {
				out[i].Datatype = datatype
			}
		}
		if out[i].Datatype == "" {
			return nil, fmt.Errorf("%s has an unsupported type; use tensors of booleans, integers, float, double or strings", &info)
		}
		names[i] = info.Name
	}
	return out, nil
}

func destroy(values []ort.Value) {
	for _, v := range values {
		if v != nil {
			_ = v.Destroy() // fails only when called twice
		}
	}
}
