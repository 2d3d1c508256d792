package oip

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/internal/testing/memory"
)

// TestBounds: what takes many times its bytes in memory is refused before anything is decoded.
func TestBounds(t *testing.T) {
	const most = 4 << 20
	list := func(entry string) string { return "[" + strings.Repeat(entry+",", most/(len(entry)+1)) + entry + "]" }
	var keys strings.Builder
	for i := range most / 12 {
		fmt.Fprintf(&keys, `"%08d":0,`, i)
	}
	for name, tt := range map[string]struct{ body, says string }{
		"inputs":         {`{"inputs":` + list("{}") + `}`, "more than 1024 inputs"},
		"nulls":          {`{"id": "[", "inputs" : ` + list("null") + `}`, "more than 1024 inputs"},
		"numbers":        {`{"inputs":` + list("1") + `}`, "more than 1024 inputs"},
		"in capitals":    {`{"x":{"inputs":[]}, "INPUTS":` + list("{}") + `}`, "more than 1024 inputs"},
		"folded":         {`{"input` + "\u017f" + `":` + list("{}") + `}`, "more than 1024 input"},
		"escaped":        {`{"\u0069nputs":` + list("{}") + `}`, "more than 1024 inputs"},
		"outputs":        {`{"inputs":[],"outputs":` + list(`{"name":"]"}`) + `}`, "more than 1024 outputs"},
		"shape":          {`{"inputs":[{"shape":` + list("1") + `}]}`, "dimensions, more than 256"},
		"parameters":     {`{"parameters":{` + keys.String() + `"a":0}}`, "its parameters have"},
		"lists in those": {`{"parameters":{"a":` + list("[]") + `}}`, "its parameters have"},
	} {
		body := []byte(tt.body)
		var err error
		if used := memory.Allocated(func() { _, err = ParseRequest(body, nil) }); used > 1<<20 {
			t.Errorf("%s: %d bytes of memory", name, used)
		}
		if err == nil || ErrorStatus(err) != http.StatusBadRequest || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %.300v", name, err)
		}
	}
	one := `{"name":"%d","datatype":"FP32","shape":[1%s],"data":[1]}`
	var inputs []string
	for i := range MaxTensors {
		inputs = append(inputs, fmt.Sprintf(one, i, strings.Repeat(",1", MaxDimensions-1)))
	}
	if req, err := ParseRequest([]byte(`{"inputs":[`+strings.Join(inputs, ",")+`]}`), nil); err != nil || len(req.Inputs) != MaxTensors {
		t.Errorf("as many as may be: %v", err)
	}
	if _, err := ParseRequest([]byte(`{"inputs":[`+inputs[0]+`],"outputs":[{"name":"y"},{"name":"y"}]}`), nil); err == nil ||
		!strings.Contains(err.Error(), `output "y" is asked for twice`) {
		t.Errorf("an output twice: %v", err)
	}
}

// TestErrorsAreShort: an error repeats little of its request.
func TestErrorsAreShort(t *testing.T) {
	long := strings.Repeat("7", 1<<20)
	shape := "1" + strings.Repeat(",1", MaxDimensions-1)
	for body, says := range map[string]string{
		`{"inputs":[{"name":"x","datatype":"FP32","shape":[` + shape + `],"data":[1,2]}]}`:      "shape [1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 …] (256 dimensions) has",
		`{"inputs":[{"name":"x","datatype":"FP32","shape":[-1,` + shape[2:] + `],"data":[1]}]}`: "(256 dimensions) has a negative",
		`{"inputs":[{"name":"` + long + `","datatype":"FP32","shape":[1],"data":[]}]}`:          "tensor",
		`{"inputs":[{"name":"x","datatype":"` + long + `","shape":[1],"data":[1]}]}`:            "datatype",
		`{"inputs":[{"name":"x","shape":[` + long + `]}]}`:                                      "inputs.shape must not be number",
	} {
		if _, err := ParseRequest([]byte(body), nil); err == nil || len(err.Error()) > maxMessage+3 || !strings.Contains(err.Error(), says) {
			t.Errorf("%.80s: %.300v", body, err)
		}
	}
	in := Tensor{Name: "x", Shape: make([]int64, MaxDimensions), Data: []float32{1}}
	for i := range in.Shape {
		in.Shape[i] = 1
	}
	_, err := Match([]TensorMetadata{{Name: "x", Datatype: FP32, Shape: []int64{-1, 1}}}, []Tensor{in})
	if want := `input "x" has shape [1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 1 …] (256 dimensions), but the model needs [-1 1]`; err == nil || err.Error() != want {
		t.Errorf("a wrong rank: %v", err)
	}
}

func TestField(t *testing.T) {
	for body, want := range map[string]string{
		`{"user": "ada"}`: `"ada"`, ` { "a" : [1,{"user":2}] , "user" :{"x":[]} }`: `{"x":[]}`, `{"user":1,"user":2}`: "2", `{"us\u0065r":true}`: "true",
		`{"User":1}`: "", `{}`: "", `[]`: "", `"user"`: "", ``: "", `{"user":1`: "", `{"a":"\"user\":1"}`: "", `{"user":null}`: "null",
	} {
		if got := string(Field([]byte(body), "user")); got != want {
			t.Errorf("%s: %q, want %q", body, got, want)
		}
	}
}

func FuzzMembers(f *testing.F) {
	f.Add([]byte(`{"inputs":[{}],"a":"b"}`))
	f.Add([]byte(`{"a" "b":,]}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		for m := range members(body) {
			if len(m.key) < 2 || len(m.value) == 0 {
				t.Fatalf("%q: %q, %q", body, m.key, m.value)
			}
			_ = m.name()
		}
	})
}
