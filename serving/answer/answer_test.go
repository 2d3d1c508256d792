package answer

import (
	"math"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/oip"
)

func TestAnswersWithoutARule(t *testing.T) {
	for _, tc := range []struct {
		name   string
		output oip.Tensor
		want   []string
	}{
		{"classes", oip.Tensor{Shape: []int64{2, 3}, Data: []float32{1, 3, 2, 9, 0, 0}}, []string{"1", "0"}},
		{"probability", oip.Tensor{Shape: []int64{3}, Data: []float32{0.4, 0.5, 0.9}}, []string{"0", "1", "1"}},
		{"column", oip.Tensor{Shape: []int64{2, 1}, Data: []float64{0.4, 0.6}}, []string{"0", "1"}},
		{"no probability", oip.Tensor{Shape: []int64{3, 1}, Data: []float32{152.5, -0.25, 1.5}}, []string{"152.5", "-0.25", "1.5"}},
		{"labels", oip.Tensor{Shape: []int64{2}, Data: []int64{7, 0}}, []string{"7", "0"}},
		{"bools", oip.Tensor{Shape: []int64{2}, Data: []bool{true, false}}, []string{"1", "0"}},
		{"texts", oip.Tensor{Shape: []int64{2}, Data: []string{"spam", "ham"}}, []string{"spam", "ham"}},
		{"a tie is the first", oip.Tensor{Shape: []int64{1, 2}, Data: []float32{0.5, 0.5}}, []string{"0"}},
	} {
		if diff := cmp.Diff(tc.want, answersOf(spec.Compare{}, &tc.output)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	if got := answersOf(spec.Compare{}, nil); got != nil {
		t.Errorf("of nothing: %v", got)
	}
}

func TestMaxAbs(t *testing.T) {
	a := []oip.Tensor{{Shape: []int64{2}, Data: []float32{1, 2}}, {Shape: []int64{1}, Data: []string{"x"}}, {Shape: []int64{1}, Data: []int64{5}}}
	b := []oip.Tensor{{Shape: []int64{2}, Data: []float32{1, 2.5}}, {Shape: []int64{1}, Data: []string{"y"}}, {Shape: []int64{1}, Data: []int64{8}}}
	if got, known := MaxAbs(a, b); got != 3 || !known {
		t.Errorf("MaxAbs = %v, %v, want 3", got, known)
	}
	if got, known := MaxAbs(a, nil); got != 0 || known {
		t.Errorf("MaxAbs with nothing = %v, %v, want nothing to compare", got, known)
	}
}

func TestSameWithoutARule(t *testing.T) {
	nothing := []oip.Tensor{{Shape: []int64{1, 0, 4}, Data: []float32{}}}
	scalar := []oip.Tensor{{Shape: []int64{}, Data: []float32{3}}}
	found := []oip.Tensor{{Shape: []int64{1, 1, 4}, Data: []float32{0, 0, 1, 0}}}
	for _, tc := range []struct {
		name             string
		a, b             []oip.Tensor
		same, comparable bool
	}{
		{"alike", found, found, true, true},
		{"one has no element", found, nothing, false, true},
		{"both have no element", nothing, nothing, false, false},
		{"no rows", scalar, scalar, false, false},
		{"no outputs", nil, nil, false, false},
	} {
		if same, known := Rules(nil).Same(tc.a, tc.b); same != tc.same || known != tc.comparable {
			t.Errorf("%s: same %v, comparable %v", tc.name, same, known)
		}
	}
}

func TestRules(t *testing.T) {
	floats := func(name string, shape []int64, values ...float32) oip.Tensor {
		return oip.Tensor{Name: name, Shape: shape, Data: values}
	}
	one := func(v float32) []oip.Tensor { return []oip.Tensor{floats("y", []int64{1, 1}, v)} }
	scores := func(v ...float32) []oip.Tensor { return []oip.Tensor{floats("y", []int64{1, int64(len(v))}, v...)} }
	both := func(class string, price float32) []oip.Tensor {
		return []oip.Tensor{{Name: "class", Shape: []int64{1}, Data: []string{class}}, floats("price", []int64{1, 1}, price)}
	}
	zero := 0.0
	for _, tc := range []struct {
		name        string
		rules       Rules
		a, b        []oip.Tensor
		same, known bool
	}{
		{"absolute", Rules{{Rule: "tolerance", ATol: 2}}, one(102), one(100), true, true},
		{"absolute, too far", Rules{{Rule: "tolerance", ATol: 2}}, one(102.5), one(100), false, true},
		{"relative to the known model", Rules{{Rule: "tolerance", RTol: 0.1}}, one(110), one(100), true, true},
		{"relative to the candidate it would be", Rules{{Rule: "tolerance", RTol: 0.1}}, one(100), one(90), false, true},
		{"every element", Rules{{Rule: "tolerance", ATol: 2}}, scores(1, 9), scores(2, 5), false, true},
		{"fewer numbers", Rules{{Rule: "tolerance", ATol: 2}}, scores(1), scores(1, 1), false, true},
		{"texts have no tolerance", Rules{{Output: "class", Rule: "tolerance", ATol: 2}}, both("a", 1), both("a", 1), false, false},
		{"exact", Rules{{Rule: "exact"}}, one(0.7), one(0.6), false, true},
		{"exact, every element", Rules{{Rule: "exact"}}, scores(1, 9), scores(2, 9), false, true},
		{"top1", Rules{{Rule: "top1"}}, scores(1, 9), scores(2, 3), true, true},
		{"logits by a threshold", Rules{{Rule: "threshold", Threshold: &zero}}, one(-0.1), one(0.1), false, true},
		{"above the threshold", Rules{{Rule: "threshold", Threshold: &zero}}, one(7), one(0.1), true, true},
		{"a later output", Rules{{Output: "price", Rule: "tolerance", ATol: 1}}, both("a", 10), both("b", 10.5), true, true},
		{"several outputs", Rules{{Output: "class"}, {Output: "price", Rule: "tolerance", ATol: 1}}, both("a", 10), both("a", 10.5), true, true},
		{"one of several differs", Rules{{Output: "class"}, {Output: "price", Rule: "tolerance", ATol: 1}}, both("a", 10), both("b", 10.5), false, true},
		{"no such output", Rules{{Output: "size"}}, both("a", 10), both("a", 10), false, false},
		{"one of several is missing", Rules{{Output: "class"}, {Output: "size"}}, both("a", 10), both("a", 10), false, true},
	} {
		if same, known := tc.rules.Same(tc.a, tc.b); same != tc.same || known != tc.known {
			t.Errorf("%s: same %v, known %v", tc.name, same, known)
		}
	}
}

func TestOutputsThatRulesCannotCompare(t *testing.T) {
	outputs := []oip.TensorMetadata{
		{Name: "class", Datatype: oip.Bytes, Shape: []int64{-1}},
		{Name: "price", Datatype: oip.FP32, Shape: []int64{-1, 1}},
		{Name: "scores", Datatype: oip.FP32, Shape: []int64{-1, 3}},
	}
	for _, tc := range []struct {
		rule spec.Compare
		want string
	}{
		{spec.Compare{}, ""},
		{spec.Compare{Output: "price", Rule: "tolerance"}, ""},
		{spec.Compare{Output: "scores", Rule: "top1"}, ""},
		{spec.Compare{Output: "price", Rule: "threshold"}, ""},
		{spec.Compare{Output: "prize"}, `no output "prize"; it has ["class" "price" "scores"]`},
		{spec.Compare{Rule: "tolerance"}, "is text"},
		{spec.Compare{Output: "price", Rule: "top1"}, "has one"},
		{spec.Compare{Output: "scores", Rule: "threshold"}, "has 3: use `rule: top1`"},
	} {
		err := Rules{tc.rule}.Check(outputs)
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.rule, err, tc.want)
		}
	}
	if err := (Rules{{Output: "prize"}}).Check(nil); err != nil {
		t.Errorf("a model that is not described: %v", err)
	}
}

func TestOutputsWithNothingToAgreeOn(t *testing.T) {
	described := func(datatype oip.Datatype, shape ...int64) []oip.TensorMetadata {
		return []oip.TensorMetadata{{Name: "y", Datatype: datatype, Shape: shape}}
	}
	tolerance := Rules{{Rule: "tolerance", ATol: 1}}
	for _, tc := range []struct {
		name              string
		rules             Rules
		outputs           []oip.TensorMetadata
		labels, agreement bool
	}{
		{"classes", nil, described(oip.FP32, -1, 3), true, true},
		{"open dimensions", nil, described(oip.FP32, -1, -1, 4), true, true},
		{"boxes", nil, described(oip.FP32, -1, 100, 4), true, false},
		{"boxes with a rule", tolerance, described(oip.FP32, -1, 100, 4), false, true},
		{"one number", tolerance, described(oip.FP32, -1, 1), true, true},
		{"several numbers", Rules{{Rule: "exact"}}, described(oip.Int64, -1, 2), false, true},
	} {
		if err := tc.rules.CheckLabels(tc.outputs); (err == nil) != tc.labels {
			t.Errorf("%s: labels: %v", tc.name, err)
		}
		if err := tc.rules.CheckAgreement(tc.outputs); (err == nil) != tc.agreement {
			t.Errorf("%s: agreement: %v", tc.name, err)
		}
	}
	threshold := Rules{{Rule: "threshold", Threshold: new(float64)}}
	for _, tc := range []struct {
		rules  Rules
		values []float32
		fit    bool
	}{
		{nil, []float32{0.5, 1}, true},
		{nil, []float32{3}, true},
		{nil, []float32{0.5, 152.25}, false},
		{nil, []float32{0.5, -2.25}, false},
		{tolerance, []float32{152.25}, true},
		{threshold, []float32{-2.25}, true},
	} {
		answers := []oip.Tensor{{Name: "y", Shape: []int64{int64(len(tc.values)), 1}, Data: tc.values}}
		if err := tc.rules.CheckAnswers(answers); (err == nil) != tc.fit {
			t.Errorf("answers %v: %v", tc.values, err)
		}
		err := tc.rules.CheckLabelledAnswers(answers)
		if (err == nil) != tc.fit || err != nil && (strings.Contains(err.Error(), "delta") || !strings.Contains(err.Error(), "rule: threshold")) {
			t.Errorf("labelled answers %v: %v", tc.values, err)
		}
	}
}

func TestSteady(t *testing.T) {
	of := func(values ...float32) []oip.Tensor {
		return []oip.Tensor{{Name: "y", Shape: []int64{1, int64(len(values))}, Data: values}}
	}
	nan := float32(math.NaN())
	for _, tc := range []struct {
		name         string
		rules        Rules
		alone, among []oip.Tensor
		want         bool
	}{
		{"the last digits", nil, of(0.3, 0.7), of(0.3000001, 0.7), true},
		{"a tie that the last digits decide", nil, of(0.5, 0.5), of(0.5, 0.5000001), true},
		{"another class", nil, of(0.499, 0.501), of(0.501, 0.499), false},
		{"the same class, far off", nil, of(0.1, 0.9), of(0.2, 0.8), false},
		{"a number", nil, of(152.25), of(152.5), true},
		{"a number far off", nil, of(152.25), of(160), false},
		{"a number by a rule", Rules{{Rule: "tolerance", ATol: 0.1}}, of(152.25), of(152.5), false},
		{"not a number", nil, of(nan, 1), of(nan, 1), true},
		{"another shape", nil, of(1, 2), of(1), false},
		{"texts", nil, []oip.Tensor{{Shape: []int64{1}, Data: []string{"a"}}}, []oip.Tensor{{Shape: []int64{1}, Data: []string{"b"}}}, false},
	} {
		if got := tc.rules.Steady(tc.alone, tc.among); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}
