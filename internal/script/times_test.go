package script

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// When a line was written is known of every line, also of one that a second writer of the same log appends; nothing of an older log.
func TestTimes(t *testing.T) {
	path := filepath.Join(t.TempDir(), "attempt-1.log")
	begun := time.Now().Truncate(time.Millisecond)
	for _, text := range []string{"first\n", "second\n"} {
		f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
		if err != nil {
			t.Fatal(err)
		}
		l := NewLog(f)
		if _, err := l.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	times, err := ReadTimes(path)
	if err != nil || len(times) != 2*timesEntry {
		t.Fatalf("%d bytes of times, %v", len(times), err)
	}
	for _, offset := range []int64{0, 5, 6, 100} {
		if at := times.At(offset); at.Before(begun) || at.After(time.Now()) {
			t.Errorf("at %d it was %v", offset, at)
		}
	}
	if none, err := ReadTimes(filepath.Join(t.TempDir(), "older.log")); err != nil || !none.At(3).IsZero() {
		t.Errorf("an older log was written at %v, %v", none.At(3), err)
	}
}

// What lies between two notes was written at the time of the first; what is only half there is no note.
func TestTimesAt(t *testing.T) {
	entry := func(size, milli byte) []byte { return []byte{size, 0, 0, 0, 0, 0, 0, 0, milli, 0, 0, 0, 0, 0, 0, 0} }
	times := append(append(Times(entry(4, 10)), entry(20, 30)...), 50, 0, 0)
	got := map[int64]int64{}
	for _, offset := range []int64{4, 19, 20, 60} {
		got[offset] = times.At(offset).UnixMilli()
	}
	if diff := cmp.Diff(map[int64]int64{4: 10, 19: 10, 20: 30, 60: 30}, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if at := times.At(3); !at.IsZero() {
		t.Errorf("before the first note it was %v", at)
	}
}
