package answer

import (
	"testing"

	"github.com/sluiceml/sluice/serving/oip"
)

func TestLabelsThatNoAnswerCanBe(t *testing.T) {
	for _, tc := range []struct {
		name     string
		rules    Rules
		datatype oip.Datatype
		shape    []int64
		fit      []Label
		unfit    []Label
	}{
		{"one number", nil, oip.FP32, []int64{-1, 1}, []Label{"", "0", "1"}, []Label{"152", "-1", "2", "0.5", "spam"}},
		{"a vector", nil, oip.FP64, []int64{-1}, []Label{"0", "1"}, []Label{"2"}},
		{"scores", nil, oip.FP32, []int64{-1, 3}, []Label{"0", "2"}, []Label{"3", "-1", "1.5", "spam"}},
		{"scores of unknown classes", nil, oip.FP32, []int64{-1, -1}, []Label{"0", "200"}, []Label{"spam", "1.5"}},
		{"class numbers", nil, oip.Int64, []int64{-1}, []Label{"0", "152", "-1"}, []Label{"spam", "1.5"}},
		{"texts", nil, oip.Bytes, []int64{-1}, []Label{"spam", "1"}, nil},
		{"tolerance", Rules{{Rule: "tolerance", ATol: 1}}, oip.FP32, []int64{-1, 1}, []Label{"0", "-152.25"}, []Label{"spam", "NaN", "Inf"}},
		{"exact", Rules{{Rule: "exact"}}, oip.Int64, []int64{-1}, []Label{"152"}, []Label{"spam"}},
		{"a number of classes", Rules{{Rule: "threshold"}}, oip.Int64, []int64{-1}, []Label{"0", "1"}, []Label{"2"}},
		{"another output", Rules{{Output: "z"}}, oip.FP32, []int64{-1, 3}, []Label{"spam"}, nil},
	} {
		outputs := []oip.TensorMetadata{{Name: "y", Datatype: tc.datatype, Shape: tc.shape}}
		for _, l := range tc.fit {
			if err := tc.rules.Fits(l, outputs); err != nil {
				t.Errorf("%s: label %q: %v", tc.name, l, err)
			}
		}
		for _, l := range tc.unfit {
			if err := tc.rules.Fits(l, outputs); err == nil {
				t.Errorf("%s: label %q was taken", tc.name, l)
			}
		}
	}
}

func TestLabels(t *testing.T) {
	scores := []oip.Tensor{{Shape: []int64{1, 2}, Data: []float32{0.1, 0.9}}}
	price := []oip.Tensor{{Name: "class", Shape: []int64{1}, Data: []string{"x"}}, {Name: "price", Shape: []int64{1, 1}, Data: []float32{0.1}}}
	near, exact := Rules{{Output: "price", Rule: "tolerance", ATol: 0.05}}, Rules{{Output: "price", Rule: "exact"}}
	for _, tc := range []struct {
		rules   Rules
		outputs []oip.Tensor
		label   any
		wrong   bool
	}{
		{nil, scores, true, false},
		{nil, scores, false, true},
		{nil, scores, 1.0, false},
		{nil, scores, 0.0, true},
		{nil, scores, 2.0, true},
		{nil, scores, "1.0", false}, // the class of a dataset that went through floating point
		{nil, scores, "0.0", true},
		{nil, scores, nil, false},
		{nil, price, "x", false},
		{nil, []oip.Tensor{{Shape: []int64{1}, Data: []string{"1"}}}, "1.0", true}, // a text is what it is
		{nil, price, "y", true},
		{near, price, 0.14, false},
		{near, price, 0.16, true},
		{near, scores, 0.1, true}, // it has no such output
		{exact, price, 0.1, false},
		{exact, price, 0.11, true},
	} {
		l, err := LabelOf(tc.label)
		if err != nil || tc.rules.Wrong(l, tc.outputs) != tc.wrong {
			t.Errorf("%+v: label %v: wrong %v, %v", tc.rules, tc.label, tc.rules.Wrong(l, tc.outputs), err)
		}
	}
	for _, label := range []any{[]any{true}, map[string]any{}} {
		if _, err := LabelOf(label); err == nil {
			t.Errorf("label %v was taken", label)
		}
	}
}
