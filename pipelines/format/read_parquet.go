package format

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/parquet-go/parquet-go"
	"github.com/parquet-go/parquet-go/format"

	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/pipelines/rows"
)

func compileReadParquet(c transform.ReadFromParquet) (Reader, error) {
	return Reader{Paths: c.Path, Format: parquetFile{}}, nil
}

// parquetFile is a Parquet file, which consists of row groups. A piece has the row groups that begin in it.
type parquetFile struct{}

// Cut makes a piece of each row group.
func (parquetFile) Cut(ctx context.Context, whole Piece) ([]Piece, error) {
	f, err := openParquet(ctx, whole.File)
	if why := (*rows.Rejection)(nil); errors.As(err, &why) {
		return []Piece{whole}, nil // reported when the file is read
	} else if err != nil {
		return nil, err
	}
	defer f.from.close()
	pieces := []Piece{whole}
	for i, at := range f.starts {
		last := &pieces[len(pieces)-1]
		if i > 0 && at > last.Start && at < whole.End {
			last.End = at
			pieces = append(pieces, Piece{whole.File, at, whole.End})
		}
	}
	return pieces, nil
}

// Types implements Typed.
func (parquetFile) Types(ctx context.Context, file File) (t *columns.Type, empty bool, err error) {
	f, err := openParquet(ctx, file)
	if why := (*rows.Rejection)(nil); errors.As(err, &why) {
		return nil, false, nil // said when it is read
	} else if err != nil {
		return nil, false, err
	}
	f.from.close()
	n := int64(0)
	for _, group := range f.groups {
		n += group.NumRows()
	}
	return f.root.typ(), n == 0, nil
}

func (parquetFile) Read(ctx context.Context, p Piece, yield func(Record) error) error {
	f, err := openParquet(ctx, p.File)
	if why := (*rows.Rejection)(nil); errors.As(err, &why) {
		return yield(Record{Rejected: why})
	} else if err != nil {
		return err
	}
	defer f.from.close()
	if f.root.columns == 0 {
		return nil
	}
	number := int64(0)
	for i, group := range f.groups {
		if at := f.starts[i]; p.whole() || at >= p.Start && at < p.End {
			why := f.checkPages(i)
			if why == nil {
				err = readGroup(ctx, f, group, number, yield)
			} else {
				err = yield(Record{Offset: number, Lost: group.NumRows(), Rejected: why})
			}
			if err != nil {
				return err
			}
		}
		number += group.NumRows()
	}
	return nil
}

// parquetBatch is how many rows are assembled at a time.
const parquetBatch = 64

// readGroup reads the rows of a row group; number is that of its first row in the file. If the data is corrupt, the remaining rows are
// rejected together, since their number is only what the corrupt file claims.
func readGroup(ctx context.Context, f *openedParquet, group parquet.RowGroup, number int64, yield func(Record) error) error {
	list := parquetRows{group: group}
	defer list.close()
	end := number + group.NumRows()
	batch := make([]parquet.Row, parquetBatch)
	for number < end {
		if err := context.Cause(ctx); err != nil {
			return err
		}
		n, err := list.read(batch)
		for _, values := range batch[:n] {
			r := Record{Offset: number}
			r.Row, r.Rejected = parquetRow(f.root, values)
			r.showRow()
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
	if number == end || f.from.err != nil {
		return f.from.err
	}
	return yield(Record{Offset: number, Lost: end - number, Rejected: rows.Reject(rows.ReasonDamaged, "the Parquet data is corrupt: rows %d to %d cannot be read", number, end-1)})
}

// parquetRows reads the rows of a row group. The library panics on some corrupt files, in any of its methods.
type parquetRows struct {
	group parquet.RowGroup
	rows  parquet.Rows // nil until the first read
}

func (r *parquetRows) read(batch []parquet.Row) (n int, err error) {
	defer recoverDamage(&err)
	if r.rows == nil {
		r.rows = r.group.Rows()
	}
	return r.rows.ReadRows(batch)
}

func (r *parquetRows) close() {
	var err error
	defer recoverDamage(&err)
	if r.rows != nil {
		r.rows.Close()
	}
}

// parquetRow assembles a row from the values of all columns. If it is rejected for values that a row cannot hold, those are null.
func parquetRow(root *parquetNode, values parquet.Row) (r rows.Row, err error) {
	defer recoverDamage(&err)
	columns := make([][]parquet.Value, root.columns)
	values.Range(func(i int, v []parquet.Value) bool {
		columns[i] = v
		return true
	})
	v, err := root.one(columns)
	if u, ok := errors.AsType[*unfit](err); ok {
		slices.Reverse(u.path)
		err = rows.InColumn(u.path, u.why)
	}
	return v.(map[string]any), err
}

// remoteBuffer is the size of the read buffer of each column of a remote file.
const remoteBuffer = 256 << 10

// parquetSource is the file that the library reads. It records errors of the disk or the network, which the library does not distinguish
// from errors in the file.
type parquetSource struct {
	file  File
	r     io.ReaderAt
	close func()
	err   error
}

// ReadAt implements io.ReaderAt.
func (s *parquetSource) ReadAt(b []byte, at int64) (int, error) {
	if at < 0 { // possible in a corrupt file; not an error of the disk or the network
		return 0, errors.New("a place before the file")
	}
	n, err := s.file.counting(s.r.ReadAt(b, at))
	if err != nil && !errors.Is(err, io.EOF) && s.err == nil {
		s.err = err
	}
	return n, err
}

// openedParquet is an open file with its schema and row groups.
type openedParquet struct {
	from   *parquetSource
	root   *parquetNode
	groups []parquet.RowGroup
	starts []int64 // of each group, the offset of its first page
	// columns are the column chunks of each group.
	columns [][]format.ColumnChunk
}

// openParquet opens a file. If it is not a Parquet file, the error is a rejection.
func openParquet(ctx context.Context, in File) (*openedParquet, error) {
	r, done, err := in.openAt(ctx)
	if err != nil {
		return nil, err
	}
	options := []parquet.FileOption{parquet.SkipBloomFilters(true)}
	if in.IsObject() { // each read is a request
		options = append(options, parquet.OptimisticRead(true), parquet.SkipPageIndex(true), parquet.ReadBufferSize(remoteBuffer))
	}
	f := &openedParquet{from: &parquetSource{file: in, r: r, close: done}}
	if err = f.open(in.Size, options...); err != nil {
		head := make([]byte, maxMagic)
		n, _ := f.from.ReadAt(head, 0)
		if by := compressionOf(head[:n]); by != "" {
			err = errPacked(in, "Parquet", by)
		}
	}
	if f.from.err != nil {
		err = f.from.err
	}
	if err != nil {
		done()
		return nil, err
	}
	return f, nil
}

func (f *openedParquet) open(size int64, options ...parquet.FileOption) (err error) {
	defer recoverDamage(&err)
	file, err := parquet.OpenFile(f.from, size, options...)
	if err != nil {
		return rows.Reject(rows.ReasonDamaged, "this is not a complete Parquet file: %v", err)
	}
	if err := repairColumns(file.Root()); err != nil {
		return err
	}
	schema := parquetSchema{elements: file.Metadata().Schema}
	f.root = schema.node("", file.Root(), 0, 0)
	if name := f.root.twice(); name != "" {
		return rows.Reject(rows.ReasonDamaged, "two columns are named %q: rename one of them", name)
	}
	f.groups = file.RowGroups()
	for i := range f.groups {
		at := int64(0)
		if list := file.Metadata().RowGroups[i].Columns; len(list) > 0 {
			at = list[0].MetaData.DataPageOffset
			if first := list[0].MetaData.DictionaryPageOffset; first > 0 {
				at = min(at, first)
			}
		}
		f.starts = append(f.starts, at)
		f.columns = append(f.columns, file.Metadata().RowGroups[i].Columns)
	}
	return nil
}

// recoverDamage turns a panic into a rejection.
func recoverDamage(err *error) {
	if p := recover(); p != nil {
		*err = rows.Reject(rows.ReasonDamaged, "the Parquet data is corrupt: %v", p)
	}
}
