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
	if set.replace {
		decode = rows.DecodeMended
	}
	switch format {
	case formatDocument:
		return Reader{c.Path, jsonDocument{textFile{set}, decode}}, nil
	case formatDeadLetter:
		return Reader{c.Path, jsonLines{textFile{set}, func(text []byte) (rows.Row, error) { return decodeElement(text, decode) }}}, nil
	}
	return Reader{c.Path, jsonLines{textFile{set}, decode}}, nil
}

// jsonLines is a file with one row per line. Blank lines are skipped.
type jsonLines struct {
	textFile
	decode func([]byte) (rows.Row, error)
}

func (f jsonLines) Cut(ctx context.Context, whole Piece) ([]Piece, error) {
	return f.cutLines(ctx, whole)
}

func (f jsonLines) Read(ctx context.Context, p Piece, yield func(Record) error) error {
	return f.lines(ctx, p, func(l line) error {
		if l.err == nil && len(bytes.TrimSpace(l.text)) == 0 {
			return nil
		}
		return yield(l.record(f.decode))
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
