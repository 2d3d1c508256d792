package kit

import (
	"io"
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// What is no regular file is written to, and stays what it is; links are followed.
func TestWriteFile(t *testing.T) {
	dir := t.TempDir()
	at := func(name string) string { return filepath.Join(dir, name) }
	pipe := at("pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	reader, err := os.OpenFile(pipe, os.O_RDONLY|syscall.O_NONBLOCK, 0) // both ends are open before anybody writes
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	if err := os.WriteFile(at("old"), []byte("before"), 0o600); err != nil {
		t.Fatal(err)
	}
	for link, to := range map[string]string{"link": "old", "dangling": "made", "null": os.DevNull} {
		if err := os.Symlink(to, at(link)); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range []string{"pipe", "link", "dangling", "null", "new"} {
		if err := WriteFile(at(name), []byte(name)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := io.ReadAll(reader); err != nil || string(got) != "pipe" {
		t.Errorf("the pipe's reader got %q, %v", got, err)
	}
	for name, want := range map[string]string{"old": "link", "made": "dangling", "new": "new", "null": ""} {
		if got, err := os.ReadFile(at(name)); err != nil || string(got) != want {
			t.Errorf("%s holds %q, %v, want %q", name, got, err, want)
		}
	}
	for name, want := range map[string]os.FileMode{"pipe": os.ModeNamedPipe | 0o600, "link": os.ModeSymlink | 0o777, "dangling": os.ModeSymlink | 0o777, "null": os.ModeSymlink | 0o777, "old": 0o600} {
		if info, err := os.Lstat(at(name)); err != nil || info.Mode() != want {
			t.Errorf("%s is %v, %v, want %v", name, info, err, want)
		}
	}
}
