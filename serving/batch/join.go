package batch

import (
	"fmt"
	"reflect"
	"slices"

	"github.com/sluiceml/sluice/serving/oip"
)

// rowsOf returns the size of the first dimension, which all of a request's inputs share; 0 for inputs that differ in it, or whose data
// do not fill their shape.
func rowsOf(inputs []oip.Tensor) int64 {
	rows := inputs[0].Shape[0]
	for _, t := range inputs {
		if t.Shape[0] != rows || int64(reflect.ValueOf(t.Data).Len()) != size(t.Shape) {
			return 0
		}
	}
	return rows
}

func size(shape []int64) int64 {
	n := int64(1)
	for _, d := range shape {
		n *= d
	}
	return n
}

// joinable reports whether two requests differ only in how many rows they have.
func joinable(a, b *request) bool {
	return a.rows > 0 && b.rows > 0 && slices.EqualFunc(a.inputs, b.inputs, func(x, y oip.Tensor) bool {
		return slices.Equal(x.Shape[1:], y.Shape[1:])
	})
}

// join puts the rows of several requests into one, in their order.
func join(batch []*request) []oip.Tensor {
	var rows int64
	for _, r := range batch {
		rows += r.rows
	}
	joined := make([]oip.Tensor, len(batch[0].inputs))
	for i, t := range batch[0].inputs {
		shape := slices.Clone(t.Shape)
		shape[0] = rows
		data := reflect.MakeSlice(reflect.TypeOf(t.Data), 0, int(size(shape)))
		for _, r := range batch {
			data = reflect.AppendSlice(data, reflect.ValueOf(r.inputs[i].Data))
		}
		joined[i] = oip.Tensor{Name: t.Name, Shape: shape, Data: data.Interface()}
	}
	return joined
}

// split gives each request its rows of the outputs.
func split(batch []*request, outputs []oip.Tensor) ([][]oip.Tensor, error) {
	var rows int64
	for _, r := range batch {
		rows += r.rows
	}
	parts := make([][]oip.Tensor, len(batch))
	for _, t := range outputs {
		if len(t.Shape) == 0 || t.Shape[0] != rows {
			return nil, fmt.Errorf("output %q has shape %v for %d rows", t.Name, t.Shape, rows)
		}
		data, each := reflect.ValueOf(t.Data), int(size(t.Shape[1:]))
		from := 0
		for i, r := range batch {
			to := from + int(r.rows)*each
			shape := slices.Clone(t.Shape)
			shape[0] = r.rows
			parts[i] = append(parts[i], oip.Tensor{Name: t.Name, Shape: shape, Data: data.Slice3(from, to, to).Interface()})
			from = to
		}
	}
	return parts, nil
}
