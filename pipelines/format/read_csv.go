package format

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/rows"
)

func compileReadCSV(c transform.ReadFromCSV) (Reader, error) {
	set, err := compileCharset(c.Encoding, c.OnInvalid)
	if err != nil {
		return Reader{}, err
	}
	quote, err := rows.OneOf("quote", c.Quote, "double", "none")
	if err != nil {
		return Reader{}, err
	}
	c.Delimiter = cmp.Or(c.Delimiter, ",")
	if err := transform.CheckDelimiter(c.Delimiter); err != nil {
		return Reader{}, fmt.Errorf("delimiter: %w", err)
	}
	if c.Columns != nil {
		if err := checkHeader(c.Columns); err != nil {
			return Reader{}, fmt.Errorf("columns: %w", err)
		}
	}
	f, err := withTypes(csvFile{textFile{set}, c.Delimiter, quote == "double", c.Columns}, c.TypesKey)
	return Reader{Paths: c.Path, Format: f}, err
}

// csvFile is a CSV file with one row per record; all values are strings.
type csvFile struct {
	textFile
	delimiter string
	quotes    bool
	// columns is nil if the first record of each file names the columns.
	columns []string
}

// Cut divides a file only if quotes have no meaning; otherwise they could hide line breaks.
func (f csvFile) Cut(ctx context.Context, whole Piece) ([]Piece, error) {
	if f.quotes {
		return []Piece{whole}, nil
	}
	return f.cutLines(ctx, whole)
}

func (f csvFile) Read(ctx context.Context, p Piece, yield func(Record) error) error {
	if p.Start == 0 {
		return f.fromStart(ctx, p.File, func(_ *content, lines *lineReader) error {
			records := newCSVReader(lines, f.delimiter, f.quotes)
			columns, damaged, err := f.header(records, p.File.Name)
			if err != nil || damaged.err != nil {
				return errors.Join(err, rejectedHeader(damaged, yield))
			}
			return f.rows(p, records, columns, yield)
		})
	}
	var columns []string
	err := f.fromStart(ctx, p.File, func(_ *content, lines *lineReader) (err error) {
		columns, _, err = f.header(newCSVReader(lines, f.delimiter, f.quotes), p.File.Name)
		return err
	})
	if err != nil {
		return err
	}
	return f.from(ctx, p, func(lines *lineReader) error {
		records := newCSVReader(lines, f.delimiter, f.quotes)
		records.line = math.MinInt64 // unknown
		return f.rows(p, records, columns, yield)
	})
}

// header returns the names of the columns: the declared ones, or the first record. If the file is damaged there, it returns the damaged
// record.
func (f csvFile) header(records *csvReader, name string) (columns []string, damaged csvRecord, err error) {
	if f.columns != nil {
		return f.columns, csvRecord{}, nil
	}
	first, err := records.next()
	var why *rows.Rejection
	switch {
	case errors.Is(err, io.EOF):
		return nil, csvRecord{}, nil
	case err != nil:
		return nil, csvRecord{}, err
	case errors.As(first.err, &why) && why.Reason == rows.ReasonDamaged:
		return nil, first, nil
	}
	for i, name := range first.fields { // pandas leaves the column of its index without a name
		if numbered := fmt.Sprintf("column_%d", i+1); name == "" && !slices.Contains(first.fields, numbered) {
			first.fields[i] = numbered
		}
	}
	if err := errors.Join(first.err, checkHeader(first.fields)); err != nil {
		return nil, csvRecord{}, fault.Errorf(fault.User, "%s: the first record must name the columns, but %w\n"+
			"help: fix the first line of the file, or exclude the file from `path`; for files without a header, set `columns`", name, err)
	}
	return first.fields, csvRecord{}, nil
}

func rejectedHeader(r csvRecord, yield func(Record) error) error {
	if r.err == nil {
		return nil
	}
	return yield(Record{Offset: r.offset, Text: r.text, Rejected: r.err})
}

// checkHeader checks that all columns have names, and that the names are unique.
func checkHeader(columns []string) error {
	for i, name := range columns {
		switch {
		case name == "":
			return fmt.Errorf("column %d has no name", i+1)
		case strings.Contains(name, "\r"):
			return fmt.Errorf("the name %.40q contains a carriage return; lines must end with LF or CRLF", name)
		case slices.Index(columns, name) < i:
			return fmt.Errorf("two columns are named %.100q", name)
		}
	}
	return nil
}

func (f csvFile) rows(p Piece, records *csvReader, columns []string, yield func(Record) error) error {
	for p.whole() || records.lines.at < p.End {
		r, err := records.next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if !p.whole() && r.offset >= p.End { // after empty lines
			return nil
		}
		if r.err == nil && len(r.fields) != len(columns) {
			r.err = rows.Reject("ragged", "%sthe record has %d fields, but there are %d columns", records.where(), len(r.fields), len(columns))
		}
		out := Record{Offset: r.offset, Text: r.text, Rejected: r.err}
		if r.err == nil {
			out.Row = make(rows.Row, len(columns))
			for i, name := range columns {
				out.Row[name] = r.fields[i]
			}
		}
		if err := yield(out); err != nil {
			return err
		}
	}
	return nil
}
