package oip

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sameAsJSON: what is read as plain means to encoding/json the same.
func sameAsJSON(t *testing.T, head []byte) (isPlain bool) {
	t.Helper()
	got, isPlain := plainRequest(head)
	if !isPlain {
		return false
	}
	var want requestJSON
	if err := json.Unmarshal(head, &want); err != nil {
		t.Fatalf("%q is read, but %v", head, err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Fatalf("%q (-want +got):\n%s", head, diff)
	}
	return true
}

const tensorX = `{"name":"x","shape":[1,2],"datatype":"FP32","data":%s}`

func TestPlainRequests(t *testing.T) {
	inputs := func(data string) string { return `{"inputs":[` + fmt.Sprintf(tensorX, data) + `]}` }
	for _, head := range []string{
		inputs(`[1,2]`), inputs(`[[0.5e-3,-1E+9],[-0.0,10]]`), inputs(`[ true , null,"é" , {"a":[{}] } ]`), inputs(`[]`), inputs(`null`),
		" \t\r\n{ \"id\" : \"7\" , \"inputs\" : [ ] }\n", `{}`, `{"inputs":[{}]}`,
		`{"id":"7","parameters":{"binary_data_output":true,"label":1.5},"inputs":[{"name":"x","shape":[2],"datatype":"FP32","parameters":{"binary_data_size":8}}],
			"outputs":[{"name":"y","parameters":{"binary_data":false}},{"name":"z"}]}`,
	} {
		if !sameAsJSON(t, []byte(head)) {
			t.Errorf("%s is not plain", head)
		}
	}
	for _, head := range []string{
		``, `[]`, `null`, `{`, `{}}`, `{"inputs":[]`, `{"inputs":[],}`, `{"inputs":[{}],"inputs":[]}`, `{"Inputs":[]}`, `{"other":1}`, `{"\u0069d":"7"}`, `{"id":7}`, `{"id":"a\nb"}`,
		`{"inputs":{}}`, `{"inputs":[null]}`, `{"inputs":[{"shape":[1.0]}]}`, `{"inputs":[{"shape":[9223372036854775808]}]}`, `{"parameters":[]}`,
		inputs(`[01]`), inputs(`[1.]`), inputs(`[.5]`), inputs(`[+1]`), inputs(`[-]`), inputs(`[1e]`), inputs(`[1,]`), inputs(`[1 2]`), inputs(`[NaN]`), inputs(`[Infinity]`), inputs(`[0x10]`),
		inputs(`[1_0]`), inputs(`["\x"]`), inputs(`["\n"]`), inputs("[\"\n\"]"), inputs(`["a`), inputs(`[nul]`), inputs(`[{"a" 1}]`), inputs(`{"a":}`),
		inputs(strings.Repeat("[", 100) + strings.Repeat("]", 100)),
		`{"inputs":[` + strings.Repeat(`{},`, MaxTensors) + `{}]}`, `{"inputs":[{"shape":[` + strings.Repeat(`1,`, MaxDimensions) + `1]}]}`,
		`{"parameters":{"a":"` + strings.Repeat("a", maxParameters) + `"}}`,
	} {
		if sameAsJSON(t, []byte(head)) {
			t.Errorf("%s is plain", head)
		}
	}
}

func FuzzPlainRequest(f *testing.F) {
	f.Add([]byte(`{"id":"7","parameters":{"a":[1]},"inputs":[` + fmt.Sprintf(tensorX, `[[1e5,-0.5],["\u00e9"]]`) + `],"outputs":[{"name":"y"}]}`))
	f.Fuzz(func(t *testing.T, head []byte) {
		if isPlain := sameAsJSON(t, head); isPlain {
			if _, err := ParseRequest(head, nil); err != nil && ErrorStatus(err) != 400 {
				t.Fatal(err)
			}
		}
	})
}
