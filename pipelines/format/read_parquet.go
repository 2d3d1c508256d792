package format

import (
	"context"
	"errors"
	"io"

	"github.com/parquet-go/parquet-go"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/rows"
)

func compileReadParquet(c transform.ReadFromParquet) (Reader, error) {
	return Reader{c.Path, parquetFile{}}, nil
}

// parquetFile has rows in columns, and groups of them one after the other. A piece has the groups that begin in it.
type parquetFile struct{}

// cut makes a piece of each group of rows.
func (parquetFile) Cut(ctx context.Context, whole Piece) ([]Piece, error) {
	f, from, err := openParquet(ctx, whole.File)
	if why := (*rows.Rejection)(nil); errors.As(err, &why) {
		return []Piece{whole}, nil // said when it is read
	} else if err != nil {
		return nil, err
	}
	defer from.close()
	pieces := []Piece{whole}
	for i := range f.Metadata().RowGroups {
		last := &pieces[len(pieces)-1]
		if at := groupStart(f, i); i > 0 && at > last.Start && at < whole.End {
			last.End = at
			pieces = append(pieces, Piece{whole.File, at, whole.End})
		}
	}
	return pieces, nil
}

// groupStart is the offset of a group's first page.
func groupStart(f *parquet.File, i int) int64 {
	columns := f.Metadata().RowGroups[i].Columns
	if len(columns) == 0 {
		return 0
	}
	m := columns[0].MetaData
	if m.DictionaryPageOffset > 0 {
		return min(m.DictionaryPageOffset, m.DataPageOffset)
	}
	return m.DataPageOffset
}

func (parquetFile) Read(ctx context.Context, p Piece, yield func(Record) error) error {
	f, from, err := openParquet(ctx, p.File)
	if why := (*rows.Rejection)(nil); errors.As(err, &why) {
		return yield(Record{Rejected: why})
	} else if err != nil {
		return err
	}
	defer from.close()
	root := newParquetNode("", f.Root(), 0, 0)
	if root.columns == 0 {
		return nil
	}
	number := int64(0)
	for i, group := range f.RowGroups() {
		if at := groupStart(f, i); p.whole() || at >= p.Start && at < p.End {
			if err := readGroup(ctx, root, group, number, from, yield); err != nil {
				return err
			}
		}
		number += group.NumRows()
	}
	return nil
}

// parquetBatch is how many rows are taken from the columns at a time.
const parquetBatch = 64

// readGroup reads the rows of a group, of which the first has this number in the file. Where the data is broken the rows that
// are left are rejected as one: how many there are is only what the broken file says.
func readGroup(ctx context.Context, root *parquetNode, group parquet.RowGroup, number int64, from *parquetSource, yield func(Record) error) error {
	list := group.Rows()
	defer list.Close()
	end := number + group.NumRows()
	batch := make([]parquet.Row, parquetBatch)
	for number < end {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := readBatch(list, batch)
		for _, values := range batch[:n] {
			r := Record{Offset: number}
			r.Row, r.Rejected = parquetRow(root, values)
			if why := (*rows.Rejection)(nil); r.Rejected != nil && !errors.As(r.Rejected, &why) {
				return r.Rejected
			}
			if err := yield(r); err != nil {
				return err
			}
			number++
		}
		if n == 0 || err != nil && !errors.Is(err, io.EOF) {
			break
		}
	}
	if number == end || from.err != nil {
		return from.err
	}
	return yield(Record{Offset: number, Rejected: rows.Reject(rows.ReasonDamaged, "the Parquet data is broken: the rows %d to %d cannot be read", number, end-1)})
}

func readBatch(rows parquet.Rows, batch []parquet.Row) (n int, err error) {
	defer recoverDamage(&err)
	return rows.ReadRows(batch)
}

// parquetRow assembles a row of the values of all columns.
func parquetRow(root *parquetNode, values parquet.Row) (r rows.Row, err error) {
	defer recoverDamage(&err)
	columns := make([][]parquet.Value, root.columns)
	values.Range(func(i int, v []parquet.Value) bool {
		columns[i] = v
		return true
	})
	v, err := root.one(columns)
	if err != nil {
		return nil, err
	}
	return v.(map[string]any), nil
}

// remoteBuffer is how much is read of each column of a remote file at a time.
const remoteBuffer = 256 << 10

// parquetSource is what a file is read from. It remembers the error of a disk or a network, which the library takes for one of the file.
type parquetSource struct {
	file  File
	r     io.ReaderAt
	close func()
	err   error
}

// ReadAt implements io.ReaderAt.
func (s *parquetSource) ReadAt(b []byte, at int64) (int, error) {
	if at < 0 { // as a broken file may have it, and neither disk nor network is to blame
		return 0, errors.New("a place before the file")
	}
	n, err := s.file.counting(s.r.ReadAt(b, at))
	if err != nil && !errors.Is(err, io.EOF) && s.err == nil {
		s.err = err
	}
	return n, err
}

// openParquet opens a file. That it is no Parquet file is a rejection.
func openParquet(ctx context.Context, in File) (*parquet.File, *parquetSource, error) {
	r, done, err := in.openAt(ctx)
	if err != nil {
		return nil, nil, err
	}
	options := []parquet.FileOption{parquet.SkipBloomFilters(true)}
	if in.IsObject() { // each read is a request
		options = append(options, parquet.OptimisticRead(true), parquet.SkipPageIndex(true), parquet.ReadBufferSize(remoteBuffer))
	}
	from := &parquetSource{file: in, r: r, close: done}
	f, err := openedParquet(from, in.Size, options...)
	if from.err != nil {
		err = from.err
	}
	if err != nil {
		done()
		return nil, nil, err
	}
	return f, from, nil
}

func openedParquet(r io.ReaderAt, size int64, options ...parquet.FileOption) (f *parquet.File, err error) {
	defer recoverDamage(&err)
	if f, err = parquet.OpenFile(r, size, options...); err != nil {
		return nil, rows.Reject(rows.ReasonDamaged, "this is no whole Parquet file: %v", err)
	}
	return f, nil
}

// recoverDamage makes a rejection of a panic, with which the library meets some broken files.
func recoverDamage(err *error) {
	if p := recover(); p != nil {
		*err = rows.Reject(rows.ReasonDamaged, "the Parquet data is broken: %v", p)
	}
}
