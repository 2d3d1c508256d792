package access

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/sluiceml/sluice/internal/fault"
)

// file is appended to. Something else may rename, remove or truncate it at any time, as programs that rotate logs do.
type file struct {
	path string
	to   *os.File // nil while it could not be opened
}

// open opens the file, which others than the group may not read: it says who asks what.
func (f *file) open() error {
	if err := regular(f.path); err != nil {
		return err
	}
	// It does not wait should the path be a pipe by now.
	to, err := os.OpenFile(f.path, os.O_WRONLY|os.O_CREATE|os.O_APPEND|unix.O_NONBLOCK, 0o640)
	if err != nil {
		return explain(fmt.Errorf("access_log: %w", err))
	}
	f.close()
	f.to = to
	return nil
}

// regular refuses a path that has something else than a file: a pipe that nobody reads would be waited for.
func regular(path string) error {
	if at, err := os.Stat(path); err == nil && !at.Mode().IsRegular() {
		return fault.Errorf(fault.Invalid, "access_log: %s is not a regular file\nhelp: write the path of a file, or \"-\" for the standard output of `sluice serve`", path)
	}
	return nil
}

// explain adds to the error of a path that cannot be written to what to do. It stays so until somebody does that, unlike a full disk.
func explain(err error) error {
	for _, because := range []error{fs.ErrNotExist, fs.ErrPermission, unix.ENOTDIR, unix.EROFS} {
		if errors.Is(err, because) {
			return fault.Errorf(fault.Invalid, "%w\nhelp: create the folder, or let the user who serves write there", err)
		}
	}
	return err
}

// Check says why a file at a path cannot be appended to, without making it.
func Check(path string) error {
	if err := regular(path); err != nil {
		return err
	}
	err := unix.Access(path, unix.W_OK)
	if errors.Is(err, os.ErrNotExist) {
		path = filepath.Dir(path)
		err = unix.Access(path, unix.W_OK|unix.X_OK)
	}
	if err != nil {
		return explain(fmt.Errorf("access_log: %s cannot be written to: %w", path, err))
	}
	return nil
}

// Write implements io.Writer. It writes to the file that has the path now. Nothing has to tell it that the one before was renamed.
func (f *file) Write(p []byte) (int, error) {
	at, err := os.Stat(f.path)
	if err == nil && f.to != nil {
		var have os.FileInfo
		if have, err = f.to.Stat(); err == nil && os.SameFile(at, have) {
			return f.to.Write(p)
		}
	}
	if err := f.open(); err != nil {
		return 0, err
	}
	return f.to.Write(p)
}

func (f *file) close() {
	if f.to != nil {
		_ = f.to.Close() // nothing of it is kept back
	}
}
