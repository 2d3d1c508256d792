// Package inference is the Open Inference Protocol over gRPC: its messages and stubs, which are generated from the protocol's own
// description, and what they mean in the terms of package oip.
package inference

import (
	"fmt"

	"github.com/sluiceml/sluice/serving/oip"
)

//go:generate go -C ../../../tools/proto run . ../../serving/oip/inference/open_inference_grpc.proto github.com/sluiceml/sluice/serving/oip/inference

// Decode reads a request. Its errors are oip.Errors with status 400.
func Decode(m *ModelInferRequest) (*oip.InferRequest, error) {
	isRaw := len(m.GetRawInputContents()) > 0
	if have, want := len(m.GetRawInputContents()), len(m.GetInputs()); isRaw && have != want {
		return nil, oip.Invalid("raw_input_contents has %d entries for %d inputs; each input needs one", have, want)
	}
	req := &oip.InferRequest{ID: m.GetId(), Parameters: parameters(m.GetParameters())}
	for i, in := range m.GetInputs() {
		t := oip.Tensor{Name: in.GetName(), Shape: in.GetShape()}
		n, err := oip.CountElements(t.Shape)
		switch datatype := oip.Datatype(in.GetDatatype()); {
		case err != nil:
		case in.GetParameters()["shared_memory_region"] != nil:
			err = fmt.Errorf("its data are in shared memory, which is not supported; send them in the message")
		case isRaw && in.GetContents() != nil:
			err = fmt.Errorf("it has contents, but the request has raw_input_contents")
		case isRaw:
			t.Data, err = oip.DecodeBinary(datatype, n, m.GetRawInputContents()[i])
		default:
			t.Data, err = fromContents(datatype, n, in.GetContents())
		}
		if err != nil {
			return nil, oip.Invalid("input %q: %v", in.GetName(), err)
		}
		req.Inputs = append(req.Inputs, t)
	}
	for _, out := range m.GetOutputs() {
		wanted := oip.RequestedOutput{Name: out.GetName()}
		wanted.Parameters.Classification = int(out.GetParameters()["classification"].GetInt64Param())
		req.Outputs = append(req.Outputs, wanted)
	}
	return req, req.Check()
}

// parameters are those of a request as JSON would have them.
func parameters(given map[string]*InferParameter) map[string]any {
	if len(given) == 0 {
		return nil
	}
	out := make(map[string]any, len(given))
	for name, p := range given {
		switch choice := p.GetParameterChoice().(type) {
		case *InferParameter_BoolParam:
			out[name] = choice.BoolParam
		case *InferParameter_Int64Param:
			out[name] = float64(choice.Int64Param)
		case *InferParameter_Uint64Param:
			out[name] = float64(choice.Uint64Param)
		case *InferParameter_DoubleParam:
			out[name] = choice.DoubleParam
		case *InferParameter_StringParam:
			out[name] = choice.StringParam
		}
	}
	return out
}

// Encode writes the answer to a request: raw if that was, or if an output has a type that has no other contents.
func Encode(answer *oip.InferResponse, to *ModelInferRequest) (*ModelInferResponse, error) {
	m := &ModelInferResponse{ModelName: answer.ModelName, ModelVersion: answer.ModelVersion, Id: answer.ID}
	isRaw := len(to.GetRawInputContents()) > 0
	for _, t := range answer.Outputs {
		isRaw = isRaw || !t.Datatype().HasJSON()
		m.Outputs = append(m.Outputs, &ModelInferResponse_InferOutputTensor{Name: t.Name, Datatype: string(t.Datatype()), Shape: t.Shape})
	}
	for i, t := range answer.Outputs {
		if !isRaw {
			m.Outputs[i].Contents = contents(t)
			continue
		}
		raw, err := t.AppendBinary(nil)
		if err != nil {
			return nil, err
		}
		m.RawOutputContents = append(m.RawOutputContents, raw)
	}
	return m, nil
}

// fromContents reads n elements of a datatype from the field of the contents that is for it.
func fromContents(datatype oip.Datatype, n int64, c *InferTensorContents) (any, error) {
	switch datatype {
	case oip.Bool:
		return counted("bool_contents", n, c.GetBoolContents())
	case oip.Uint8:
		return narrowed[uint8](datatype, "uint_contents", n, c.GetUintContents())
	case oip.Uint16:
		return narrowed[uint16](datatype, "uint_contents", n, c.GetUintContents())
	case oip.Uint32:
		return counted("uint_contents", n, c.GetUintContents())
	case oip.Uint64:
		return counted("uint64_contents", n, c.GetUint64Contents())
	case oip.Int8:
		return narrowed[int8](datatype, "int_contents", n, c.GetIntContents())
	case oip.Int16:
		return narrowed[int16](datatype, "int_contents", n, c.GetIntContents())
	case oip.Int32:
		return counted("int_contents", n, c.GetIntContents())
	case oip.Int64:
		return counted("int64_contents", n, c.GetInt64Contents())
	case oip.FP32:
		return counted("fp32_contents", n, c.GetFp32Contents())
	case oip.FP64:
		return counted("fp64_contents", n, c.GetFp64Contents())
	case oip.Bytes:
		texts, err := counted("bytes_contents", n, c.GetBytesContents())
		if err != nil {
			return nil, err
		}
		out := make([]string, n)
		for i, text := range texts {
			out[i] = string(text)
		}
		return out, nil
	case oip.FP16, oip.BF16:
		return nil, fmt.Errorf("%s has no typed contents; send it in raw_input_contents", datatype)
	}
	return nil, fmt.Errorf("datatype %q is not supported", datatype)
}

func counted[T any](field string, n int64, values []T) ([]T, error) {
	if int64(len(values)) != n {
		return nil, fmt.Errorf("its shape has %d elements, but %s has %d", n, field, len(values))
	}
	if values == nil {
		values = []T{}
	}
	return values, nil
}

func narrowed[T int8 | int16 | uint8 | uint16, W int32 | uint32](datatype oip.Datatype, field string, n int64, values []W) ([]T, error) {
	values, err := counted(field, n, values)
	if err != nil {
		return nil, err
	}
	out := make([]T, n)
	for i, v := range values {
		if out[i] = T(v); W(out[i]) != v {
			return nil, fmt.Errorf("%s has %d, which %s does not reach", field, v, datatype)
		}
	}
	return out, nil
}

// contents writes a tensor into the field that is for its datatype.
func contents(t oip.Tensor) *InferTensorContents {
	switch data := t.Data.(type) {
	case []bool:
		return &InferTensorContents{BoolContents: data}
	case []uint8:
		return &InferTensorContents{UintContents: widened[uint32](data)}
	case []uint16:
		return &InferTensorContents{UintContents: widened[uint32](data)}
	case []uint32:
		return &InferTensorContents{UintContents: data}
	case []uint64:
		return &InferTensorContents{Uint64Contents: data}
	case []int8:
		return &InferTensorContents{IntContents: widened[int32](data)}
	case []int16:
		return &InferTensorContents{IntContents: widened[int32](data)}
	case []int32:
		return &InferTensorContents{IntContents: data}
	case []int64:
		return &InferTensorContents{Int64Contents: data}
	case []float32:
		return &InferTensorContents{Fp32Contents: data}
	case []float64:
		return &InferTensorContents{Fp64Contents: data}
	case []string:
		c := &InferTensorContents{BytesContents: make([][]byte, len(data))}
		for i, text := range data {
			c.BytesContents[i] = []byte(text)
		}
		return c
	}
	return nil
}

func widened[W int32 | uint32, T int8 | int16 | uint8 | uint16](values []T) []W {
	out := make([]W, len(values))
	for i, v := range values {
		out[i] = W(v)
	}
	return out
}
