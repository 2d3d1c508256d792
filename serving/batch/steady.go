package batch

import (
	"context"
	"errors"
	"reflect"

	"github.com/sluiceml/sluice/serving/oip"
)

// Neighbours is how many other rows Steady is given.
const Neighbours = 7

// Scales are what the floating-point numbers of the other rows are multiplied by, in turn. A model that quantises its inputs takes the scale from
// all rows of an inference, and another client's may be of any size.
var Scales = []float64{0.01, 1, 100}

// Steady reports why a model's answer to a row is not the same alone and among other rows, as alike compares them; nil when it is. Every
// element of rows is the inputs of one row, and they differ in nothing but their values.
func Steady(ctx context.Context, m Model, rows [][]oip.Tensor, at int, alike func(alone, among []oip.Tensor) bool) error {
	batch := make([]*request, len(rows))
	for i, inputs := range rows {
		batch[i] = &request{ctx: ctx, inputs: inputs, rows: rowsOf(inputs)}
		if batch[i].rows == 0 {
			return errors.New("the inputs of a row differ in their first dimension")
		}
	}
	alone, err := guarded(func() ([]oip.Tensor, error) { return m.Run(ctx, rows[at]) })
	if err != nil {
		return err
	}
	all, err := guarded(func() ([]oip.Tensor, error) { return m.Run(ctx, join(batch)) })
	if err != nil {
		return err
	}
	parts, err := split(batch, all)
	if err != nil {
		return err
	}
	if !alike(alone, parts[at]) {
		return errors.New("the answer to a row depends on the other rows")
	}
	return nil
}

// Scaled returns inputs whose floating-point numbers are multiplied. Integers and texts may mean something else, such as words of a vocabulary, and stay.
func Scaled(inputs []oip.Tensor, by float64) []oip.Tensor {
	scaled := make([]oip.Tensor, len(inputs))
	for i, t := range inputs {
		data := reflect.ValueOf(t.Data)
		if by != 1 && (t.Datatype() == oip.FP32 || t.Datatype() == oip.FP64) {
			data = reflect.AppendSlice(reflect.MakeSlice(data.Type(), 0, data.Len()), data)
			for j := range data.Len() {
				data.Index(j).SetFloat(data.Index(j).Float() * by)
			}
		}
		scaled[i] = oip.Tensor{Name: t.Name, Shape: t.Shape, Data: data.Interface()}
	}
	return scaled
}
