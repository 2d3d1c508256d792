package activities

import (
	"os"
	"path/filepath"
	"testing"
)

// TestSweepAttempts: what a killed worker has left is removed, and not what another uses or one of another version may.
func TestSweepAttempts(t *testing.T) {
	t.Parallel()
	state := filepath.Join(t.TempDir(), "[state") // which is no pattern
	parent := filepath.Join(state, "tmp")
	used, hold, err := makeAttempt(parent, "r-used-")
	if err != nil {
		t.Fatal(err)
	}
	defer hold.Close()
	left, killed, err := makeAttempt(parent, "r-left-")
	if err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{filepath.Join(left, "work", "data"), filepath.Join(parent, "r-earlier-1")} {
		if err := os.MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if err := killed.Close(); err != nil { // as the kernel does for a process that has ended
		t.Fatal(err)
	}
	if err := SweepAttempts(state); err != nil {
		t.Fatal(err)
	}
	for dir, want := range map[string]bool{used: true, left: false, filepath.Join(parent, "r-earlier-1"): true} {
		if _, err := os.Stat(dir); (err == nil) != want {
			t.Errorf("%s: %v, want it there: %v", filepath.Base(dir), err, want)
		}
	}
}
