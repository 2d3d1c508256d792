package onnx

import (
	"errors"
	"fmt"
	"strings"

	ort "github.com/yalue/onnxruntime_go"

	"github.com/sluiceml/sluice/serving/oip"
)

var datatypes = map[ort.TensorElementDataType]oip.Datatype{
	ort.TensorElementDataTypeBool:   oip.Bool,
	ort.TensorElementDataTypeUint8:  oip.Uint8,
	ort.TensorElementDataTypeUint16: oip.Uint16,
	ort.TensorElementDataTypeUint32: oip.Uint32,
	ort.TensorElementDataTypeUint64: oip.Uint64,
	ort.TensorElementDataTypeInt8:   oip.Int8,
	ort.TensorElementDataTypeInt16:  oip.Int16,
	ort.TensorElementDataTypeInt32:  oip.Int32,
	ort.TensorElementDataTypeInt64:  oip.Int64,
	ort.TensorElementDataTypeFloat:  oip.FP32,
	ort.TensorElementDataTypeDouble: oip.FP64,
	ort.TensorElementDataTypeString: oip.Bytes,
}

// metadata translates ONNX Runtime's description of inputs or outputs, and fills names.
func metadata(infos []ort.InputOutputInfo, names []string) ([]oip.TensorMetadata, error) {
	out := make([]oip.TensorMetadata, len(infos))
	for i, info := range infos {
		datatype, ok := datatypes[info.DataType]
		if info.OrtValueType != ort.ONNXTypeTensor || !ok {
			return nil, fmt.Errorf("%s has a type that cannot be served; use tensors of booleans, integers, float, double or strings", &info)
		}
		out[i] = oip.TensorMetadata{Name: info.Name, Datatype: datatype, Shape: info.Dimensions}
		names[i] = info.Name
	}
	return out, nil
}

func newValue(t oip.Tensor) (ort.Value, error) {
	shape := ort.Shape(t.Shape)
	switch data := t.Data.(type) {
	case []bool:
		return ort.NewTensor(shape, data)
	case []uint8:
		return ort.NewTensor(shape, data)
	case []uint16:
		return ort.NewTensor(shape, data)
	case []uint32:
		return ort.NewTensor(shape, data)
	case []uint64:
		return ort.NewTensor(shape, data)
	case []int8:
		return ort.NewTensor(shape, data)
	case []int16:
		return ort.NewTensor(shape, data)
	case []int32:
		return ort.NewTensor(shape, data)
	case []int64:
		return ort.NewTensor(shape, data)
	case []float32:
		return ort.NewTensor(shape, data)
	case []float64:
		return ort.NewTensor(shape, data)
	case []string:
		return newStrings(shape, data)
	}
	return nil, fmt.Errorf("%T is no tensor data", t.Data)
}

func newStrings(shape ort.Shape, data []string) (ort.Value, error) {
	for _, s := range data {
		if strings.IndexByte(s, 0) >= 0 { // ONNX Runtime's strings end at a zero byte: the rest would be lost
			return nil, errors.New("a string holds a zero byte")
		}
	}
	v, err := ort.NewStringTensor(shape)
	if err != nil {
		return nil, err
	}
	if err := v.SetContents(data); err != nil {
		return nil, errors.Join(err, v.Destroy())
	}
	return v, nil
}

func readValue(name string, v ort.Value) (oip.Tensor, error) {
	t := oip.Tensor{Name: name, Shape: v.GetShape()}
	switch v := v.(type) {
	case *ort.Tensor[bool]:
		t.Data = v.GetData()
	case *ort.Tensor[uint8]:
		t.Data = v.GetData()
	case *ort.Tensor[uint16]:
		t.Data = v.GetData()
	case *ort.Tensor[uint32]:
		t.Data = v.GetData()
	case *ort.Tensor[uint64]:
		t.Data = v.GetData()
	case *ort.Tensor[int8]:
		t.Data = v.GetData()
	case *ort.Tensor[int16]:
		t.Data = v.GetData()
	case *ort.Tensor[int32]:
		t.Data = v.GetData()
	case *ort.Tensor[int64]:
		t.Data = v.GetData()
	case *ort.Tensor[float32]:
		t.Data = v.GetData()
	case *ort.Tensor[float64]:
		t.Data = v.GetData()
	case *ort.StringTensor:
		contents, err := v.GetContents()
		if err != nil {
			return oip.Tensor{}, fmt.Errorf("output %q: %w", name, err)
		}
		t.Data = contents
	default:
		return oip.Tensor{}, fmt.Errorf("output %q is no tensor of a type that can be served", name)
	}
	return t, nil
}

func destroy(values []ort.Value) {
	for _, v := range values {
		if v != nil {
			_ = v.Destroy() // fails only when called twice
		}
	}
}
