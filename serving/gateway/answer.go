package gateway

import (
	"math"
	"slices"
	"strconv"

	"github.com/sluiceml/sluice/serving/oip"
)

// answers reads a model's answer per row of its first output: the text of a text output; the number of the largest element where a
// row has several; 0 or 1 by the threshold 0.5 for a single floating-point number; else the number itself. nil when there is none.
func answers(outputs []oip.Tensor) []string {
	if len(outputs) == 0 || len(outputs[0].Shape) == 0 || outputs[0].Shape[0] == 0 {
		return nil
	}
	first := outputs[0]
	rows := int(first.Shape[0])
	if texts, ok := first.Data.([]string); ok {
		return texts
	}
	values, ok := first.Float64s()
	if !ok {
		return nil
	}
	out := make([]string, rows)
	for i, row := range slices.Collect(slices.Chunk(values, len(values)/rows)) {
		out[i] = strconv.Itoa(class(row, first.Datatype()))
	}
	return out
}

func class(row []float64, datatype oip.Datatype) int {
	isFloat := datatype == oip.FP32 || datatype == oip.FP64
	switch {
	case len(row) > 1:
		best := 0
		for i, v := range row {
			if v > row[best] {
				best = i
			}
		}
		return best
	case isFloat && row[0] >= 0.5:
		return 1
	case isFloat:
		return 0
	}
	return int(row[0])
}

// expectation is the answer a request's label asks for; empty when it has none.
type expectation string

// expected reads the parameter `label`: a boolean or a whole number for the class, a text for a model that answers with text.
func expected(parameters map[string]any) (expectation, error) {
	switch label := parameters["label"].(type) {
	case nil:
		return "", nil
	case bool:
		if label {
			return "1", nil
		}
		return "0", nil
	case float64:
		if label == math.Trunc(label) && math.Abs(label) < 1<<53 {
			return expectation(strconv.FormatInt(int64(label), 10)), nil
		}
	case string:
		return expectation(label), nil
	}
	return "", oip.Invalid("parameters.label is %v; it must be a boolean, a whole number or a text", parameters["label"])
}

// wrong reports whether any row's answer is not the one expected.
func (e expectation) wrong(outputs []oip.Tensor) bool {
	return e != "" && slices.ContainsFunc(answers(outputs), func(a string) bool { return a != string(e) })
}

func sameAnswer(a, b []oip.Tensor) bool { return slices.Equal(answers(a), answers(b)) }

// maxAbs is the largest difference of any two numbers in the same place of two models' outputs. Outputs of different sizes are not
// compared: they do not agree, which is counted.
func maxAbs(a, b []oip.Tensor) float64 {
	largest := 0.0
	for i := range min(len(a), len(b)) {
		x, okX := a[i].Float64s()
		y, okY := b[i].Float64s()
		if !okX || !okY || len(x) != len(y) {
			continue
		}
		for j := range x {
			if d := math.Abs(x[j] - y[j]); d > largest {
				largest = d
			}
		}
	}
	return largest
}
