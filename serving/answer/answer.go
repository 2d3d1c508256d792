// Package answer reads what a model answered out of its output tensors, and compares the answers of two models with each other and with a
// label. What a compilation, shadow traffic and labels mean by the same answer is decided here alone.
//
// It also reads a dataset's rows as the inputs of a model: what compile measures with and what a rollout replays.
package answer

import (
	"math"
	"reflect"
	"slices"
	"strconv"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/oip"
)

// Rules say how answers are compared: each is about one output, and all must agree. None means one rule that leaves everything open.
type Rules []spec.Compare

// theFirst is the rule of those who have none.
var theFirst = Rules{{}}

func (r Rules) orDefault() Rules {
	if len(r) == 0 {
		return theFirst
	}
	return r
}

// Same reports whether two models answered every row alike. known is false when neither gave an answer to any rule, which is no agreement. What
// is allowed to differ relatively is measured by b, which is the model that is known.
func (r Rules) Same(a, b []oip.Tensor) (same, known bool) {
	same = true
	for _, rule := range r.orDefault() {
		x, y := outputOf(rule, a), outputOf(rule, b)
		var alike, answered bool
		if rule.Rule == spec.CompareTolerance {
			alike, answered = within(rule, x, y)
		} else {
			own, other := answersOf(rule, x), answersOf(rule, y)
			answered = own != nil || other != nil
			alike = slices.Equal(own, other)
		}
		same, known = same && alike && answered, known || answered
	}
	return same && known, known
}

// How far numbers of two answers may be apart, as a share of the largest of their output: by the order in which a computer adds, which depends on
// the size of a batch, and at all.
const (
	rounding = 1e-4
	steady   = 0.01
)

// Steady reports whether the answer of a model to a row that ran among others is the one that it gave alone: the same by the rules, with no number
// further apart than 1% of the largest in its output.
func (r Rules) Steady(alone, among []oip.Tensor) bool {
	if Near(alone, among, rounding) {
		return true
	}
	for _, rule := range r.orDefault() {
		if t := outputOf(rule, alone); rule.Rule == "" && t != nil && isNumber(rule, t) {
			continue // no rule says how near it has to be
		}
		if same, _ := (Rules{rule}).Same(among, alone); !same {
			return false
		}
	}
	return Near(alone, among, steady)
}

// isNumber reports whether the answer is a number, not a class.
func isNumber(rule spec.Compare, t *oip.Tensor) bool {
	return isFloat(t.Datatype()) && slices.ContainsFunc(answersOf(rule, t), func(a string) bool { return a != "0" && a != "1" }) &&
		int64(len(numbersOf(t))) == t.Shape[0]
}

// Near reports whether two answers have the same elements, but for numbers that differ by no more than a share of the largest in their output.
func Near(a, b []oip.Tensor, share float64) bool {
	return slices.EqualFunc(a, b, func(x, y oip.Tensor) bool {
		if !slices.Equal(x.Shape, y.Shape) || !isFloat(x.Datatype()) {
			return slices.Equal(x.Shape, y.Shape) && reflect.DeepEqual(x.Data, y.Data)
		}
		var largest float64
		for _, v := range numbersOf(&x) {
			if v = math.Abs(v); !math.IsInf(v, 0) && !math.IsNaN(v) {
				largest = max(largest, v)
			}
		}
		return slices.EqualFunc(numbersOf(&x), numbersOf(&y), func(v, w float64) bool {
			return v == w || v != v && w != w || math.Abs(v-w) <= share*largest
		})
	})
}

// outputOf finds a rule's output; nil when there is none of that name.
func outputOf(rule spec.Compare, outputs []oip.Tensor) *oip.Tensor {
	for i := range outputs {
		if rule.Output == "" || outputs[i].Name == rule.Output {
			return &outputs[i]
		}
	}
	return nil
}

// within compares numbers, element by element.
func within(rule spec.Compare, x, y *oip.Tensor) (same, known bool) {
	a, b := numbersOf(x), numbersOf(y)
	known = len(a) > 0 || len(b) > 0
	return known && slices.EqualFunc(a, b, func(v, reference float64) bool { return near(rule, v, reference) }), known
}

func near(rule spec.Compare, v, reference float64) bool {
	return math.Abs(v-reference) <= rule.ATol+rule.RTol*math.Abs(reference)
}

func numbersOf(t *oip.Tensor) []float64 {
	if t == nil {
		return nil
	}
	values, _ := t.Float64s()
	return values
}

// answersOf reads an answer per row of an output; nil when there is none, such as for an output without elements.
func answersOf(rule spec.Compare, t *oip.Tensor) []string {
	if t == nil || len(t.Shape) == 0 || t.Shape[0] == 0 {
		return nil
	}
	if texts, ok := t.Data.([]string); ok && len(texts) > 0 {
		return texts
	}
	values, rows := numbersOf(t), int(t.Shape[0])
	if len(values) < rows {
		return nil
	}
	if rule.Rule == spec.CompareExact {
		rows = len(values) // every element is to be the same
	}
	out := make([]string, rows)
	for i, row := range slices.Collect(slices.Chunk(values, len(values)/rows)) {
		out[i] = answerOf(rule, row, t.Datatype())
	}
	return out
}

// answerOf reads the answer of one row.
func answerOf(rule spec.Compare, row []float64, datatype oip.Datatype) string {
	isProbability := isFloat(datatype) && row[0] >= 0 && row[0] <= 1
	switch {
	case rule.Rule == spec.CompareExact:
		return text(row[0])
	case rule.Rule == spec.CompareTop1, rule.Rule == "" && len(row) > 1:
		return strconv.Itoa(largest(row))
	case rule.Rule == spec.CompareThreshold, isProbability:
		if row[0] >= threshold(rule) {
			return "1"
		}
		return "0"
	}
	return text(row[0])
}

func threshold(rule spec.Compare) float64 {
	if rule.Threshold == nil {
		return 0.5
	}
	return *rule.Threshold
}

func largest(row []float64) int {
	best := 0
	for i, v := range row {
		if v > row[best] {
			best = i
		}
	}
	return best
}

func text(v float64) string { return strconv.FormatFloat(v, 'f', -1, 64) }

func isFloat(datatype oip.Datatype) bool {
	return datatype == oip.FP32 || datatype == oip.FP64 || datatype == oip.FP16 || datatype == oip.BF16
}

// MaxAbs is the largest difference of any two numbers in the same place of two models' outputs; known is false when there are
// no such two. Outputs of different sizes are not compared: their answers differ, which Same tells.
func MaxAbs(a, b []oip.Tensor) (largest float64, known bool) {
	for i := range min(len(a), len(b)) {
		x, okX := a[i].Float64s()
		y, okY := b[i].Float64s()
		if !okX || !okY || len(x) != len(y) {
			continue
		}
		known = known || len(x) > 0
		for j := range x {
			if d := math.Abs(x[j] - y[j]); d > largest {
				largest = d
			}
		}
	}
	return largest, known
}
