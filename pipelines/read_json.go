package pipelines

import (
	"bytes"
	"context"

	"github.com/sluiceml/sluice/dsl"
)

// The formats of ReadFromJson.
const (
	formatLines    = "lines"
	formatDocument = "document"
)

func compileReadJSON(c dsl.ReadFromJSON) (reader, error) {
	format, err := oneOf("format", c.Format, formatLines, formatDocument)
	if err != nil {
		return reader{}, err
	}
	set, err := compileCharset(c.Encoding, c.OnInvalid)
	if err != nil {
		return reader{}, err
	}
	if format == formatDocument {
		return reader{c.Path, jsonDocument{textFile{set}}}, nil
	}
	return reader{c.Path, jsonLines{textFile{set}}}, nil
}

// jsonLines has a row a line. Blank lines are none.
type jsonLines struct{ textFile }

func (f jsonLines) cut(ctx context.Context, whole piece) ([]piece, error) {
	return f.cutLines(ctx, whole)
}

func (f jsonLines) read(ctx context.Context, p piece, yield func(record) error) error {
	return f.lines(ctx, p, func(l line) error {
		if l.err == nil && len(bytes.TrimSpace(l.text)) == 0 {
			return nil
		}
		return yield(l.record(decodeRow))
	})
}

// jsonDocument is one row.
type jsonDocument struct{ textFile }

func (jsonDocument) cut(_ context.Context, whole piece) ([]piece, error) { return []piece{whole}, nil }

func (f jsonDocument) read(ctx context.Context, p piece, yield func(record) error) error {
	l, err := f.document(ctx, p.File)
	if err != nil {
		return err
	}
	return yield(l.record(decodeRow))
}
