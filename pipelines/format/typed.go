package format

import (
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// typedFile is a file without types whose columns are given some.
type typedFile struct {
	Format
	types map[string]transform.ColumnType
}

// withTypes gives columns of a format their types.
func withTypes(f Format, config transform.TypesKey) (Format, error) {
	if len(config.Types) == 0 {
		return f, nil
	}
	types := map[string]transform.ColumnType{}
	for name, text := range config.Types {
		t, err := transform.ParseColumnType(text)
		if err != nil {
			return nil, err
		}
		types[name] = t
	}
	return typedFile{f, types}, nil
}

// Types implements Typed. The types of other columns are derived from their values.
func (f typedFile) Types(context.Context, File) (t *columns.Type, empty bool, err error) {
	t = &columns.Type{Kind: columns.Struct}
	for name, of := range f.types {
		t.With(name, stored(of))
	}
	return t, false, nil
}

// storedAs are the types with which columns are written to files, but for decimals and for times, whose unit depends on the values.
var storedAs = map[string]columns.Type{
	"bool": {Kind: columns.Bool}, "int": {Kind: columns.Int, Bits: 64}, "uint": {Kind: columns.Int, Bits: 64, Unsigned: true},
	"double": {Kind: columns.Float, Bits: 64}, "date": {Kind: columns.Date}, "bytes": {Kind: columns.Bytes},
	"string": {Kind: columns.Text}, "duration": {Kind: columns.Text},
}

// stored returns the type with which columns of a type are written to files; nil if it depends on the values.
func stored(t transform.ColumnType) *columns.Type {
	if of, ok := storedAs[t.Name]; ok {
		return &of
	}
	return columns.NewDecimal(t.Precision, t.Scale)
}

// Read implements Format. Columns in the names of folders get their types too.
func (f typedFile) Read(ctx context.Context, p Piece, yield func(Record) error) error {
	_, csv := f.Format.(csvFile)
	names := slices.Sorted(maps.Keys(f.types))
	return f.Format.Read(ctx, p, func(r Record) error {
		if r.Rejected != nil {
			return yield(r)
		}
		typed := make(rows.Row, len(r.Row))
		for name, v := range r.Row {
			if _, ok := f.types[name]; !ok {
				typed[name] = inexact(v)
			}
		}
		for _, name := range names {
			v, ok := r.Row[name]
			if !ok {
				at := slices.IndexFunc(p.File.Partitions, func(p Partition) bool { return p.Name == name })
				if at < 0 {
					continue
				}
				v = p.File.Partitions[at].text()
			}
			of := f.types[name]
			if v == "" && csv && of.Name != "string" {
				v = nil
			}
			if typed[name], ok = typedAs(of, v); !ok {
				r.Row, r.Rejected = nil, rows.Reject("type", "the field %s is not of the type %s: %.100q", name, of, r.Text)
				return yield(r)
			}
		}
		r.Row = typed
		return yield(r)
	})
}

// inexact replaces the decimals that an exact decoder has made of numbers by doubles.
func inexact(v any) any {
	switch v := v.(type) {
	case value.Decimal:
		return v.Float()
	case []any:
		for i := range v {
			v[i] = inexact(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = inexact(v[name])
		}
	}
	return v
}

// kinds are those of the types whose values JSON has no form for.
var kinds = map[string]value.Kind{
	"date": value.OfDate, "timestamp": value.OfInstant, "local_timestamp": value.OfLocal, "duration": value.OfDuration, "bytes": value.OfBytes,
}

// typedAs returns a value of JSON or a text as a type. ok is false if it is not one exactly.
func typedAs(t transform.ColumnType, v any) (_ any, ok bool) {
	text, isText := v.(string)
	if v == nil {
		return nil, true
	}
	var err error
	switch t.Name {
	case "string":
		return text, isText
	case "bool":
		if isText {
			v, err = strconv.ParseBool(strings.ToLower(text))
			return v, err == nil && len(text) > 1
		}
		_, ok = v.(bool)
		return v, ok
	case "date", "timestamp", "local_timestamp", "duration", "bytes":
		if k := kinds[t.Name]; k == value.OfInstant || k == value.OfLocal {
			text = withT(text)
		}
		v, err = value.Parse(kinds[t.Name], text)
		return v, isText && err == nil
	case "double":
		switch v := v.(type) {
		case int64:
			return float64(v), true
		case value.Decimal:
			f := v.Float()
			return f, value.Finite(f) && (f != 0 || v.Unscaled().Sign() == 0)
		}
		f, err := strconv.ParseFloat(text, 64)
		digits, _, _ := strings.Cut(strings.ToLower(text), "e")
		lost := f == 0 && strings.ContainsAny(digits, "123456789")
		return f, isText && err == nil && !lost && !strings.ContainsAny(text, "_xXpP")
	}
	return typedNumber(t, v)
}

// withT puts a T between date and time, where many programs write a space.
func withT(text string) string {
	if len(text) > 10 && text[10] == ' ' {
		return text[:10] + "T" + text[11:]
	}
	return text
}

// typedNumber is typedAs for exact numbers.
func typedNumber(t transform.ColumnType, v any) (_ any, ok bool) {
	d, ok := value.Exact(v)
	if text, isText := v.(string); isText {
		var err error
		d, err = value.ParseDecimal(text)
		ok = err == nil
	}
	if !ok {
		return nil, false
	}
	if d, ok = d.Rescale(t.Scale); !ok {
		return nil, false
	}
	n := d.Unscaled()
	switch t.Name {
	case "int":
		return n.Int64(), n.IsInt64()
	case "uint":
		return n.Uint64(), n.IsUint64()
	}
	return d, d.Digits() <= t.Precision
}
