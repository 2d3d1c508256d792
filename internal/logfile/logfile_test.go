package logfile_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluiceml/sluice/internal/logfile"
)

const limit = 1 << 20

func open(t *testing.T) (path string, l *logfile.File) {
	t.Helper()
	path = filepath.Join(t.TempDir(), "log")
	l, err := logfile.Open(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return path, l
}

func write(t *testing.T, l *logfile.File, record []byte, times int) {
	t.Helper()
	for range times {
		if _, err := l.Write(record); err != nil {
			t.Fatal(err)
		}
	}
}

func wantSize(t *testing.T, path string, want int64) {
	t.Helper()
	if info, err := os.Stat(path); err != nil || info.Size() != want {
		t.Errorf("%s: %v, %v; want %d bytes", filepath.Base(path), info, err, want)
	}
}

// TestBounded: a log is bounded, what came last is there, and a second process goes on with it.
func TestBounded(t *testing.T) {
	path, l := open(t)
	record := bytes.Repeat([]byte("x"), limit/16)
	write(t, l, record, 2*16+3)
	wantSize(t, path, 3*limit/16)
	wantSize(t, path+".1", limit)
	if err := errors.Join(l.Close(), l.Close()); err != nil {
		t.Fatal(err)
	}
	again, err := logfile.Open(path, limit)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	write(t, again, record, 14)
	wantSize(t, path, limit/16)
}

// TestRemoved: a log that somebody removed is written anew when it is full.
func TestRemoved(t *testing.T) {
	path, l := open(t)
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, l, bytes.Repeat([]byte("x"), limit), 2)
	wantSize(t, path, limit)
}
