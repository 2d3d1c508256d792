package format

import (
	"bufio"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// checkTextRow rejects a row that cannot be written as a line of text.
func checkTextRow(r rows.Row) error {
	if len(r) != 1 {
		return fault.Errorf(fault.User, "WriteToText writes rows with one field, but this one has %d: %s; use MapToFields to reduce them to one",
			len(r), rows.Clip(strings.Join(slices.Sorted(maps.Keys(r)), ", "), 200))
	}
	for name, v := range r {
		text, ok := lineOf(v)
		if !ok {
			return rows.Reject("not_text", "the field %s is not a string", name)
		}
		if strings.ContainsAny(text, "\r\n") {
			return rows.Reject("line_end", "the field %s contains a line break, and would become several lines", name)
		}
	}
	return nil
}

// lineOf returns the text of a value that is one, or that has one.
func lineOf(v any) (text string, ok bool) {
	if text, ok = v.(string); ok {
		return text, true
	}
	return value.Text(v)
}

// textShard writes a text file.
type textShard struct{ out *bufio.Writer }

func openTextShard(w io.Writer, _ *columns.Type) (ShardWriter, error) {
	return textShard{bufio.NewWriter(w)}, nil
}

func (s textShard) Write(r rows.Row) error {
	for _, v := range r {
		text, _ := lineOf(v)
		_, _ = s.out.WriteString(text) // the flush returns the error
	}
	return s.out.WriteByte('\n')
}

func (s textShard) Close() error { return s.out.Flush() }

// jsonText returns a value as JSON.
func jsonText(v any) (string, error) {
	text, err := rows.AppendValue(nil, v)
	return string(text), err
}
