package format

import (
	"bufio"
	"context"
	"errors"
	"io"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/avro"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

func compileReadAvro(c transform.ReadFromAvro) (Reader, error) {
	return Reader{Paths: c.Path, Format: avroFile{}}, nil
}

// avroFile is an Avro file. It is always read from its start, since the file does not record where its blocks begin.
type avroFile struct{}

func (avroFile) Cut(_ context.Context, whole Piece) ([]Piece, error) { return []Piece{whole}, nil }

// Types implements Typed.
func (avroFile) Types(ctx context.Context, file File) (t *columns.Type, empty bool, err error) {
	r, err := file.open(ctx, 0)
	if err != nil {
		return nil, false, err
	}
	defer r.Close()
	raw := &countedReader{r: r}
	in, err := avro.NewReader(bufio.NewReader(raw))
	if err != nil {
		return nil, false, raw.err // other errors are reported when the file is read
	}
	_, _, err = in.Next()
	return in.Type(), errors.Is(err, io.EOF), raw.err
}

func (avroFile) Read(ctx context.Context, p Piece, yield func(Record) error) error {
	file, err := p.File.open(ctx, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	raw := &countedReader{r: file}
	buffered := bufio.NewReaderSize(raw, lineBuffer)
	if head, _ := buffered.Peek(maxMagic); compressionOf(head) != "" { // an error comes again
		return errPacked(p.File, "Avro", compressionOf(head))
	}
	in, broken := avro.NewReader(buffered)
	if errors.Is(broken, avro.ErrNoRecords) {
		return fault.Errorf(fault.User, "%s: %w", p.File.Name, broken)
	}
	for number := int64(0); ; number++ {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		r := Record{Offset: number}
		if broken == nil {
			r.Row, r.Rejected, broken = in.Next()
			r.showRow()
		}
		switch {
		case raw.err != nil:
			return raw.err
		case errors.Is(broken, io.EOF):
			return nil
		case broken != nil:
			return yield(Record{Offset: number, Rejected: rows.Reject(rows.ReasonDamaged,
				"the Avro data is corrupt or truncated after %d rows, before byte %d of the file: %v; the rest of the file is not read", number, raw.n, broken)})
		}
		if err := yield(r); err != nil {
			return err
		}
	}
}
