// Package answer reads what a model answered out of its output tensors, and compares the answers of two models.
package answer

import (
	"math"
	"slices"
	"strconv"

	"github.com/sluiceml/sluice/serving/oip"
)

// Of reads a model's answer per row of its first output: the text of a text output; the number of the largest element where a
// row has several; 0 or 1 by the threshold 0.5 for a single floating-point number from 0 to 1, which is taken for a probability; else the
// number itself. nil when there is none, such as for an output without elements.
func Of(outputs []oip.Tensor) []string {
	if len(outputs) == 0 || len(outputs[0].Shape) == 0 || outputs[0].Shape[0] == 0 {
		return nil
	}
	first := outputs[0]
	rows := int(first.Shape[0])
	if texts, ok := first.Data.([]string); ok && len(texts) > 0 {
		return texts
	}
	values, ok := first.Float64s()
	if !ok || len(values) < rows {
		return nil
	}
	out := make([]string, rows)
	for i, row := range slices.Collect(slices.Chunk(values, len(values)/rows)) {
		out[i] = ofRow(row, first.Datatype())
	}
	return out
}

func ofRow(row []float64, datatype oip.Datatype) string {
	isProbability := (datatype == oip.FP32 || datatype == oip.FP64) && row[0] >= 0 && row[0] <= 1
	switch {
	case len(row) > 1:
		best := 0
		for i, v := range row {
			if v > row[best] {
				best = i
			}
		}
		return strconv.Itoa(best)
	case isProbability && row[0] >= 0.5:
		return "1"
	case isProbability:
		return "0"
	}
	return strconv.FormatFloat(row[0], 'f', -1, 64)
}

// Compare reports whether two models answered every row alike. known is false when neither gave an answer, which is no agreement.
func Compare(a, b []oip.Tensor) (same, known bool) {
	x, y := Of(a), Of(b)
	known = x != nil || y != nil
	return known && slices.Equal(x, y), known
}

// MaxAbs is the largest difference of any two numbers in the same place of two models' outputs; known is false when there are
// no such two. Outputs of different sizes are not compared: their answers differ, which Compare tells.
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
