package access

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// sink is written to by a log while a test reads it. A write waits for blocked, if that is set, and then fails with err.
type sink struct {
	mu      sync.Mutex
	content bytes.Buffer
	err     error
	room    int // bytes that are taken before err
	blocked chan struct{}
}

func (s *sink) Write(p []byte) (int, error) {
	if s.blocked != nil {
		<-s.blocked
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.err != nil {
		n, _ := s.content.Write(p[:min(s.room, len(p))]) // a Buffer takes all
		s.room -= n
		return n, s.err
	}
	return s.content.Write(p)
}

// set has what is written next fail with err after so many bytes, or not when that is nil.
func (s *sink) set(err error, room int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.err, s.room = err, room
}

// paths are those of the lines that were written.
func (s *sink) paths(t *testing.T) []string {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	var paths []string
	for line := range strings.Lines(s.content.String()) {
		var e Entry
		if err := json.Unmarshal([]byte(line), &e); err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		paths = append(paths, e.Path)
	}
	return paths
}

// inTime runs a test of a log by a clock of its own.
func inTime(t *testing.T, to *sink, size int, test func(t *testing.T, l *Log)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		if to.blocked != nil {
			to.blocked = make(chan struct{}) // one of the bubble's
		}
		l := start(to, slog.New(slog.DiscardHandler), size)
		test(t, l)
		l.Close()
	})
}

func TestLinesAreWrittenWithinASecond(t *testing.T) {
	to := &sink{}
	inTime(t, to, queueSize, func(t *testing.T, l *Log) {
		l.Add(Entry{Path: "/a"})
		l.Add(Entry{Path: "/b"})
		time.Sleep(time.Second)
		if diff := cmp.Diff([]string{"/a", "/b"}, to.paths(t)); diff != "" {
			t.Errorf("after a second (-want +got):\n%s", diff)
		}
		l.Add(Entry{Path: "/c"})
		l.Close()
		if diff := cmp.Diff([]string{"/a", "/b", "/c"}, to.paths(t)); diff != "" {
			t.Errorf("after the end (-want +got):\n%s", diff)
		}
	})
}

// A writer that takes nothing keeps nobody waiting, neither requests nor the end of the process.
func TestAFullQueue(t *testing.T) {
	to := &sink{blocked: make(chan struct{})}
	inTime(t, to, 2, func(t *testing.T, l *Log) {
		l.Add(Entry{Path: "/written"})
		synctest.Wait()
		time.Sleep(flushEvery) // the write blocks
		synctest.Wait()
		began := time.Now()
		for i := range 5 {
			l.Add(Entry{Path: fmt.Sprint("/", i)})
		}
		if took := time.Since(began); took != 0 || l.Lost() != 3 {
			t.Errorf("5 lines took %v, and %d are lost, want 3", took, l.Lost())
		}
		l.Close()
		if took := time.Since(began); took != closeTimeout {
			t.Errorf("the end took %v, want %v", took, closeTimeout)
		}
		close(to.blocked)
		<-l.ended
		if diff := cmp.Diff([]string{"/written", "/0", "/1"}, to.paths(t)); diff != "" {
			t.Errorf("once they are taken (-want +got):\n%s", diff)
		}
	})
}

func TestLinesThatCannotBeWrittenAreCounted(t *testing.T) {
	to := &sink{err: errors.New("no space left on device")}
	inTime(t, to, queueSize, func(t *testing.T, l *Log) {
		var said bytes.Buffer
		l.log = slog.New(slog.NewTextHandler(&said, nil))
		for range 3 {
			l.Add(Entry{Path: "/lost"})
			time.Sleep(time.Second)
		}
		to.set(nil, 0)
		l.Add(Entry{Path: "/written"})
		time.Sleep(time.Second)
		synctest.Wait()
		if diff := cmp.Diff([]string{"/written"}, to.paths(t)); diff != "" || l.Lost() != 3 {
			t.Errorf("%d are lost, want 3 (-want +got):\n%s", l.Lost(), diff)
		}
		if n := strings.Count(said.String(), "no space left on device"); n != 1 || !strings.Contains(said.String(), "written again") {
			t.Errorf("the process's log says %q, want the error once, and its end", said.String())
		}
	})
}

// A disk that gets full takes a part of the last lines. Those that it has whole are not lost, and what comes when it has room again is no
// part of a torn one.
func TestTornLines(t *testing.T) {
	var line bytes.Buffer
	if err := json.NewEncoder(&line).Encode(Entry{Path: "/0"}); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		room int
		want string // the path of each line
		lost int64
	}{
		{0, "/2", 3},
		{10, "torn /2", 3},
		{line.Len() - 1, "/0 /2", 3}, // counted, though its end comes later
		{line.Len(), "/0 /2", 2},
		{line.Len() + 10, "/0 torn /2", 2},
		{2 * line.Len(), "/0 /0 /2", 1},
	} {
		to := &sink{}
		inTime(t, to, queueSize, func(t *testing.T, l *Log) {
			to.set(errors.New("no space left on device"), tc.room)
			l.Add(Entry{Path: "/0"})
			l.Add(Entry{Path: "/0"})
			time.Sleep(time.Second)
			to.set(errors.New("no space left on device"), 0)
			l.Add(Entry{Path: "/1"})
			time.Sleep(time.Second)
			to.set(nil, 0)
			l.Add(Entry{Path: "/2"})
			time.Sleep(time.Second)
			synctest.Wait()
			var got []string
			for line := range strings.Lines(to.content.String()) {
				var e Entry
				if json.Unmarshal([]byte(line), &e) != nil {
					e.Path = "torn"
				}
				got = append(got, e.Path)
			}
			if diff := cmp.Diff(tc.want, strings.Join(got, " ")); diff != "" || l.Lost() != tc.lost {
				t.Errorf("with room for %d bytes %d lines are lost, want %d (-want +got):\n%s", tc.room, l.Lost(), tc.lost, diff)
			}
		})
	}
}

func TestRotation(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "access.log")
	f := &file{path: path}
	if err := f.open(); err != nil {
		t.Fatal(err)
	}
	defer f.close()
	for i, before := range []func() error{
		func() error { return nil },
		func() error { return os.Rename(path, path+".1") },
		func() error { return os.Remove(path) },
		func() error { return nil },
		func() error { return os.Truncate(path, 0) },
	} {
		if err := before(); err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Fprintf(f, "%d\n", i); err != nil {
			t.Fatal(err)
		}
		if i == 3 {
			wantFile(t, path, "2\n3\n")
		}
	}
	wantFile(t, path, "4\n") // without a hole where the end was
	wantFile(t, path+".1", "0\n")
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte("lost\n")); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("without the folder: %v", err)
	}
}

func wantFile(t *testing.T, path, want string) {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := os.ReadFile(path); err != nil || string(got) != want || info.Mode().Perm()&0o007 != 0 {
		t.Errorf("%s has %q, %v, with mode %v, want %q", filepath.Base(path), got, err, info.Mode(), want)
	}
}

func TestOpen(t *testing.T) {
	log := slog.New(slog.DiscardHandler)
	path := filepath.Join(t.TempDir(), "access.log")
	for range 2 { // appended to
		l, err := Open(path, log)
		if err != nil {
			t.Fatal(err)
		}
		l.Add(Entry{Path: "/a"})
		l.Close()
		l.Close()
	}
	if content, err := os.ReadFile(path); err != nil || strings.Count(string(content), "\n") != 2 {
		t.Errorf("the file has %q, %v", content, err)
	}
	if _, err := Open(filepath.Join(path, "access.log"), log); err == nil || !strings.Contains(err.Error(), "access_log: open ") {
		t.Errorf("in a folder that is none: %v", err)
	}
}

// What is no file is refused, at once, before requests and with them.
func TestOnlyFilesAreWrittenTo(t *testing.T) {
	dir := t.TempDir()
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{pipe, dir, os.DevNull} {
		if _, err := Open(path, slog.New(slog.DiscardHandler)); err == nil || !strings.Contains(err.Error(), path+" is not a regular file\nhelp: ") {
			t.Errorf("opened: %v", err)
		}
		if _, err := (&file{path: path}).Write([]byte("lost\n")); err == nil || !strings.Contains(err.Error(), "is not a regular file") {
			t.Errorf("written: %v", err)
		}
	}
}

func TestCheck(t *testing.T) {
	path := filepath.Join(t.TempDir(), "access.log")
	if err := Check(path); err != nil {
		t.Errorf("of a new file: %v", err)
	}
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Check(path); err != nil {
		t.Errorf("of a file: %v", err)
	}
	for _, path := range []string{os.DevNull, filepath.Join(path, "access.log"), filepath.Join(path+".d", "access.log")} {
		if err := Check(path); err == nil || !strings.Contains(err.Error(), "access_log: ") {
			t.Errorf("of %s: %v", path, err)
		}
	}
}

func TestOpenLater(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dir := filepath.Join(t.TempDir(), "logs")
		path := filepath.Join(dir, "access.log")
		l := OpenLater(path, slog.New(slog.DiscardHandler))
		l.Add(Entry{Path: "/lost"})
		time.Sleep(time.Second)
		if l.Lost() != 1 {
			t.Errorf("%d lines are lost, want 1", l.Lost())
		}
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		l.Add(Entry{Path: "/written"})
		l.Close()
		if content, err := os.ReadFile(path); err != nil || strings.Count(string(content), "\n") != 1 || !strings.Contains(string(content), "/written") {
			t.Errorf("the file has %q, %v", content, err)
		}
	})
}

func TestWhatClientsDecideIsBounded(t *testing.T) {
	e := Entry{Path: "/" + strings.Repeat("é", 1000), Method: strings.Repeat("M", 1000), Subject: "short"}
	e.bound()
	if want := "/" + strings.Repeat("é", 255) + "..."; e.Path != want || len(e.Method) != maxText+3 || e.Subject != "short" {
		t.Errorf("got %d and %d bytes, %q", len(e.Path), len(e.Method), e.Subject)
	}
}
