package rig

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestProgram: a program is found, and for one that is not there the way to it is said.
func TestProgram(t *testing.T) {
	cache := t.TempDir()
	t.Setenv("SLUICE_CACHE", cache)
	if _, err := Program("rigs", "fake"); err == nil || !strings.Contains(err.Error(), "run `make rigs`") {
		t.Errorf("without the program: %v", err)
	}
	want := filepath.Join(cache, "rigs", "fake")
	if err := os.Mkdir(filepath.Dir(want), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(want, nil, 0o700); err != nil {
		t.Fatal(err)
	}
	if got, err := Program("rigs", "fake"); got != want || err != nil {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	// Without the variable it is the repository's own folder.
	t.Setenv("SLUICE_CACHE", "")
	root := t.TempDir()
	below := filepath.Join(root, "a", "b")
	if err := os.MkdirAll(below, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(cache, filepath.Join(root, ".cache")); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(root, "Makefile"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Chdir(below)
	if got, err := Program("rigs", "fake"); !strings.HasPrefix(got, root) || err != nil {
		t.Errorf("below the Makefile: %s, %v", got, err)
	}
}
