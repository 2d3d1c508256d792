package format

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/rows"
)

// textFile has what the text formats have in common: decompression, encoding and lines.
type textFile struct {
	charset charset
}

// cutLines divides a text into pieces of at most UnitSize, unless it can only be read from its start.
func (t textFile) cutLines(ctx context.Context, whole Piece) ([]Piece, error) {
	apart := false
	err := t.fromStart(ctx, whole.File, func(c *content, lines *lineReader) error {
		apart = c.compression == "" && lines.charset == t.charset && t.charset.width == 1
		return nil
	})
	if err != nil || !apart {
		return []Piece{whole}, err
	}
	var pieces []Piece
	for start := int64(0); start < whole.End; start += UnitSize {
		p := whole
		p.Start, p.End = start, min(start+UnitSize, whole.End)
		pieces = append(pieces, p)
	}
	return pieces, nil
}

// lines calls yield for each line that starts in a piece.
func (t textFile) lines(ctx context.Context, p Piece, yield func(line) error) error {
	if p.Start == 0 {
		return t.fromStart(ctx, p.File, func(_ *content, lines *lineReader) error { return linesOf(p, lines, yield) })
	}
	return t.from(ctx, p, func(lines *lineReader) error { return linesOf(p, lines, yield) })
}

// from passes the lines of a piece that is not the first of its file to read.
func (t textFile) from(ctx context.Context, p Piece, read func(*lineReader) error) error {
	// A line that starts before the piece belongs to the previous piece; it ends at the first LF from Start-1 on.
	raw, err := p.File.open(ctx, p.Start-1)
	if err != nil {
		return err
	}
	defer raw.Close()
	lines := &lineReader{charset: t.charset, r: bufio.NewReaderSize(raw, lineBuffer), at: p.Start - 1}
	if err := lines.skip(p.End); err != nil && !errors.Is(err, io.EOF) {
		return err
	}
	return read(lines)
}

func linesOf(p Piece, lines *lineReader, yield func(line) error) error {
	for p.whole() || lines.at < p.End {
		l, err := lines.next()
		if errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err
		}
		if err := yield(l); err != nil {
			return err
		}
	}
	return nil
}

// fromStart opens a file and passes its lines, from the first, to read.
func (t textFile) fromStart(ctx context.Context, f File, read func(*content, *lineReader) error) error {
	raw, err := f.open(ctx, 0)
	if err != nil {
		return err
	}
	defer raw.Close()
	c, err := openContent(raw)
	if kind, archive := errors.AsType[errArchive](err); archive {
		return fault.Errorf(fault.User, "%s: %w", f.Name, kind)
	}
	if err != nil {
		return err
	}
	defer c.close()
	lines, err := newLineReader(c, t.charset)
	if err != nil {
		return err
	}
	return read(c, lines)
}

// document returns the whole text of a file as one line.
func (t textFile) document(ctx context.Context, f File) (line, error) {
	var l line
	err := t.fromStart(ctx, f, func(_ *content, lines *lineReader) error {
		start := lines.at
		raw, err := io.ReadAll(io.LimitReader(lines.r, rows.MaxSize+1))
		damaged := (*damage)(nil)
		switch {
		case errors.As(err, &damaged):
			text, _ := lines.charset.decode(raw, start)
			l = line{start, text, rows.Reject(rows.ReasonDamaged, "%s", damaged)}
			return nil
		case err != nil:
			return err
		case len(raw) > rows.MaxSize:
			text, _ := lines.charset.decode(raw[:rows.MaxText+4], start)
			l = line{start, text, rows.TooLong(raw)}
			return nil
		}
		text, err := lines.charset.decode(raw, start)
		l = line{start, text, err}
		return nil
	})
	return l, err
}

// record decodes the row in a line.
func (l line) record(decode func([]byte) (rows.Row, error)) Record {
	if l.err != nil {
		return Record{Offset: l.offset, Text: l.text, Rejected: l.err}
	}
	r, err := decode(l.text)
	return Record{Offset: l.offset, Row: r, Text: l.text, Rejected: err}
}
