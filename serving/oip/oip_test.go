package oip

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func TestTensorForms(t *testing.T) {
	for _, tc := range []struct{ name, datatype, shape, data string }{
		{"flat", "INT64", "[2,2]", "[1,2,3,4]"},
		{"nested", "INT64", "[2,2]", "[[1,2],[3,4]]"},
		{"spaced", "INT64", "[2,2]", " [ [1, 2] ,\n[3,4] ] "},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var got Tensor
			err := json.Unmarshal(fmt.Appendf(nil, `{"name":"x","datatype":%q,"shape":%s,"data":%s}`, tc.datatype, tc.shape, tc.data), &got)
			if err != nil {
				t.Fatal(err)
			}
			want := Tensor{Name: "x", Shape: []int64{2, 2}, Data: []int64{1, 2, 3, 4}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	var got Tensor
	if err := json.Unmarshal([]byte(`{"name":"x","datatype":"BYTES","shape":[2,1],"data":[["a]\"[,"],["\\"]]}`), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{`a]"[,`, `\`}, got.Data); diff != "" {
		t.Errorf("brackets in text (-want +got):\n%s", diff)
	}
}

func TestTensorsThatAreRefused(t *testing.T) {
	for name, tensor := range map[string]string{
		"no shape":       `{"name":"x","datatype":"INT64","data":[1]}`,
		"negative":       `{"name":"x","datatype":"INT64","shape":[-1],"data":[1]}`,
		"huge":           `{"name":"x","datatype":"INT64","shape":[4294967296,4294967296],"data":[1]}`,
		"too few":        `{"name":"x","datatype":"INT64","shape":[2],"data":[1]}`,
		"too many":       `{"name":"x","datatype":"INT64","shape":[1],"data":[1,2]}`,
		"no data":        `{"name":"x","datatype":"INT64","shape":[1]}`,
		"a list":         `{"name":"x","datatype":"FP32","shape":[2],"data":[1,[2]]}`,
		"an object":      `{"name":"x","datatype":"FP32","shape":[1],"data":{"a":1}}`,
		"a null":         `{"name":"x","datatype":"FP32","shape":[1],"data":[null]}`,
		"out of range":   `{"name":"x","datatype":"INT8","shape":[1],"data":[128]}`,
		"octet range":    `{"name":"x","datatype":"UINT8","shape":[1],"data":[256]}`,
		"fraction":       `{"name":"x","datatype":"INT32","shape":[1],"data":[1.5]}`,
		"text as number": `{"name":"x","datatype":"FP32","shape":[1],"data":["1"]}`,
		"half":           `{"name":"x","datatype":"FP16","shape":[1],"data":[1]}`,
		"no type":        `{"name":"x","shape":[1],"data":[1]}`,
	} {
		var got Tensor
		if err := json.Unmarshal([]byte(tensor), &got); err == nil {
			t.Errorf("%s: %s was read as %v", name, tensor, got)
		}
	}
	for _, v := range []float64{math.NaN(), math.Inf(1)} {
		if _, err := json.Marshal(Tensor{Name: "x", Shape: []int64{1}, Data: []float64{v}}); err == nil {
			t.Errorf("%v was written", v)
		}
	}
}

func TestCells(t *testing.T) {
	for raw, want := range map[string][]string{
		`1`:                            {`1`},
		`"a"`:                          {`"a"`},
		`[]`:                           nil,
		`[ 1 , 2 ]`:                    {`1`, `2`},
		`[[1,2],[3,4]]`:                {`1`, `2`, `3`, `4`},
		`[[],[]]`:                      nil,
		`[1,[2,[3]],{"a":"]},"},null]`: {`1`, `[2,[3]]`, `{"a":"]},"}`, `null`},
		`[["]\"[,","\\"],["\\\""]]`:    {`"]\"[,"`, `"\\"`, `"\\\""`},
	} {
		var got []string
		for cell := range cells([]byte(raw)) {
			got = append(got, string(cell))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}

// The data are as encoding/json has them, whichever way they are written.
func TestDataAsJSON(t *testing.T) {
	for _, data := range []any{
		[]float32{0, 1, -1.5, 0.1, 1e-7, 1e21, 16777216, math.MaxFloat32},
		[]float64{0, 1e-300, 1e20, 0.1, math.MaxFloat64},
		[]string{"", "plain", "<b>&\"quoted\"\\", "line\nline\u2028", "häm"},
		[]bool{true, false},
		[]int64{math.MinInt64},
		[]uint64{math.MaxUint64},
	} {
		tensor := Tensor{Name: "x\n", Shape: []int64{int64(reflect.ValueOf(data).Len())}, Data: data}
		raw, err := json.Marshal(tensor)
		if err != nil {
			t.Fatal(err)
		}
		again := reflect.New(reflect.TypeOf(data))
		var got struct {
			Name string
			Data json.RawMessage
		}
		if err := errors.Join(json.Unmarshal(raw, &got), json.Unmarshal(got.Data, again.Interface())); err != nil || got.Name != tensor.Name {
			t.Errorf("%s: %v", raw, err)
		}
		if diff := cmp.Diff(data, again.Elem().Interface()); diff != "" {
			t.Errorf("%s (-want +got):\n%s", raw, diff)
		}
	}
}

func TestTensorRoundTrip(t *testing.T) {
	data := map[Datatype]*rapid.Generator[any]{
		Bool:   rapid.SliceOfN(rapid.Bool(), 6, 6).AsAny(),
		Uint8:  rapid.SliceOfN(rapid.Uint8(), 6, 6).AsAny(),
		Int8:   rapid.SliceOfN(rapid.Int8(), 6, 6).AsAny(),
		Uint64: rapid.SliceOfN(rapid.Uint64(), 6, 6).AsAny(),
		Int64:  rapid.SliceOfN(rapid.Int64(), 6, 6).AsAny(),
		FP32:   rapid.SliceOfN(rapid.Float32(), 6, 6).AsAny(),
		FP64:   rapid.SliceOfN(rapid.Float64(), 6, 6).AsAny(),
		Bytes:  rapid.SliceOfN(rapid.String(), 6, 6).AsAny(),
	}
	for datatype, generator := range data {
		t.Run(string(datatype), rapid.MakeCheck(func(t *rapid.T) {
			want := Tensor{Name: "x", Shape: []int64{2, 3}, Data: generator.Draw(t, "data")}
			if want.Datatype() != datatype {
				t.Fatalf("datatype %s, want %s", want.Datatype(), datatype)
			}
			raw, err := json.Marshal(want)
			if err != nil {
				t.Skip("NaN or infinity")
			}
			var got Tensor
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Fatalf("(-want +got):\n%s", diff)
			}
		}))
	}
}

func TestReadRequest(t *testing.T) {
	const good = `{"id":"7","parameters":{"label":true},"inputs":[{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],"outputs":[{"name":"y"}]}`
	for _, tc := range []struct {
		name, body string
		status     int
	}{
		{"good", good, http.StatusOK},
		{"no JSON", `{`, http.StatusBadRequest},
		{"no inputs", `{}`, http.StatusBadRequest},
		{"twice", strings.Replace(good, `}],"outputs`, `},{"name":"x","shape":[1],"datatype":"FP32","data":[1]}],"outputs`, 1), http.StatusBadRequest},
		{"too large", good + strings.Repeat(" ", 1000), http.StatusRequestEntityTooLarge},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := httptest.NewRequest(http.MethodPost, "/", strings.NewReader(tc.body))
			var req *InferRequest
			body, err := ReadBody(httptest.NewRecorder(), r, 500)
			if err == nil {
				req, err = ParseRequest(body, r.Header)
			}
			if tc.status != http.StatusOK {
				if err == nil || ErrorStatus(err) != tc.status {
					t.Errorf("%v, want an error with status %d", err, tc.status)
				}
				return
			}
			if err != nil || req.ID != "7" || req.Parameters["label"] != true || req.Outputs[0].Name != "y" {
				t.Errorf("%+v, %v", req, err)
			}
		})
	}
}

func FuzzParseRequest(f *testing.F) {
	f.Add([]byte(`{"inputs":[{"name":"x","shape":[1,2],"datatype":"FP32","data":[[1,2]]}]}`))
	f.Add([]byte(`{"inputs":[{"name":"x","shape":[1],"datatype":"BYTES","data":["]"]}]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		req, err := ParseRequest(body, nil)
		if err != nil {
			return
		}
		for _, in := range req.Inputs {
			raw, err := json.Marshal(in)
			if err != nil {
				t.Fatalf("what was read cannot be written: %v", err)
			}
			var again Tensor
			if err := json.Unmarshal(raw, &again); err != nil {
				t.Fatalf("what was written cannot be read: %v", err)
			}
			if diff := cmp.Diff(in, again); diff != "" {
				t.Fatalf("(-first +second):\n%s", diff)
			}
		}
	})
}

func TestConcat(t *testing.T) {
	a := Tensor{Name: "x", Shape: []int64{1, 2}, Data: []float32{1, 2}}
	got, err := Concat(a, Tensor{Name: "x", Shape: []int64{2, 2}, Data: []float32{3, 4, 5, 6}})
	want := Tensor{Name: "x", Shape: []int64{3, 2}, Data: []float32{1, 2, 3, 4, 5, 6}}
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("%v; (-want +got):\n%s", err, diff)
	}
	for _, b := range []Tensor{
		{Name: "x", Shape: []int64{1, 3}, Data: []float32{1, 2, 3}},
		{Name: "x", Shape: []int64{2}, Data: []float32{1, 2}},
		{Name: "x", Shape: []int64{1, 2}, Data: []float64{1, 2}},
	} {
		if got, err := Concat(a, b); err == nil {
			t.Errorf("%+v continues %+v: %+v", b, a, got)
		}
	}
}
