package script

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// RemoveFolder is os.RemoveAll, also for what holds folders that their owner may not write to, as Go's module cache does: the owner makes them
// writable first. It follows no symbolic links.
func RemoveFolder(dir string) error {
	err := os.RemoveAll(dir)
	if !errors.Is(err, fs.ErrPermission) {
		return err
	}
	_ = filepath.WalkDir(dir, func(path string, d fs.DirEntry, _ error) error {
		if d != nil && d.IsDir() { // called before the folder is read
			_ = os.Chmod(path, 0o700)
		}
		return nil
	})
	return os.RemoveAll(dir)
}
