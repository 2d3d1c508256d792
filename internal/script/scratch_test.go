package script

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"golang.org/x/sys/unix"
)

// TestReadOnlyFoldersAreRemoved: a program may leave folders that nobody may write to or read. What links in them lead to stays as it is.
func TestReadOnlyFoldersAreRemoved(t *testing.T) {
	t.Parallel()
	other := filepath.Join(t.TempDir(), "other")
	if err := os.MkdirAll(other, 0o500); err != nil {
		t.Fatal(err)
	}
	dir := filepath.Join(t.TempDir(), "attempt")
	for _, each := range []string{"mod/cache", "closed/inner", "plain"} {
		path := filepath.Join(dir, each)
		if err := os.MkdirAll(path, 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(path, "file"), nil, 0o444); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(other, filepath.Join(path, "link")); err != nil {
			t.Fatal(err)
		}
	}
	for path, mode := range map[string]os.FileMode{"mod/cache": 0o555, "mod": 0o555, "closed/inner": 0, "closed": 0} {
		if err := os.Chmod(filepath.Join(dir, path), mode); err != nil {
			t.Fatal(err)
		}
	}
	unprivileged(t, func() {
		if err := os.RemoveAll(filepath.Join(dir, "mod")); err == nil {
			t.Error("os.RemoveAll removes it: the test shows nothing")
		}
		if err := RemoveFolder(dir); err != nil {
			t.Error(err)
		}
		if err := RemoveFolder(dir); err != nil {
			t.Errorf("what is not there: %v", err)
		}
	})
	if _, err := os.Lstat(dir); !os.IsNotExist(err) {
		t.Errorf("the folder is still there: %v", err)
	}
	if info, err := os.Stat(other); err != nil || info.Mode().Perm() != 0o500 {
		t.Errorf("the folder that a link leads to: %v, %v", info, err)
	}
}

// unprivileged runs do on a thread that may not pass over permissions, even if the test runs as root.
func unprivileged(t *testing.T, do func()) {
	t.Helper()
	done := make(chan error)
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
		var caps [2]unix.CapUserData
		if err := unix.Capget(&header, &caps[0]); err != nil {
			done <- err
			return
		}
		caps[0].Effective &^= 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_DAC_READ_SEARCH
		if err := unix.Capset(&header, &caps[0]); err != nil {
			done <- err
			return
		}
		do()
	}()
	if err := <-done; err != nil {
		t.Fatal(err)
	}
}
