package format

import (
	"errors"
	"fmt"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/sluiceml/sluice/pipelines/rows"
)

// groupBytes is how much JSON makes a group of rows. It is fixed: the file must depend on the rows alone. Writing holds one group.
const groupBytes = 32 << 20

// parquetShard writes rows in columns. Each column is one leaf of the schema.
type parquetShard struct {
	out     *parquet.GenericWriter[any]
	columns []parquetColumn
	row     parquet.Row
	size    int // of the group so far
}

type parquetColumn struct {
	name  string
	shape *shape
}

func openParquetShard(w io.Writer, columns Shapes) (ShardWriter, error) {
	s := &parquetShard{}
	group := parquet.Group{}
	for _, name := range columns.names() { // the library has the fields of a group in this order too
		s.columns = append(s.columns, parquetColumn{name, columns[name]})
		group[name] = parquet.Optional(parquetNodeOf(columns[name]))
	}
	config, err := parquet.NewWriterConfig(
		parquet.NewSchema("row", group), parquet.Compression(&parquet.Zstd), parquet.CreatedBy("sluice", "1", ""),
		parquet.DataPageStatistics(true),
	)
	if err != nil {
		return nil, err
	}
	s.out = parquet.NewGenericWriter[any](w, config)
	return s, nil
}

// parquetNodeOf returns the type of a column's values that are not null.
func parquetNodeOf(s *shape) parquet.Node {
	switch s.storage() {
	case storeBool:
		return parquet.Leaf(parquet.BooleanType)
	case storeInt:
		return parquet.Int(64)
	case storeDouble:
		return parquet.Leaf(parquet.DoubleType)
	case storeText:
		return parquet.String()
	case storeList:
		return parquet.List(parquet.Optional(parquetNodeOf(s.Items)))
	case storeJSON:
	}
	return parquet.JSON()
}

func (s *parquetShard) Write(r rows.Row) (err error) {
	if len(s.columns) == 0 {
		return errors.New("the rows have no fields: a Parquet file cannot tell how many there are")
	}
	s.row = s.row[:0]
	for i, c := range s.columns {
		p := parquetCell{shard: s, column: i}
		if err := p.add(r[c.name], c.shape, 0, 0, 0); err != nil {
			return fmt.Errorf("the column %s: %w", c.name, err)
		}
	}
	if _, err := s.out.WriteRows([]parquet.Row{s.row}); err != nil {
		return err
	}
	if s.size < groupBytes {
		return nil
	}
	s.size = 0
	return s.out.Flush()
}

func (s *parquetShard) Close() error { return s.out.Close() }

// parquetCell adds the values of one column to the row.
type parquetCell struct {
	shard  *parquetShard
	column int
}

// add adds a value. The levels say where in its lists a value stands (repetition) and how much of its path is there (definition);
// depth is how many lists it is in.
func (p parquetCell) add(v any, as *shape, repetition, definition, depth int) error {
	if v == nil {
		p.emit(parquet.NullValue(), repetition, definition)
		return nil
	}
	definition++
	if as.storage() != storeList {
		value, err := p.scalar(v, as)
		if err == nil {
			p.emit(value, repetition, definition)
		}
		return err
	}
	items, ok := v.([]any)
	if !ok {
		return fmt.Errorf("a %T stands where lists were seen", v)
	}
	if len(items) == 0 {
		p.emit(parquet.NullValue(), repetition, definition)
	}
	for i, item := range items {
		if i > 0 {
			repetition = depth + 1
		}
		if err := p.add(item, as.Items, repetition, definition+1, depth+1); err != nil {
			return err
		}
	}
	return nil
}

func (p parquetCell) emit(v parquet.Value, repetition, definition int) {
	p.shard.size += 8
	if v.Kind() == parquet.ByteArray {
		p.shard.size += len(v.ByteArray())
	}
	p.shard.row = append(p.shard.row, v.Level(repetition, definition, p.column))
}

// scalar converts a value to its column's type.
func (p parquetCell) scalar(v any, as *shape) (parquet.Value, error) {
	switch as.storage() {
	case storeBool:
		if v, ok := v.(bool); ok {
			return parquet.BooleanValue(v), nil
		}
	case storeInt:
		if v, ok := v.(int64); ok {
			return parquet.Int64Value(v), nil
		}
	case storeDouble:
		switch v := v.(type) {
		case int64:
			return parquet.DoubleValue(float64(v)), nil
		case float64:
			return parquet.DoubleValue(v), nil
		}
	case storeText:
		if v, ok := v.(string); ok {
			return parquet.ByteArrayValue([]byte(v)), nil
		}
	case storeJSON:
		text, err := jsonText(v)
		return parquet.ByteArrayValue([]byte(text)), err
	case storeList:
	}
	return parquet.Value{}, fmt.Errorf("a %T stands where there was none when the columns were looked at", v)
}
