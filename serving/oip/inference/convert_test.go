package inference

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"google.golang.org/protobuf/proto"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/serving/oip"
)

var tensors = []oip.Tensor{
	{Name: "bool", Shape: []int64{2}, Data: []bool{true, false}},
	{Name: "uint8", Shape: []int64{2}, Data: []uint8{0, 255}},
	{Name: "uint16", Shape: []int64{2}, Data: []uint16{0, 1<<16 - 1}},
	{Name: "uint32", Shape: []int64{2}, Data: []uint32{0, 1<<32 - 1}},
	{Name: "uint64", Shape: []int64{2}, Data: []uint64{0, 1<<64 - 1}},
	{Name: "int8", Shape: []int64{2}, Data: []int8{-128, 127}},
	{Name: "int16", Shape: []int64{2}, Data: []int16{-1 << 15, 1<<15 - 1}},
	{Name: "int32", Shape: []int64{2}, Data: []int32{-1 << 31, 1<<31 - 1}},
	{Name: "int64", Shape: []int64{2}, Data: []int64{-1 << 63, 1<<63 - 1}},
	{Name: "fp32", Shape: []int64{2, 1}, Data: []float32{1.5, -2}},
	{Name: "fp64", Shape: []int64{1, 2}, Data: []float64{1.5, -2}},
	{Name: "bytes", Shape: []int64{2}, Data: []string{"", "a\xff"}},
	{Name: "fp16", Shape: []int64{2}, Data: []oip.Float16{0x3c00, 0xfbff}},
	{Name: "bf16", Shape: []int64{2}, Data: []oip.BFloat16{0x3f80, 0xff7f}},
}

// asRequest makes a request of an answer's outputs.
func asRequest(answer *ModelInferResponse) *ModelInferRequest {
	req := &ModelInferRequest{Id: answer.Id, RawInputContents: answer.RawOutputContents}
	for _, out := range answer.Outputs {
		req.Inputs = append(req.Inputs, &ModelInferRequest_InferInputTensor{Name: out.Name, Datatype: out.Datatype, Shape: out.Shape, Contents: out.Contents})
	}
	return req
}

func TestRoundTrip(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		some := rapid.SliceOfNDistinct(rapid.SampledFrom(tensors), 1, -1, func(t oip.Tensor) string { return t.Name }).Draw(t, "tensors")
		to := &ModelInferRequest{}
		if rapid.Bool().Draw(t, "raw") {
			to.RawInputContents = [][]byte{{}}
		}
		answer, err := Encode(&oip.InferResponse{ModelName: "m", ModelVersion: "3", ID: "7", Outputs: some}, to)
		if err != nil {
			t.Fatal(err)
		}
		wire, err := proto.Marshal(asRequest(answer))
		if err != nil {
			t.Fatal(err)
		}
		var read ModelInferRequest
		if err := proto.Unmarshal(wire, &read); err != nil {
			t.Fatal(err)
		}
		got, err := Decode(&read)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(some, got.Inputs); diff != "" || got.ID != "7" || answer.ModelName != "m" || answer.ModelVersion != "3" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	})
}

func TestAnswersAreAsRawAsTheirRequests(t *testing.T) {
	plain := &oip.InferResponse{Outputs: tensors[:1]}
	for _, tc := range []struct {
		name   string
		to     *ModelInferRequest
		answer *oip.InferResponse
		raw    int
	}{
		{"typed", &ModelInferRequest{}, plain, 0},
		{"raw", &ModelInferRequest{RawInputContents: [][]byte{{1}}}, plain, 1},
		{"with a half, which has no typed contents", &ModelInferRequest{}, &oip.InferResponse{Outputs: tensors}, len(tensors)},
	} {
		got, err := Encode(tc.answer, tc.to)
		if err != nil || len(got.RawOutputContents) != tc.raw || (got.Outputs[0].Contents == nil) != (tc.raw > 0) {
			t.Errorf("%s: %v, %v", tc.name, got, err)
		}
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	input := func(datatype oip.Datatype, n int64, c *InferTensorContents) *ModelInferRequest {
		return &ModelInferRequest{Inputs: []*ModelInferRequest_InferInputTensor{{Name: "x", Datatype: string(datatype), Shape: []int64{n}, Contents: c}}}
	}
	raw := func(m *ModelInferRequest, contents ...[]byte) *ModelInferRequest {
		m.RawInputContents = contents
		return m
	}
	for _, tc := range []struct {
		name string
		m    *ModelInferRequest
		says string
	}{
		{"no inputs", &ModelInferRequest{}, "no inputs"},
		{"too few", input(oip.FP32, 2, &InferTensorContents{Fp32Contents: []float32{1}}), "its shape has 2 elements, but fp32_contents has 1"},
		{"another field", input(oip.FP32, 1, &InferTensorContents{Fp64Contents: []float64{1}}), "fp32_contents has 0"},
		{"none", input(oip.Bytes, 1, nil), "bytes_contents has 0"},
		{"no shape", input(oip.FP32, -1, nil), "negative dimension"},
		{"out of range", input(oip.Int8, 1, &InferTensorContents{IntContents: []int32{128}}), "int_contents has 128, which INT8 does not reach"},
		{"out of range without a sign", input(oip.Uint16, 1, &InferTensorContents{UintContents: []uint32{1 << 16}}), "which UINT16 does not reach"},
		{"a half", input(oip.FP16, 1, &InferTensorContents{Fp32Contents: []float32{1}}), "send it in raw_input_contents"},
		{"no such type", input("FP8", 1, nil), `datatype "FP8" is not supported`},
		{"raw of another size", raw(input(oip.FP32, 2, nil), []byte("1234567")), "2 elements of FP32 are 8 bytes of binary data, not 7"},
		{"raw for more inputs", raw(input(oip.FP32, 1, nil), []byte("1234"), []byte("1234")), "2 entries for 1 inputs"},
		{"both", raw(input(oip.FP32, 1, &InferTensorContents{Fp32Contents: []float32{1}}), []byte("1234")), "it has contents, but"},
	} {
		if _, err := Decode(tc.m); err == nil || oip.ErrorStatus(err) != http.StatusBadRequest || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want status 400 with %q", tc.name, err, tc.says)
		}
	}
}

func TestParameters(t *testing.T) {
	m := asRequest(&ModelInferResponse{Outputs: []*ModelInferResponse_InferOutputTensor{{
		Name: "x", Datatype: "FP32", Shape: []int64{1}, Contents: &InferTensorContents{Fp32Contents: []float32{1}},
	}}})
	m.Parameters = map[string]*InferParameter{
		"bool":   {ParameterChoice: &InferParameter_BoolParam{BoolParam: true}},
		"int":    {ParameterChoice: &InferParameter_Int64Param{Int64Param: -3}},
		"uint":   {ParameterChoice: &InferParameter_Uint64Param{Uint64Param: 3}},
		"double": {ParameterChoice: &InferParameter_DoubleParam{DoubleParam: 0.5}},
		"text":   {ParameterChoice: &InferParameter_StringParam{StringParam: "spam"}},
		"empty":  {},
	}
	got, err := Decode(m)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{"bool": true, "int": -3.0, "uint": 3.0, "double": 0.5, "text": "spam"}
	if diff := cmp.Diff(want, got.Parameters); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	m.Outputs = []*ModelInferRequest_InferRequestedOutputTensor{{
		Name: "y", Parameters: map[string]*InferParameter{"classification": {ParameterChoice: &InferParameter_Int64Param{Int64Param: 3}}},
	}}
	if _, err := Decode(m); err == nil || !strings.Contains(err.Error(), "parameters.classification") {
		t.Errorf("an output as classes: %v", err)
	}
}

func FuzzDecode(f *testing.F) {
	for _, raw := range []bool{false, true} {
		to := &ModelInferRequest{}
		if raw {
			to.RawInputContents = [][]byte{{}}
		}
		answer, err := Encode(&oip.InferResponse{Outputs: tensors[:12]}, to)
		if err != nil {
			f.Fatal(err)
		}
		wire, err := proto.Marshal(asRequest(answer))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(wire)
	}
	f.Fuzz(func(t *testing.T, wire []byte) {
		var m ModelInferRequest
		if proto.Unmarshal(wire, &m) != nil {
			return
		}
		req, err := Decode(&m)
		if err != nil {
			if oip.ErrorStatus(err) != http.StatusBadRequest {
				t.Fatalf("status %d: %v", oip.ErrorStatus(err), err)
			}
			return
		}
		answer, err := Encode(&oip.InferResponse{Outputs: req.Inputs}, &m)
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		again, err := Decode(asRequest(answer))
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		for i, in := range req.Inputs { // as bytes, since NaN is not itself
			x, _ := in.AppendBinary(nil)
			y, _ := again.Inputs[i].AppendBinary(nil)
			if !bytes.Equal(x, y) || !cmp.Equal(in.Shape, again.Inputs[i].Shape) || in.Name != again.Inputs[i].Name {
				t.Fatalf("%+v was read as %+v", in, again.Inputs[i])
			}
		}
	})
}
