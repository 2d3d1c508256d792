package format

import (
	"bufio"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"math/big"
	"time"

	"github.com/hamba/avro/v2"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/rows"
)

func compileReadAvro(c transform.ReadFromAvro) (Reader, error) {
	return Reader{c.Path, avroFile{}}, nil
}

// avroFile has rows in blocks. It is read from its start: where a block begins is not written anywhere.
type avroFile struct{}

func (avroFile) Cut(_ context.Context, whole Piece) ([]Piece, error) { return []Piece{whole}, nil }

func (avroFile) Read(ctx context.Context, p Piece, yield func(Record) error) error {
	file, err := p.File.open(ctx, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	raw := &countedReader{r: file}
	number := int64(0)
	err = readAvro(ctx, bufio.NewReaderSize(raw, lineBuffer), p.File.Name, func(value any, rejected error) error {
		r := Record{Offset: number, Rejected: rejected}
		if rejected == nil {
			r.Row = value.(map[string]any)
		}
		number++
		return yield(r)
	})
	broken := (*damage)(nil)
	switch {
	case raw.err != nil:
		return raw.err
	case errors.As(err, &broken):
		return yield(Record{Offset: number, Rejected: rows.Reject(rows.ReasonDamaged,
			"the Avro data is broken or cut off after %d rows, before byte %d of the file: %v; what would follow is not known", number, raw.n, broken)})
	}
	return err
}

// readAvro calls yield for each row of a file, which is what it holds or a rejection. Its own errors are a damage of the file.
func readAvro(ctx context.Context, r countedBytes, name string, yield func(any, error) error) error {
	c, err := openAvro(r)
	if err != nil {
		return &damage{err.Error()}
	}
	schema, err := avro.ParseBytesWithCache([]byte(c.schema), "", &avro.SchemaCache{})
	if err != nil {
		return &damage{"its schema: " + err.Error()}
	}
	if schema.Type() != avro.Record {
		return fault.Errorf(fault.User, "%s: its schema is a %s; rows must be records", name, schema.Type())
	}
	for {
		count, data, err := c.block()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return &damage{err.Error()}
		}
		values := avro.NewReader(nil, 0, avro.WithReaderConfig(avroConfig)).Reset(data)
		for range count {
			if err := context.Cause(ctx); err != nil {
				return err
			}
			value, err := nextAvro(values, schema)
			if err != nil {
				return &damage{"a record: " + err.Error()}
			}
			if err := yield(avroValue(schema, value)); err != nil {
				return err
			}
		}
	}
}

// avroConfig bounds one text, bytes or list, whose lengths are what the file says.
var avroConfig = avro.Config{MaxByteSliceSize: rows.MaxSize, MaxSliceAllocSize: rows.MaxSize}.Freeze()

// nextAvro decodes the next record of a block.
func nextAvro(r *avro.Reader, s avro.Schema) (value any, err error) {
	defer recoverAvro(&err)
	value = r.ReadNext(s)
	return value, unexpected(r.Error)
}

func recoverAvro(err *error) {
	if p := recover(); p != nil {
		*err = fmt.Errorf("it cannot be decoded: %v", p)
	}
}

// avroValue makes JSON's values of Avro's, by their schema.
func avroValue(s avro.Schema, v any) (any, error) {
	var err error
	switch s := s.(type) {
	case *avro.RefSchema:
		return avroValue(s.Schema(), v)
	case *avro.UnionSchema:
		return avroUnion(s, v)
	case *avro.RecordSchema:
		object, _ := v.(map[string]any)
		for _, f := range s.Fields() {
			if object[f.Name()], err = avroValue(f.Type(), object[f.Name()]); err != nil {
				return nil, err
			}
		}
		return object, nil
	case *avro.MapSchema:
		object, _ := v.(map[string]any)
		for key := range object {
			if object[key], err = avroValue(s.Values(), object[key]); err != nil {
				return nil, err
			}
		}
		return object, nil
	case *avro.ArraySchema:
		list, _ := v.([]any)
		for i := range list {
			if list[i], err = avroValue(s.Items(), list[i]); err != nil {
				return nil, err
			}
		}
		return append([]any{}, list...), nil
	}
	return avroScalar(s, v)
}

// avroUnion takes a value out of what names its type.
func avroUnion(s *avro.UnionSchema, v any) (any, error) {
	if named, ok := v.(map[string]any); ok && len(named) == 1 {
		for name, inner := range named {
			if t, _ := s.Types().Get(name); t != nil {
				return avroValue(t, inner)
			}
		}
	}
	if v == nil {
		return nil, nil
	}
	for _, t := range s.Types() {
		if t.Type() != avro.Null && len(s.Types()) == 2 {
			return avroValue(t, v)
		}
	}
	return avroScalar(nil, v)
}

// avroScalar converts what has no parts.
func avroScalar(s avro.Schema, v any) (any, error) {
	switch v := v.(type) {
	case nil, bool, int64:
		return v, nil
	case int:
		return int64(v), nil
	case int32:
		return int64(v), nil
	case float32:
		return finite(float64(v))
	case float64:
		return finite(v)
	case string:
		if at := firstInvalid([]byte(v)); at < len(v) {
			return nil, rows.Reject(rows.ReasonEncoding, "byte 0x%02x of a text is not valid UTF-8", v[at])
		}
		return v, nil
	case []byte:
		return base64.StdEncoding.EncodeToString(v), nil
	case time.Time:
		if logical := logicalOf(s); logical != nil && logical.Type() == avro.Date {
			return v.UTC().Format(time.DateOnly), nil
		}
		return v.UTC().Format(time.RFC3339Nano), nil
	case time.Duration:
		return v.String(), nil
	case *big.Rat:
		return v.FloatString(scaleOf(s)), nil
	}
	return nil, rows.Reject("not_json", "a %T has no form in a row", v)
}

// logicalOf returns what a schema says of its values' meaning, if it does.
func logicalOf(s avro.Schema) avro.LogicalSchema {
	if l, ok := s.(avro.LogicalTypeSchema); ok {
		return l.Logical()
	}
	return nil
}

func scaleOf(s avro.Schema) int {
	if d, ok := logicalOf(s).(*avro.DecimalLogicalSchema); ok {
		return d.Scale()
	}
	return 0
}
