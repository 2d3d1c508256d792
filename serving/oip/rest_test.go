package oip

import (
	"bytes"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

// values generates six elements of each datatype.
var values = map[Datatype]*rapid.Generator[any]{
	Bool:   rapid.SliceOfN(rapid.Bool(), 6, 6).AsAny(),
	Uint8:  rapid.SliceOfN(rapid.Uint8(), 6, 6).AsAny(),
	Uint16: rapid.SliceOfN(rapid.Uint16(), 6, 6).AsAny(),
	Uint32: rapid.SliceOfN(rapid.Uint32(), 6, 6).AsAny(),
	Uint64: rapid.SliceOfN(rapid.Uint64(), 6, 6).AsAny(),
	Int8:   rapid.SliceOfN(rapid.Int8(), 6, 6).AsAny(),
	Int16:  rapid.SliceOfN(rapid.Int16(), 6, 6).AsAny(),
	Int32:  rapid.SliceOfN(rapid.Int32(), 6, 6).AsAny(),
	Int64:  rapid.SliceOfN(rapid.Int64(), 6, 6).AsAny(),
	FP16:   rapid.SliceOfN(rapid.Custom(func(t *rapid.T) Float16 { return Float16(rapid.Uint16().Draw(t, "bits")) }), 6, 6).AsAny(),
	BF16:   rapid.SliceOfN(rapid.Custom(func(t *rapid.T) BFloat16 { return BFloat16(rapid.Uint16().Draw(t, "bits")) }), 6, 6).AsAny(),
	FP32:   rapid.SliceOfN(rapid.Float32(), 6, 6).AsAny(),
	FP64:   rapid.SliceOfN(rapid.Float64(), 6, 6).AsAny(),
	Bytes:  rapid.SliceOfN(rapid.Map(rapid.SliceOf(rapid.Byte()), func(b []byte) string { return string(b) }), 6, 6).AsAny(),
}

func TestMessagesRoundTrip(t *testing.T) {
	if len(values) != len(elements) {
		t.Fatalf("%d of %d datatypes are tried", len(values), len(elements))
	}
	for datatype, generator := range values {
		t.Run(string(datatype), rapid.MakeCheck(func(t *rapid.T) {
			tensors := []Tensor{
				{Name: "x", Shape: []int64{2, 3}, Data: generator.Draw(t, "x")},
				{Name: "y", Shape: []int64{1}, Data: []string{"between"}},
				{Name: "z", Shape: []int64{6}, Data: generator.Draw(t, "z")},
			}
			if got := tensors[0].Datatype(); got != datatype {
				t.Fatalf("datatype %s, want %s", got, datatype)
			}
			binary := map[string]bool{"x": rapid.Bool().Draw(t, "x in binary"), "y": rapid.Bool().Draw(t, "y in binary"), "z": true}
			req := InferRequest{ID: "7", Parameters: map[string]any{"binary_data_output": binary["y"]}, Inputs: tensors}
			for name, wanted := range binary {
				req.Outputs = append(req.Outputs, RequestedOutput{Name: name, Parameters: OutputParameters{BinaryData: &wanted}})
			}
			message, err := req.Encode(func(t Tensor) bool { return binary[t.Name] })
			if err != nil && (binary["x"] || tensors[0].Check() == nil && datatype != FP16 && datatype != BF16 && datatype != Bytes) {
				t.Fatal(err)
			}
			if err != nil {
				return
			}
			header := http.Header{}
			message.SetHeader(header)
			got, err := ParseRequest(message.Body, header)
			if err != nil {
				t.Fatal(err)
			}
			if !same(req.Inputs, got.Inputs) || cmp.Diff(req.Outputs, got.Outputs) != "" || got.ID != "7" {
				t.Fatalf("%+v was read as %+v", req, got)
			}
			answer := InferResponse{ModelName: "m", ModelVersion: "3", ID: "7", Outputs: tensors}
			if message, err = answer.Encode(got); err != nil {
				t.Fatal(err)
			}
			header = http.Header{}
			message.SetHeader(header)
			read, err := ParseResponse(message.Body, header)
			if err != nil {
				t.Fatal(err)
			}
			if !same(answer.Outputs, read.Outputs) || read.ModelName != "m" || read.ModelVersion != "3" || read.ID != "7" {
				t.Fatalf("%+v was read as %+v", answer, read)
			}
		}))
	}
}

// same compares tensors bit by bit: NaN is itself.
func same(a, b []Tensor) bool {
	if len(a) != len(b) {
		return false
	}
	for i := range a {
		x, _ := a[i].AppendBinary(nil)
		y, _ := b[i].AppendBinary(nil)
		if a[i].Name != b[i].Name || a[i].Datatype() != b[i].Datatype() || !cmp.Equal(a[i].Shape, b[i].Shape) || !bytes.Equal(x, y) {
			return false
		}
	}
	return true
}

// What tritonclient sends, byte by byte.
func TestBinaryData(t *testing.T) {
	head := `{"inputs":[{"name":"x","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}},` +
		`{"name":"t","shape":[1,2],"datatype":"BYTES","parameters":{"binary_data_size":11}}],"parameters":{"binary_data_output":true}}`
	body := head + "\x00\x00\x80\x3f\x00\x00\x00\xc0" + "\x00\x00\x00\x00\x03\x00\x00\x00a\xffb"
	got, err := ParseRequest([]byte(body), jsonLength(len(head)))
	if err != nil {
		t.Fatal(err)
	}
	want := []Tensor{{Name: "x", Shape: []int64{2}, Data: []float32{1, -2}}, {Name: "t", Shape: []int64{1, 2}, Data: []string{"", "a\xffb"}}}
	if diff := cmp.Diff(want, got.Inputs); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	answer, err := InferResponse{ModelName: "m", Outputs: want}.Encode(got)
	if err != nil {
		t.Fatal(err)
	}
	if tail := body[len(head):]; string(answer.Body[answer.JSON:]) != tail {
		t.Errorf("answered %q, want %q", answer.Body[answer.JSON:], tail)
	}
}

func jsonLength(n int) http.Header {
	h := http.Header{}
	h.Set(JSONLengthHeader, strconv.Itoa(n))
	return h
}

func TestBinaryDataThatAreRefused(t *testing.T) {
	for _, tc := range []struct{ name, input, data, says string }{
		{"too few bytes", `"shape":[2],"datatype":"FP32","parameters":{"binary_data_size":7}`, "1234567", "2 elements of FP32 are 8 bytes of binary data, not 7"},
		{"less than it says", `"shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}`, "1234567", "binary_data_size is 8, but 7 bytes"},
		{"more than it says", `"shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}`, "123456789", "1 bytes follow"},
		{"a negative size", `"shape":[2],"datatype":"FP32","parameters":{"binary_data_size":-8}`, "12345678", "binary_data_size is -8"},
		{"a size that is no number", `"shape":[2],"datatype":"FP32","parameters":{"binary_data_size":"8"}`, "12345678", "binary_data_size"},
		{"both forms", `"shape":[1],"datatype":"FP32","data":[1],"parameters":{"binary_data_size":4}`, "1234", "both data and binary_data_size"},
		{"a shape for more", `"shape":[268435456],"datatype":"FP64","parameters":{"binary_data_size":8}`, "12345678", "268435456 elements of FP64"},
		{"a shape for more texts", `"shape":[268435456],"datatype":"BYTES","parameters":{"binary_data_size":4}`, "\x00\x00\x00\x00", "268435456 elements of BYTES are at least"},
		{"a shape beyond all", `"shape":[4294967296,4294967296],"datatype":"INT8","parameters":{"binary_data_size":1}`, "1", "is larger than"},
		{"a negative shape", `"shape":[-1],"datatype":"INT8","parameters":{"binary_data_size":1}`, "1", "negative dimension"},
		{"a text longer than the rest", `"shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":5}`, "\xff\xff\xff\xffa", "has 4294967295 bytes according to its length, but only 1 follow"},
		{"a text too few", `"shape":[2],"datatype":"BYTES","parameters":{"binary_data_size":8}`, "\x04\x00\x00\x00abcd", "end before element 1 of 2"},
		{"a text too many", `"shape":[1],"datatype":"BYTES","parameters":{"binary_data_size":8}`, "\x00\x00\x00\x00\x00\x00\x00\x00", "4 bytes follow the last"},
		{"no boolean", `"shape":[1],"datatype":"BOOL","parameters":{"binary_data_size":1}`, "\x02", "must be 0 or 1"},
		{"no such type", `"shape":[1],"datatype":"FP8","parameters":{"binary_data_size":1}`, "1", `datatype "FP8" is not supported`},
		{"half in JSON", `"shape":[1],"datatype":"FP16","data":[1]`, "", "FP16 has no JSON form; send it as binary data"},
		{"shared memory", `"shape":[1],"datatype":"FP32","parameters":{"shared_memory_region":"r","shared_memory_byte_size":4}`, "", "shared memory, which is not supported"},
		{"no data", `"shape":[1],"datatype":"FP32"`, "", "data is missing"},
	} {
		head := `{"inputs":[{"name":"x",` + tc.input + `}]}`
		_, err := ParseRequest([]byte(head+tc.data), jsonLength(len(head)))
		if err == nil || ErrorStatus(err) != http.StatusBadRequest || !strings.Contains(err.Error(), tc.says) {
			t.Errorf("%s: %v, want status 400 with %q", tc.name, err, tc.says)
		}
	}
	for length, says := range map[string]string{"x": "must be a number", "-1": "must be a number", "0": "must begin with JSON", "1000": "has only"} {
		header := http.Header{JSONLengthHeader: {length}}
		if _, err := ParseRequest([]byte(`{"inputs":[]}`), header); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("a length of %s: %v, want %q", length, err, says)
		}
	}
}

func TestRequestsThatAreRefused(t *testing.T) {
	const input = `{"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],`
	for body, says := range map[string]string{
		input + `"outputs":[{"name":"y","parameters":{"classification":3}}]}`:                                                      "parameters.classification",
		input + `"parameters":{"binary_data_output":"yes"}}`:                                                                       "binary_data_output is yes",
		strings.Replace(input, `1],"datatype":"FP32","data":[1]`, `1],"datatype":"BYTES","data":["`+"a\xff"+`"]`, 1) + `"id":"1"}`: "UTF-8",
		input + `"id":"\ud83d"}`:          "UTF-8",
		input + `"id":"\ud83d\ud83d"}`:    "UTF-8",
		input + `"id":"\ud83d\u0041"}`:    "UTF-8",
		input + `"id":"\\\ude00 \u0041"}`: "UTF-8",
	} {
		if _, err := ParseRequest([]byte(body), nil); err == nil || ErrorStatus(err) != http.StatusBadRequest || !strings.Contains(err.Error(), says) {
			t.Errorf("%v, want status 400 with %q", err, says)
		}
	}
	for _, id := range []string{`\ud83d\ude00`, `\\ud83d`, `\u00e9\"\n`, `😀`, `\uD83D\uDE00\uD83D\uDE00`, ``} {
		if _, err := ParseRequest([]byte(input+`"id":"`+id+`"}`), nil); err != nil {
			t.Errorf("%s: %v", id, err)
		}
	}
	r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader("x"))
	r.Header.Set("Content-Encoding", "gzip")
	if _, err := ReadBody(httptest.NewRecorder(), r, 10); err == nil || ErrorStatus(err) != http.StatusUnsupportedMediaType {
		t.Errorf("a compressed request: %v", err)
	}
	r = httptest.NewRequest(http.MethodPost, "/", http.NoBody) // nothing is read of what is said to be too long
	r.ContentLength = 1 << 30
	if _, err := ReadBody(httptest.NewRecorder(), r, 10); err == nil || ErrorStatus(err) != http.StatusRequestEntityTooLarge {
		t.Errorf("a request of 1 GiB: %v", err)
	}
}

// What JSON cannot carry is an error of who asked for JSON.
func TestAnswersWithoutAJSONForm(t *testing.T) {
	for _, data := range []any{[]Float16{1}, []BFloat16{1}, []string{"\xff"}} {
		answer := InferResponse{ModelName: "m", Outputs: []Tensor{{Name: "y", Shape: []int64{1}, Data: data}}}
		if _, err := answer.Encode(&InferRequest{}); err == nil || ErrorStatus(err) != http.StatusBadRequest || !strings.Contains(err.Error(), "ask for binary data") {
			t.Errorf("%T: %v", data, err)
		}
	}
}

func TestHalves(t *testing.T) {
	for bits, want := range map[Float16]float32{
		0: 0, 1: 0x1p-24, 0x03ff: 0x3ffp-24, 0x0400: 0x1p-14, 0x3c00: 1, 0x3c01: 1 + 0x1p-10, 0xc000: -2, 0x7bff: 65504,
		0x7c00: float32(math.Inf(1)), 0xfc00: float32(math.Inf(-1)),
	} {
		if got := bits.Float32(); got != want {
			t.Errorf("%#x is %v, want %v", uint16(bits), got, want)
		}
	}
	if got := Float16(0x8000).Float32(); got != 0 || !math.Signbit(float64(got)) {
		t.Errorf("minus zero is %v", got)
	}
	if got := Float16(0x7e00).Float32(); got == got {
		t.Errorf("NaN is %v", got)
	}
	for bits, want := range map[BFloat16]float32{0: 0, 0x3f80: 1, 0xc000: -2, 0x7f80: float32(math.Inf(1))} {
		if got := bits.Float32(); got != want {
			t.Errorf("%#x is %v, want %v", uint16(bits), got, want)
		}
	}
}

func FuzzParseBinaryRequest(f *testing.F) {
	head := `{"inputs":[{"name":"x","shape":[2],"datatype":%q,"parameters":{"binary_data_size":%d}}]}`
	for datatype, data := range map[Datatype]string{Bool: "\x00\x01", FP16: "abcd", Int64: "0123456789abcdef", Bytes: "\x01\x00\x00\x00a\x00\x00\x00\x00"} {
		json := fmt.Sprintf(head, datatype, len(data))
		f.Add(len(json), []byte(json+data))
	}
	f.Fuzz(func(t *testing.T, length int, body []byte) {
		req, err := ParseRequest(body, jsonLength(length))
		if err != nil {
			if ErrorStatus(err) != http.StatusBadRequest {
				t.Fatalf("status %d: %v", ErrorStatus(err), err)
			}
			return
		}
		message, err := req.Encode(func(Tensor) bool { return true })
		if err != nil {
			t.Fatalf("what was read cannot be written: %v", err)
		}
		header := http.Header{}
		message.SetHeader(header)
		again, err := ParseRequest(message.Body, header)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v", err)
		}
		if !same(req.Inputs, again.Inputs) {
			t.Fatalf("%+v was read as %+v", req, again)
		}
	})
}

func FuzzParseResponse(f *testing.F) {
	f.Add(0, []byte(`{"model_name":"m","outputs":[{"name":"y","shape":[1,2],"datatype":"FP64","data":[[1,-2.5e-9]]}]}`))
	f.Add(0, []byte(`{"outputs":[{"name":"y","shape":[2],"datatype":"BYTES","data":["<\u2028>","\\\""]},{"name":"z","shape":[0],"datatype":"UINT8","data":[[]]}]}`))
	f.Add(85, []byte(`{"outputs":[{"name":"y","shape":[2],"datatype":"BF16","parameters":{"binary_data_size":4}}]}abcd`))
	f.Fuzz(func(t *testing.T, length int, body []byte) {
		header := http.Header{}
		if length > 0 {
			header = jsonLength(length)
		}
		answer, err := ParseResponse(body, header)
		if err != nil {
			return
		}
		message, err := answer.Encode(&InferRequest{Parameters: map[string]any{BinaryOutput: length%2 == 1}})
		if err != nil {
			return // it has what the form cannot carry
		}
		header = http.Header{}
		message.SetHeader(header)
		again, err := ParseResponse(message.Body, header)
		if err != nil {
			t.Fatalf("what was written cannot be read: %v\n%s", err, message.Body)
		}
		if !same(answer.Outputs, again.Outputs) {
			t.Fatalf("%+v was read as %+v", answer, again)
		}
	})
}

func BenchmarkParseRequest(b *testing.B) {
	for _, n := range []int64{16, 4096} {
		req := InferRequest{Inputs: []Tensor{someFloats("x", n)}}
		for form, isBinary := range map[string]bool{"binary": true, "JSON": false} {
			message, err := req.Encode(func(Tensor) bool { return isBinary })
			if err != nil {
				b.Fatal(err)
			}
			header := http.Header{}
			message.SetHeader(header)
			b.Run(fmt.Sprintf("%s/%d", form, n), func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := ParseRequest(message.Body, header); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func BenchmarkEncodeResponse(b *testing.B) {
	for _, n := range []int64{16, 4096} {
		answer := InferResponse{ModelName: "m", ModelVersion: "1", Outputs: []Tensor{someFloats("y", n)}}
		b.Run(fmt.Sprintf("JSON/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := answer.Encode(&InferRequest{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// someFloats is a row of n numbers.
func someFloats(name string, n int64) Tensor {
	data := make([]float32, n)
	for i := range data {
		data[i] = float32(i%97) / 97
	}
	return Tensor{Name: name, Shape: []int64{1, n}, Data: data}
}

// TestMisread: a request of the wrong form is answered in the words of the protocol.
func TestMisread(t *testing.T) {
	for body, want := range map[string]string{
		`[]`:              "it must be a JSON object, not array",
		`{"inputs": 7}`:   "inputs must not be number",
		`{"outputs": {}}`: "outputs must not be object",
		`{"inputs": [{"name": "x", "datatype": "FP32", "shape": [1.5], "data": [1]}]}`: "inputs.shape must not be number 1.5",
	} {
		_, err := ParseRequest([]byte(body), nil)
		if err == nil || err.Error() != "the request is not an inference request: "+want {
			t.Errorf("%s: %v, want %s", body, err, want)
		}
	}
}
