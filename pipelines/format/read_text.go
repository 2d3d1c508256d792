package format

import (
	"bytes"
	"context"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

func compileReadText(c transform.ReadFromText) (Reader, error) {
	set, err := compileCharset(c.Encoding, c.OnInvalid)
	return Reader{Paths: c.Path, Format: textLines{textFile{set}}}, err
}

// textLines is a file with one row per line, including empty lines.
type textLines struct{ textFile }

func (f textLines) Cut(ctx context.Context, whole Piece) ([]Piece, error) {
	return f.cutLines(ctx, whole)
}

func (f textLines) Read(ctx context.Context, p Piece, yield func(Record) error) error {
	return f.lines(ctx, p, func(l line) error {
		return yield(l.record(func(text []byte) (rows.Row, error) {
			return rows.Row{"line": string(bytes.TrimSuffix(text, []byte{'\r'}))}, nil
		}))
	})
}
