package holder

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Replace writes a file of a state folder. Others see it whole, before or after, and its owner alone can read it.
func Replace(path string, data []byte) error {
	beside, err := writeBeside(path, data)
	if err == nil {
		err = os.Rename(beside, path)
	}
	if err != nil {
		os.Remove(beside)
	}
	return err
}

// CreateOnce is Replace for a file that stays what it is once it is there: when another process was faster, its file does.
func CreateOnce(path string, data []byte) error {
	beside, err := writeBeside(path, data)
	defer os.Remove(beside)
	if err == nil {
		err = os.Link(beside, path)
	}
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	return err
}

// writeBeside writes a durable file in the folder of path, under a name of its own.
func writeBeside(path string, data []byte) (name string, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".new-*") // 0600
	if err != nil {
		return "", err
	}
	_, err = f.Write(data)
	return f.Name(), errors.Join(err, f.Sync(), f.Close())
}
