// Package once creates files that never change.
package once

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Create creates a file. If another process was faster, its file stays. Others see the file whole or not at all, and only its owner can read
// it.
func Create(path string, data []byte) error {
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
