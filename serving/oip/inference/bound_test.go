package inference

import (
	"bytes"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceml/sluice/internal/testing/memory"
	"github.com/sluiceml/sluice/serving/oip"
)

// field is a field with a length.
func field(number protowire.Number, value []byte) []byte {
	return protowire.AppendBytes(protowire.AppendTag(nil, number, protowire.BytesType), value)
}

// TestBounded: what takes many times its bytes in memory is refused before anything is decoded.
func TestBounded(t *testing.T) {
	const most = 4 << 20
	long := func(part []byte) []byte { return bytes.Repeat(part, most/len(part)) }
	for name, tt := range map[string]struct {
		message []byte
		says    string
	}{
		"inputs":              {long(field(fieldInputs, nil)), "more than 1024 inputs"},
		"outputs":             {long(field(fieldOutputs, nil)), "more than 1024 outputs"},
		"raw contents":        {long(field(fieldRaw, nil)), "more than 1024 raw_input_contents"},
		"parameters":          {long(field(fieldParameters, nil)), "more than 4096 parameters"},
		"parameters of one":   {field(fieldInputs, long(field(fieldInputParameters, nil))), "more than 4096 parameters"},
		"parameters of a out": {field(fieldOutputs, long(field(fieldOutputParameters, nil))), "more than 4096 parameters"},
		"shape":               {field(fieldInputs, field(fieldShape, long([]byte{1}))), "dimensions, more than 256"},
		"unpacked shape": {
			field(fieldInputs, long(protowire.AppendVarint(protowire.AppendTag(nil, fieldShape, protowire.VarintType), 1))), "dimensions, more than 256",
		},
	} {
		var err error
		if used := memory.Allocated(func() { err = Bounded(tt.message) }); used > 1<<20 {
			t.Errorf("%s: %d bytes of memory", name, used)
		}
		if err == nil || oip.ErrorStatus(err) != http.StatusBadRequest || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: %v", name, err)
		}
	}

	m := &ModelInferRequest{ModelName: "m", Parameters: map[string]*InferParameter{"a": {}}}
	for range oip.MaxTensors {
		m.Inputs = append(m.Inputs, &ModelInferRequest_InferInputTensor{Name: "x", Shape: make([]int64, oip.MaxDimensions)})
		m.Outputs = append(m.Outputs, &ModelInferRequest_InferRequestedOutputTensor{Name: "y"})
		m.RawInputContents = append(m.RawInputContents, []byte("1"))
	}
	raw, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	for cut := range len(raw) / 1000 {
		if err := Bounded(raw[:len(raw)-cut]); err != nil {
			t.Fatalf("as many as may be, without %d bytes: %v", cut, err)
		}
	}
}
