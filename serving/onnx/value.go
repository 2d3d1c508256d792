package onnx

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

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
	oip.FP16:   half[oip.Float16](ort.TensorElementDataTypeFloat16),
	oip.BF16:   half[oip.BFloat16](ort.TensorElementDataTypeBFloat16),
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

// half is an element type of two bytes that Go does not have: its tensors are made of bytes.
func half[T ~uint16](onnx ort.TensorElementDataType) element {
	return element{
		onnx: onnx,
		write: func(shape ort.Shape, data any) (ort.Value, error) {
			raw := make([]byte, 0, halfSize*len(data.([]T)))
			for _, v := range data.([]T) {
				raw = binary.NativeEndian.AppendUint16(raw, uint16(v))
			}
			return ort.NewCustomDataTensor(shape, raw, onnx)
		},
		read: func(v ort.Value) (any, error) {
			t, ok := v.(*ort.CustomDataTensor)
			if !ok || len(t.GetData()) != int(halfSize*t.GetShape().FlattenedSize()) {
				return nil, errNoTensor
			}
			out := make([]T, t.GetShape().FlattenedSize())
			for i := range out {
				out[i] = T(binary.NativeEndian.Uint16(t.GetData()[halfSize*i:]))
			}
			return out, nil
		},
	}
}

const halfSize = 2

func isHalf(d oip.Datatype) bool { return d == oip.FP16 || d == oip.BF16 }

// halvesFit reports which output of two bytes an element has a shape that only an inference tells. The Go binding cannot take such an output
// from ONNX Runtime (it copies half of the bytes), so makeHalves makes room for it before.
func halvesFit(outputs []oip.TensorMetadata) error {
	for _, o := range outputs {
		open := len(o.Shape) == 0 || slices.ContainsFunc(o.Shape[1:], func(d int64) bool { return d < 1 })
		if isHalf(o.Datatype) && open {
			return fmt.Errorf("output %q is %s of shape %v; only its first dimension, the rows of the inputs, may be open: cast it to float in the model",
				o.Name, o.Datatype, o.Shape)
		}
	}
	return nil
}

// makeHalves makes room for the outputs of two bytes an element. Where the number of rows is open, they have those of the inputs.
func makeHalves(out []ort.Value, outputs []oip.TensorMetadata, inputs []oip.Tensor) error {
	for i, o := range outputs {
		if !isHalf(o.Datatype) {
			continue
		}
		shape := slices.Clone(ort.Shape(o.Shape))
		if shape[0] < 0 && len(inputs) > 0 && len(inputs[0].Shape) > 0 {
			shape[0] = inputs[0].Shape[0]
		}
		v, err := ort.NewCustomDataTensor(shape, make([]byte, halfSize*shape.FlattenedSize()), elements[o.Datatype].onnx)
		if err != nil {
			return fmt.Errorf("output %q: %w", o.Name, err)
		}
		out[i] = v
	}
	return nil
}

func writeStrings(shape ort.Shape, data any) (ort.Value, error) {
	v, err := ort.NewStringTensor(shape)
	if err != nil {
		return nil, err
	}
	if err := v.SetContents(data.([]string)); err != nil {
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
		if info.OrtValueType == ort.ONNXTypeSequence || info.OrtValueType == ort.ONNXTypeMap {
			return nil, fmt.Errorf("%q is a sequence or a map, not a tensor. scikit-learn's classifiers put out such probabilities unless they are "+
				"converted without ZipMap: convert_sklearn(model, ..., options={'zipmap': False}), or to_onnx with the same options", info.Name)
		}
		out[i] = oip.TensorMetadata{Name: info.Name, Shape: info.Dimensions}
		for datatype, e := range elements {
			if info.OrtValueType == ort.ONNXTypeTensor && info.DataType == e.onnx {
				out[i].Datatype = datatype
			}
		}
		if out[i].Datatype == "" {
			return nil, fmt.Errorf("%s has an unsupported type; use tensors of booleans, integers, float16, bfloat16, float, double or strings", &info)
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
