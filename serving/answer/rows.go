package answer

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/serving/oip"
)

// maxRow bounds one line of a shard.
const maxRow = 16 << 20

// Row is one row of a dataset: values by column.
type Row map[string]json.RawMessage

// ReadRows yields the rows of a dataset's split, <dir>/<split>/*.jsonl, in the order of the shards' names. The rows end after the first
// error.
func ReadRows(dir, split string) iter.Seq2[Row, error] {
	return func(yield func(Row, error) bool) {
		shards, err := shardsOf(dir, split)
		if err != nil {
			yield(nil, err)
			return
		}
		for _, shard := range shards {
			if !readShard(shard, yield) {
				return
			}
		}
	}
}

func shardsOf(dir, split string) ([]string, error) {
	if !filepath.IsLocal(split) {
		return nil, fmt.Errorf("%q is not a valid name for a split", split)
	}
	shards, err := filepath.Glob(filepath.Join(dir, split, "*.jsonl"))
	if err != nil {
		return nil, fmt.Errorf("split %q: %w", split, err)
	}
	if len(shards) > 0 {
		return shards, nil
	}
	if others, err := os.ReadDir(filepath.Join(dir, split)); err == nil && len(others) > 0 {
		return nil, fmt.Errorf("split %q contains %s, but rows must be JSON lines here: write the dataset with WriteToJson", split, others[0].Name())
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("split %q: %w", split, err)
	}
	var splits []string
	for _, e := range entries {
		if e.IsDir() {
			splits = append(splits, e.Name())
		}
	}
	return nil, noSplit(split, splits)
}

func noSplit(split string, splits []string) error {
	if len(splits) == 0 {
		return fmt.Errorf("the dataset has no split %q: a split is a folder with JSON lines", split)
	}
	return fmt.Errorf("the dataset has no split %q; it has: %s", split, strings.Join(splits, ", "))
}

// readShard yields a shard's rows and reports whether to go on.
func readShard(path string, yield func(Row, error) bool) (more bool) {
	name := nameOf(path)
	file, err := os.Open(path)
	if err != nil {
		yield(nil, fmt.Errorf("read the dataset: %w", err))
		return false
	}
	defer func() { _ = file.Close() }() // only read from
	return scan(file, name, yield)
}

// scan yields the rows of a shard of a name and reports whether to go on.
func scan(shard io.Reader, name string, yield func(Row, error) bool) (more bool) {
	lines := bufio.NewScanner(shard)
	lines.Buffer(make([]byte, 0, 64<<10), maxRow+1)
	number := 1
	for ; lines.Scan(); number++ {
		var row Row
		if err := json.Unmarshal(lines.Bytes(), &row); err != nil {
			yield(nil, fmt.Errorf("%s:%d: %w", name, number, err))
			return false
		}
		if !yield(row, nil) {
			return false
		}
	}
	err := lines.Err()
	if errors.Is(err, bufio.ErrTooLong) {
		err = fmt.Errorf("the row is longer than %d bytes", maxRow)
	}
	if err != nil {
		yield(nil, fmt.Errorf("%s:%d: %w", name, number, err))
	}
	return err == nil
}

// RowTensors makes a batch of one from the columns named as the model's inputs. A column holds a value, or an array nested or flat;
// the first dimension of an input is the batch's.
func RowTensors(inputs []oip.TensorMetadata, row Row) ([]oip.Tensor, error) {
	tensors := make([]oip.Tensor, len(inputs))
	for i, in := range inputs {
		value, ok := row[in.Name]
		if !ok {
			return nil, fmt.Errorf("the model needs a column %q; the row has: %s", in.Name, strings.Join(slices.Sorted(maps.Keys(row)), ", "))
		}
		data, n, err := oip.DecodeData(in.Datatype, value)
		if m, ok := errors.AsType[*oip.Misfit](err); ok {
			return nil, fmt.Errorf("column %q contains %s, but the model's input takes %s; %s in the cleaning", in.Name, m.Found(), m.Wanted(), mend(m))
		} else if err != nil {
			return nil, fmt.Errorf("column %q: %w", in.Name, err)
		}
		shape, err := shapeOfOne(in.Shape, int64(n))
		if err != nil {
			return nil, fmt.Errorf("column %q: %w", in.Name, err)
		}
		tensors[i] = oip.Tensor{Name: in.Name, Shape: shape, Data: data}
	}
	return tensors, nil
}

// mend says what a cleaning can do about a value that does not fit.
func mend(m *oip.Misfit) string {
	switch kind, isNumber := m.Kind(), m.Datatype != oip.Bool && m.Datatype != oip.Bytes; {
	case kind == "null":
		return "replace it with a MapToFields, or drop such rows with a Filter,"
	case kind == "object", kind == "list":
		return "take one value out of it with a MapToFields"
	case kind == "boolean" && (m.Datatype == oip.FP32 || m.Datatype == oip.FP64):
		return "make it 1.0 or 0.0 with a MapToFields"
	case kind == "boolean" && isNumber:
		return "make it 1 or 0 with a MapToFields"
	case kind == "number" && isNumber:
		return "round or scale it with a MapToFields, or drop such rows with a Filter,"
	}
	return "convert it with a MapToFields"
}

// shapeOfOne fills the open dimensions of a model's shape for one row of n elements: the first is 1, one other may be found.
func shapeOfOne(shape []int64, n int64) ([]int64, error) {
	out := slices.Clone(shape)
	if len(out) > 0 && out[0] < 0 {
		out[0] = 1
	}
	known, open := int64(1), -1
	for i, d := range out {
		switch {
		case d >= 0:
			known *= d
		case open >= 0:
			return nil, fmt.Errorf("the model's shape %v has two dynamic dimensions besides the batch, which a row cannot fill", shape)
		default:
			open = i
		}
	}
	if open >= 0 && known > 0 && n%known == 0 && n > 0 {
		out[open] = n / known
		known = n
	}
	if known != n {
		return nil, fmt.Errorf("it has %d elements, which do not fit the model's shape %v", n, shape)
	}
	return out, nil
}
