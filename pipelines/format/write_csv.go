package format

import (
	"bufio"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// csvShards is the format of WriteToCsv.
func csvShards(c transform.WriteToCSV) (ShardFormat, error) {
	f := ShardFormat{Ext: ".csv"}
	if c.Columns == nil {
		f.Open = func(w io.Writer, row *columns.Type) (ShardWriter, error) {
			return openCSVShard(w, slices.Sorted(maps.Keys(row.Fields)))
		}
		return f, nil
	}
	if err := checkHeader(c.Columns); err != nil {
		return f, fmt.Errorf("columns: %w", err)
	}
	f.Open = func(w io.Writer, _ *columns.Type) (ShardWriter, error) { return openCSVShard(w, c.Columns) }
	f.Check = func(r rows.Row) error {
		var unknown []string
		for name := range r {
			if !slices.Contains(c.Columns, name) {
				unknown = append(unknown, name)
			}
		}
		if len(unknown) > 0 {
			return rows.Reject("unknown_column", "the row has the field %s, which is not in `columns`", slices.Min(unknown))
		}
		return nil
	}
	return f, nil
}

// csvShard writes a CSV file.
type csvShard struct {
	out     *bufio.Writer
	columns []string
}

func openCSVShard(w io.Writer, columns []string) (ShardWriter, error) {
	s := &csvShard{out: bufio.NewWriter(w), columns: columns}
	s.record(len(columns), func(i int) string { return columns[i] })
	return s, nil
}

func (s *csvShard) Write(r rows.Row) error {
	values := make([]string, len(s.columns))
	for i, name := range s.columns {
		var err error
		if values[i], err = csvText(r[name]); err != nil {
			return err
		}
	}
	s.record(len(values), func(i int) string { return values[i] })
	return nil
}

// record writes one record. Errors are returned by the flush.
func (s *csvShard) record(n int, field func(int) string) {
	for i := range n {
		if i > 0 {
			_ = s.out.WriteByte(',')
		}
		text := field(i)
		if n == 1 && text == "" || strings.ContainsAny(text, ",\"\r\n") || strings.HasPrefix(text, "\uFEFF") {
			text = `"` + strings.ReplaceAll(text, `"`, `""`) + `"` // readers skip empty lines and remove byte order marks
		}
		_, _ = s.out.WriteString(text)
	}
	_ = s.out.WriteByte('\n')
}

func (s *csvShard) Close() error { return s.out.Flush() }

// csvText returns the text of a value.
func csvText(v any) (string, error) {
	switch v := v.(type) {
	case nil:
		return "", nil
	case string:
		return v, nil
	}
	if text, ok := value.Text(v); ok {
		return text, nil
	}
	return jsonText(v)
}
