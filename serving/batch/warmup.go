package batch

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"time"

	"github.com/sluiceml/sluice/serving/answer"
	"github.com/sluiceml/sluice/serving/oip"
)

// probed is how many made-up rows show whether the model's answers are those of its rows.
const probed = 3

// tolerance of the difference between a row's answer alone and among others, as a share of the largest number in the output: of a model whose
// answers are known, or accepted, to depend a little on other rows, and of one of which nothing is known.
const (
	tolerance       = 0.02
	strictTolerance = 1e-3
)

// WarmUp runs the sizes that the model will run once, with made-up inputs, and finds out whether requests may be joined: only for a model
// whose inputs and outputs all have an open first dimension, along which rows do not depend on each other. It returns why requests are
// not joined, nil when they are, and ctx's cause when that ends meanwhile. It is called once, before Infer.
func (b *Batcher) WarmUp(ctx context.Context) error {
	if b.opts.MaxBatch == 1 {
		return nil
	}
	if err := openRows(b.model); err != nil {
		return err
	}
	chance := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // what is found out of a model is so at each start
	if err := b.probe(ctx, chance); err != nil {
		return err
	}
	for _, rows := range b.sizes() {
		inputs, err := madeUp(b.model.Inputs(), rows, chance)
		if err != nil {
			return err
		}
		began := time.Now()
		if _, err := guarded(func() ([]oip.Tensor, error) { return b.model.Run(ctx, inputs) }); err != nil {
			return fmt.Errorf("a batch of %d rows: %w", rows, err)
		}
		if rows == 1 {
			b.usual = time.Since(began)
		}
	}
	b.joins = true
	return nil
}

// sizes are 1 and the preferred ones; without those, the powers of two up to the largest, and that.
func (b *Batcher) sizes() []int {
	sizes := []int{1}
	if len(b.opts.Preferred) > 0 {
		sizes = append(sizes, b.opts.Preferred...)
	} else {
		for size := 2; size < b.opts.MaxBatch; size *= 2 {
			sizes = append(sizes, size)
		}
		sizes = append(sizes, b.opts.MaxBatch)
	}
	slices.Sort(sizes)
	return slices.Compact(sizes)
}

// openRows reports why requests cannot be joined by what the model says of itself.
func openRows(model Model) error {
	if len(model.Inputs()) == 0 {
		return errors.New("the model does not describe its inputs")
	}
	for _, t := range slices.Concat(model.Inputs(), model.Outputs()) {
		if len(t.Shape) == 0 || t.Shape[0] != -1 {
			return fmt.Errorf("%q has shape %v, whose first dimension is not open", t.Name, t.Shape)
		}
	}
	return nil
}

// probe compares the answers to a few rows among others with those to each of them alone. The first dimension may be something else, such as
// the words of one text; joined requests would then get each other's answers. Of a model of which nothing is known, the others have values of
// other sizes: one that quantises its inputs takes the scale from all rows.
func (b *Batcher) probe(ctx context.Context, chance *rand.Rand) error {
	scales, apart := Scales, strictTolerance
	if b.opts.Trusted {
		scales, apart = []float64{1}, tolerance
	}
	for range probed {
		rows := make([][]oip.Tensor, 1+Neighbours)
		for i := range rows {
			inputs, err := madeUp(b.model.Inputs(), 1, chance)
			if err != nil {
				return err
			}
			rows[i] = inputs
			if i > 0 {
				rows[i] = Scaled(inputs, scales[i%len(scales)])
			}
		}
		alike := func(alone, among []oip.Tensor) bool { return answer.Near(alone, among, apart) }
		if err := Steady(ctx, b.model, rows, 0, alike); err != nil {
			return fmt.Errorf("with made-up rows: %w", err)
		}
	}
	return nil
}

// madeUp makes inputs of so many rows, with every other open dimension 1.
func madeUp(described []oip.TensorMetadata, rows int, chance *rand.Rand) ([]oip.Tensor, error) {
	inputs := make([]oip.Tensor, len(described))
	for i, meta := range described {
		meta.Shape = slices.Clone(meta.Shape)
		meta.Shape[0] = int64(rows)
		t, err := oip.Zero(meta)
		if err != nil {
			return nil, err
		}
		fill(reflect.ValueOf(t.Data), chance)
		inputs[i] = t
	}
	return inputs, nil
}

// fill sets the elements of a slice by chance: numbers around 0, small integers, words. A type of its own on 16 bits is a float, and gets
// numbers below 2 in either format.
func fill(data reflect.Value, chance *rand.Rand) {
	for i := range data.Len() {
		switch v := data.Index(i); {
		case v.CanFloat():
			v.SetFloat(chance.NormFloat64())
		case v.CanInt():
			v.SetInt(chance.Int64N(2))
		case v.Kind() == reflect.Uint16 && v.Type() != reflect.TypeFor[uint16]():
			v.SetUint(0x3c00 + chance.Uint64N(0x400))
		case v.CanUint():
			v.SetUint(chance.Uint64N(2))
		case v.Kind() == reflect.Bool:
			v.SetBool(chance.IntN(2) == 1)
		case v.Kind() == reflect.String:
			v.SetString([]string{"", "one", "two words"}[chance.IntN(3)])
		}
	}
}
