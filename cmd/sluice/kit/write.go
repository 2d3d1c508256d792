package kit

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
)

// WriteFile writes a file that the user names: whole or not at all where it is a regular file or new. A link goes on leading to it, and its
// mode stays. What is no regular file, such as a device or a named pipe, is written to and not replaced.
func WriteFile(path string, content []byte) error {
	err := writeFile(path, content)
	if at, ok := errors.AsType[*fs.PathError](err); ok && at.Path == path {
		err = at.Err // without the path a second time
	}
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	return nil
}

func writeFile(path string, content []byte) error {
	info, err := os.Stat(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if _, err := os.Lstat(path); err == nil { // a link to what is still to be made
			return os.WriteFile(path, content, 0o644)
		}
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return os.WriteFile(path, content, 0o644)
	default:
		if path, err = filepath.EvalSymlinks(path); err != nil {
			return err
		}
	}
	return renameio.WriteFile(path, content, 0o644, renameio.WithTempDir(filepath.Dir(path)))
}

// IsStdout reports whether a path leads to what standard output leads to, as /dev/stdout does.
func IsStdout(path string) bool {
	out, err := os.Stdout.Stat()
	if err != nil {
		return false
	}
	info, err := os.Stat(path)
	return err == nil && os.SameFile(out, info)
}
