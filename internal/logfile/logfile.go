// Package logfile is a log that is bounded: a file that is renamed when it is full.
package logfile

import (
	"errors"
	"io/fs"
	"os"
	"sync"
)

// File is a log. What was written before the last limit bytes or fewer is kept once, in path + ".1".
type File struct {
	path  string
	limit int64

	mu   sync.Mutex
	file *os.File
	size int64
}

// Open opens a log of at most limit bytes, to append to what is there.
func Open(path string, limit int64) (*File, error) {
	f := &File{path: path, limit: limit}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) open() error {
	file, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		return errors.Join(err, file.Close())
	}
	f.file, f.size = file, info.Size()
	return nil
}

// Path is that of what is written now.
func (f *File) Path() string { return f.path }

// Write appends p, which is not divided.
func (f *File) Write(p []byte) (int, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.size > 0 && f.size+int64(len(p)) > f.limit {
		if err := os.Rename(f.path, f.path+".1"); err != nil && !errors.Is(err, fs.ErrNotExist) { // it may have been removed
			return 0, err
		}
		f.file.Close()
		if err := f.open(); err != nil {
			return 0, err
		}
	}
	n, err := f.file.Write(p)
	f.size += int64(n)
	return n, err
}

// Close ends the log. It may be called twice.
func (f *File) Close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.file.Close(); err != nil && !errors.Is(err, fs.ErrClosed) {
		return err
	}
	return nil
}
