package gateway

import (
	"testing"

	"github.com/sluiceml/sluice/serving/oip"
)

// promise: docs/pipelines.md#p-labels-refused
func TestLabelsThatAreNoClass(t *testing.T) {
	for _, tc := range []struct {
		name     string
		datatype oip.Datatype
		shape    []int64
		fit      []expectation
		unfit    []expectation
	}{
		{"one number", oip.FP32, []int64{-1, 1}, []expectation{"", "0", "1"}, []expectation{"152", "-1", "2", "spam"}},
		{"a vector", oip.FP64, []int64{-1}, []expectation{"0", "1"}, []expectation{"2"}},
		{"scores", oip.FP32, []int64{-1, 3}, []expectation{"0", "2"}, []expectation{"3", "-1", "spam"}},
		{"scores of unknown classes", oip.FP32, []int64{-1, -1}, []expectation{"0", "200"}, []expectation{"spam"}},
		{"class numbers", oip.Int64, []int64{-1}, []expectation{"0", "152", "-1"}, []expectation{"spam"}},
		{"texts", oip.Bytes, []int64{-1}, []expectation{"spam", "1"}, nil},
	} {
		outputs := []oip.TensorMetadata{{Name: "y", Datatype: tc.datatype, Shape: tc.shape}}
		for _, e := range tc.fit {
			if err := e.fits(outputs); err != nil {
				t.Errorf("%s: label %q: %v", tc.name, e, err)
			}
		}
		for _, e := range tc.unfit {
			if err := e.fits(outputs); err == nil {
				t.Errorf("%s: label %q was taken", tc.name, e)
			}
		}
	}
}

func TestLabels(t *testing.T) {
	spam := []oip.Tensor{{Shape: []int64{1, 2}, Data: []float32{0.1, 0.9}}}
	for _, tc := range []struct {
		label any
		wrong bool
	}{{true, false}, {false, true}, {1.0, false}, {0.0, true}, {2.0, true}, {nil, false}} {
		e, err := expected(map[string]any{"label": tc.label})
		if err != nil || e.wrong(spam) != tc.wrong {
			t.Errorf("label %v: wrong %v, %v", tc.label, e.wrong(spam), err)
		}
	}
	for _, label := range []any{0.5, []any{true}, map[string]any{}} {
		if _, err := expected(map[string]any{"label": label}); err == nil {
			t.Errorf("label %v was taken", label)
		}
	}
}
