package embedded

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.temporal.io/server/common/log/tag"
)

func TestLogIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), LogFile)
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	record := append(bytes.Repeat([]byte("x"), 64<<10), '\n')
	for range 3 * maxLog / len(record) {
		if _, err := l.Write(record); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range []string{path, path + ".1"} {
		info, err := os.Stat(p)
		if err != nil {
			t.Fatal(err)
		}
		if info.Size() == 0 || info.Size() > maxLog {
			t.Errorf("%s has %d bytes, want up to %d", filepath.Base(p), info.Size(), maxLog)
		}
	}
}

// A log that somebody removed is written anew when it is full.
func TestLogWasRemoved(t *testing.T) {
	path := filepath.Join(t.TempDir(), LogFile)
	l, err := openLog(path)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	record := bytes.Repeat([]byte("x"), maxLog)
	for range 2 {
		if _, err := l.Write(record); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Size() != maxLog {
		t.Errorf("the log: %v, %v, want %d bytes", info, err, maxLog)
	}
}

func TestLogger(t *testing.T) {
	var out strings.Builder
	l := logger{slog: slog.New(slog.NewTextHandler(&out, &slog.HandlerOptions{Level: slog.LevelWarn}))}
	l.Info("quiet")
	l.With(tag.NewStringTag("shard", "1")).Warn("loud", tag.NewInt("n", 2))
	if got := out.String(); strings.Contains(got, "quiet") || !strings.Contains(got, "msg=loud shard=1 n=2") {
		t.Errorf("logged %q", got)
	}
	defer func() {
		if p, ok := recover().(fatal); !ok || string(p) != "port taken, port 7" {
			t.Errorf("Fatal panicked with %q", p)
		}
	}()
	l.Fatal("port taken", tag.NewInt("port", 7))
}
