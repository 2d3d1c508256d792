package holder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// CreateOnce creates a file of a state folder that never changes. If another process was faster, its file stays. Others see the file whole
// or not at all, and only its owner can read it.
func CreateOnce(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*") // 0600
	if err != nil {
		return err
	}
	defer os.Remove(f.Name())
	_, err = f.Write(data)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}
