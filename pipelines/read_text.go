package pipelines

import (
	"bytes"
	"context"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/pipelines/rows"
)

func compileReadText(c dsl.ReadFromText) (reader, error) {
	set, err := compileCharset(c.Encoding, c.OnInvalid)
	return reader{c.Path, textLines{textFile{set}}}, err
}

// textLines has a row a line, also for an empty one.
type textLines struct{ textFile }

func (f textLines) Cut(ctx context.Context, whole piece) ([]piece, error) {
	return f.cutLines(ctx, whole)
}

func (f textLines) Read(ctx context.Context, p piece, yield func(record) error) error {
	return f.lines(ctx, p, func(l line) error {
		return yield(l.record(func(text []byte) (rows.Row, error) {
			return rows.Row{"text": string(bytes.TrimSuffix(text, []byte{'\r'}))}, nil
		}))
	})
}
