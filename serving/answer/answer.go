// Package answer reads what a model answered out of its output tensors, and compares the answers of two models.
package answer

import (
	"math"
	"slices"
	"strconv"

	"github.com/sluiceml/sluice/serving/oip"
)

// Of reads a model's answer per row of its first output: the text of a text output; the number of the largest element where a
// row has several; 0 or 1 by the threshold 0.5 for a single floating-point number; else the number itself. nil when there is none.
func Of(outputs []oip.Tensor) []string {
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

// Same reports whether two models answered every row alike.
func Same(a, b []oip.Tensor) bool { return slices.Equal(Of(a), Of(b)) }

// MaxAbs is the largest difference of any two numbers in the same place of two models' outputs. Outputs of different sizes are not
// compared: their answers differ, which Same tells.
func MaxAbs(a, b []oip.Tensor) float64 {
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
