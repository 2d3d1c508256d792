package worker

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceml/sluice/dsl"
)

func TestReadDocument(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if got, err := ReadDocument(write("p.yaml", "name: p\n")); err != nil || string(got) != "name: p\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := ReadDocument(write("large.yaml", strings.Repeat("#", dsl.MaxSource+10))); err != nil || len(got) != dsl.MaxSource+1 {
		t.Errorf("of a large file %d bytes were read, %v", len(got), err)
	}
	if _, err := ReadDocument(filepath.Join(dir, "none")); !os.IsNotExist(err) {
		t.Errorf("a missing file: %v", err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe, "/dev/zero"} {
		if _, err := ReadDocument(path); err == nil || !strings.Contains(err.Error(), path+" is no file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}
