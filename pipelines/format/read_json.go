package format

import (
	"bytes"
	"context"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// The formats of ReadFromJson.
const (
	formatLines      = "lines"
	formatDocument   = "document"
	formatDeadLetter = "dead_letter"
)

// CompileReadJSON compiles a ReadFromJson.
func CompileReadJSON(c transform.ReadFromJSON) (Reader, error) {
	format, err := rows.OneOf("format", c.Format, formatLines, formatDocument, formatDeadLetter)
	if err != nil {
		return Reader{}, err
	}
	set, err := compileCharset(c.Encoding, c.OnInvalid)
	if err != nil {
		return Reader{}, err
	}
	decode := rows.Decode
	if len(c.Types) > 0 {
		decode = rows.DecodeExact
	}
	if set.replace {
		decode = rows.Mended(decode)
	}
	var f Format = jsonLines{textFile{set}, decode}
	switch format {
	case formatDocument:
		f = jsonDocument{textFile{set}, decode}
	case formatDeadLetter:
		f = jsonLines{textFile{set}, func(text []byte) (rows.Row, error) { return decodeElement(text, decode) }}
	}
	f, err = withTypes(f, c.TypesKey)
	return Reader{Paths: c.Path, Format: f}, err
}

// jsonLines is a file with one row per line, or an array of rows. Blank lines are skipped.
type jsonLines struct {
	textFile
	decode func([]byte) (rows.Row, error)
}

func (f jsonLines) Cut(ctx context.Context, whole Piece) ([]Piece, error) {
	array := false
	err := f.fromStart(ctx, whole.File, func(_ *content, lines *lineReader) error {
		array = lines.isArray()
		return nil
	})
	if err != nil || array {
		return []Piece{whole}, err
	}
	return f.cutLines(ctx, whole)
}

func (f jsonLines) Read(ctx context.Context, p Piece, yield func(Record) error) error {
	read := f.lines
	if p.whole() {
		read = f.linesOrElements
	}
	return read(ctx, p, func(l line) error {
		if l.err == nil && len(bytes.TrimSpace(l.text)) == 0 {
			return nil
		}
		return yield(l.record(f.decode))
	})
}

// linesOrElements calls yield for each line of a file, or each element of an array.
func (t textFile) linesOrElements(ctx context.Context, p Piece, yield func(line) error) error {
	return t.fromStart(ctx, p.File, func(_ *content, lines *lineReader) error {
		if lines.isArray() {
			return lines.elements(yield)
		}
		return linesOf(p, lines, yield)
	})
}

// decodeElement returns the row in a line of a dead letter. If its element is text, because it was not a valid row, it is decoded again.
func decodeElement(text []byte, decode func([]byte) (rows.Row, error)) (rows.Row, error) {
	r, err := decode(text)
	if err != nil {
		return nil, err
	}
	switch element := r["element"].(type) {
	case map[string]any:
		return element, nil
	case string:
		return decode([]byte(element))
	}
	return nil, rows.Reject("not_dead_letter", "the line has no `element` that is a row or its text")
}

// jsonDocument is a file that is a single row.
type jsonDocument struct {
	textFile
	decode func([]byte) (rows.Row, error)
}

func (jsonDocument) Cut(_ context.Context, whole Piece) ([]Piece, error) { return []Piece{whole}, nil }

func (f jsonDocument) Read(ctx context.Context, p Piece, yield func(Record) error) error {
	l, err := f.document(ctx, p.File)
	if err != nil {
		return err
	}
	return yield(l.record(f.decode))
}
