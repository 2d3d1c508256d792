package compile

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"os"
	"path/filepath"
	"slices"

	"github.com/sluiceml/sluice/compile/trtexec"
	"github.com/sluiceml/sluice/serving/oip"
)

// batch is samples that an engine is run on at once, since each run of trtexec loads the engine anew.
type batch struct {
	first    []oip.Tensor   // inputs of the first sample
	inputs   []oip.Tensor   // of all samples, one behind the other
	expected [][]oip.Tensor // what the source model puts out for each
}

// batches yields the samples that were exported, as many at once as the engine takes and as have the same shape.
func (e *engine) batches() iter.Seq2[*batch, error] {
	limit := max(1, int(e.maxBatch()))
	return func(yield func(*batch, error) bool) {
		var current *batch
		for row, err := range e.samples() {
			if err != nil {
				yield(nil, err)
				return
			}
			if current != nil && (len(current.expected) == limit || !sameShapes(current.first, row.inputs)) {
				if !yield(current, nil) {
					return
				}
				current = nil
			}
			if current == nil {
				current = &batch{first: row.inputs, inputs: slices.Clone(row.inputs), expected: [][]oip.Tensor{row.outputs}}
				continue
			}
			if err := current.add(row); err != nil {
				yield(nil, err)
				return
			}
		}
		if current != nil {
			yield(current, nil)
		}
	}
}

// add puts one more sample behind the others.
func (b *batch) add(row exportedRow) error {
	for i, t := range row.inputs {
		grown, err := oip.Concat(b.inputs[i], t)
		if err != nil {
			return err
		}
		b.inputs[i] = grown
	}
	b.expected = append(b.expected, row.outputs)
	return nil
}

// outputsOf are the outputs of one sample, in the order in which the source model has them.
func (b *batch) outputsOf(outputs []trtexec.Output, row int) ([]oip.Tensor, error) {
	own := make([]oip.Tensor, len(b.expected[row]))
	for i, want := range b.expected[row] {
		at := slices.IndexFunc(outputs, func(o trtexec.Output) bool { return o.Name == want.Name })
		if at < 0 {
			return nil, fmt.Errorf("the engine has no output %q", want.Name)
		}
		found := outputs[at]
		shape, values := slices.Clone(found.Shape), found.Values
		if n := len(b.expected); n > 1 {
			if shape[0] != int64(n) {
				return nil, fmt.Errorf("output %q has the shape %v for %d samples", want.Name, shape, n)
			}
			size := len(values) / n
			shape[0], values = 1, values[row*size:(row+1)*size]
		}
		own[i] = oip.Tensor{Name: want.Name, Shape: shape, Data: values}
	}
	return own, nil
}

func sameShapes(a, b []oip.Tensor) bool {
	return slices.EqualFunc(a, b, func(x, y oip.Tensor) bool { return slices.Equal(x.Shape, y.Shape) })
}

// exportedRow is a sample as the child has written it.
type exportedRow struct{ inputs, outputs []oip.Tensor }

// samples reads what was exported, inputs and outputs side by side.
func (p *part) samples() iter.Seq2[exportedRow, error] {
	return func(yield func(exportedRow, error) bool) {
		in, err := os.Open(filepath.Join(p.dir, inputsFile))
		if err != nil {
			yield(exportedRow{}, err)
			return
		}
		defer in.Close()
		out, err := os.Open(filepath.Join(p.dir, outputsFile))
		if err != nil {
			yield(exportedRow{}, err)
			return
		}
		defer out.Close()
		rows, answers := json.NewDecoder(bufio.NewReader(in)), json.NewDecoder(bufio.NewReader(out))
		for {
			var row exportedRow
			err := rows.Decode(&row.inputs)
			if errors.Is(err, io.EOF) {
				return
			}
			if err == nil {
				err = answers.Decode(&row.outputs)
			}
			if !yield(row, err) || err != nil {
				return
			}
		}
	}
}

// writeRaw writes the elements of a tensor as they are in memory, little endian.
func writeRaw(path string, t oip.Tensor) (err error) {
	file, err := os.Create(path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, file.Close()) }()
	buffer := bufio.NewWriter(file)
	if err := binary.Write(buffer, binary.LittleEndian, t.Data); err != nil {
		return fmt.Errorf("input %q: %w", t.Name, err)
	}
	return buffer.Flush()
}
