package control

import (
	"cmp"
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/google/cel-go/cel"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/format"
)

// maxColumnFiles bounds the files of which the columns are read to check a pipeline.
const maxColumnFiles = 100

// Columns implements transform.ColumnReader: it reads what the files say of their columns.
func (f *Folder) Columns(reader string, patterns []string) map[string]*cel.Type {
	paths := make([]string, len(patterns))
	for i, pattern := range patterns {
		paths[i] = filepath.Join(f.dir, pattern)
	}
	config, err := json.Marshal(map[string]any{"path": paths})
	if err != nil {
		return nil
	}
	r, err := format.CompileReader(spec.Transform{Type: reader, Config: config})
	typed, ok := r.Format.(format.Typed)
	if err != nil || !ok {
		return nil
	}
	ctx, all := context.Background(), &columns.Type{Kind: columns.Null}
	files, err := format.Find(ctx, paths)
	if err != nil || len(files) > maxColumnFiles {
		return nil
	}
	for _, file := range files {
		t, _, err := typed.Types(ctx, file)
		if err != nil || t == nil {
			return nil // what is wrong with the file is said when it is read
		}
		all = columns.Join(all, t)
	}
	fields := map[string]*cel.Type{}
	for name, t := range all.Fields {
		fields[name] = celType(t)
	}
	return fields
}

// celTypes are the types of columns in expressions, by their kinds; the others can be any value.
var celTypes = map[columns.Kind]*cel.Type{
	columns.Bool: cel.BoolType, columns.Int: cel.IntType, columns.Float: cel.DoubleType, columns.Decimal: value.DecimalType,
	columns.Text: cel.StringType, columns.UUID: cel.StringType, columns.Enum: cel.StringType, columns.Time: cel.StringType,
	columns.Bytes: cel.BytesType, columns.Timestamp: cel.TimestampType, columns.Date: cel.TimestampType,
	columns.Struct: cel.MapType(cel.StringType, cel.DynType),
}

// celType returns the type of a column's values in expressions.
func celType(t *columns.Type) *cel.Type {
	switch {
	case t == nil:
		return cel.DynType
	case t.Kind == columns.List:
		return cel.ListType(celType(t.Items))
	case t.Unsigned && t.Bits == 64:
		return cel.UintType
	}
	return cmp.Or(celTypes[t.Kind], cel.DynType)
}
