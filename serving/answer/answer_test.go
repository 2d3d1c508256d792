package answer

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/serving/oip"
)

func TestOf(t *testing.T) {
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
		if diff := cmp.Diff(tc.want, Of([]oip.Tensor{tc.output})); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tc.name, diff)
		}
	}
	if got := Of(nil); got != nil {
		t.Errorf("Of nothing: %v", got)
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

func TestCompare(t *testing.T) {
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
		if same, known := Compare(tc.a, tc.b); same != tc.same || known != tc.comparable {
			t.Errorf("%s: same %v, comparable %v", tc.name, same, known)
		}
	}
}
