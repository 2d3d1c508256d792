package format

import (
	"context"
	"errors"
	"io"
	"os"
)

// counting adds n to the file's counter and returns its arguments.
func (f File) counting(n int, err error) (int, error) {
	if f.read != nil {
		f.read.Add(int64(n))
	}
	return n, err
}

// openAt opens the file for random access, for formats with a footer. The caller counts the bytes read.
func (f File) openAt(ctx context.Context) (io.ReaderAt, func(), error) {
	if f.IsObject() {
		return objectAt{ctx, f}, func() {}, nil
	}
	file, err := f.openLocal()
	if err != nil {
		return nil, nil, err
	}
	return file, func() { file.Close() }, nil
}

// open opens the file for reading from an offset.
func (f File) open(ctx context.Context, offset int64) (io.ReadCloser, error) {
	if f.IsObject() {
		r, err := f.object(ctx, offset, -1)
		if err != nil {
			return nil, err
		}
		return countedFile{f, r}, nil
	}
	file, err := f.openLocal()
	if err != nil {
		return nil, err
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return countedFile{f, whole{file, f}}, nil
}

// whole is an open file whose end counts only if it is the end of what was listed: a file that is being cut short ends too early.
type whole struct {
	*os.File
	listed File
}

// Read implements io.Reader.
func (w whole) Read(b []byte) (int, error) {
	n, err := w.File.Read(b)
	if errors.Is(err, io.EOF) {
		if changed := w.listed.verify(w.File); changed != nil {
			return n, changed
		}
	}
	return n, err
}

type countedFile struct {
	file File
	io.ReadCloser
}

// Read implements io.Reader.
func (c countedFile) Read(b []byte) (int, error) { return c.file.counting(c.ReadCloser.Read(b)) }
