package pipelines

import (
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"syscall"
)

// workForm matches the names of work folders.
var workForm = regexp.MustCompile(`^\.clean-[0-9]+$`)

// makeWorkFolder creates a folder for unfinished output, and keeps other processes from removing it until remove is called or the process
// ends.
func makeWorkFolder(parent string) (path string, remove func(), err error) {
	for {
		if path, err = os.MkdirTemp(parent, ".clean-*"); err != nil {
			return "", nil, err
		}
		hold, err := holdFolder(path)
		if errors.Is(err, os.ErrNotExist) {
			continue // another process took it for a left-over and removed it
		} else if err != nil {
			return "", nil, errors.Join(err, os.RemoveAll(path))
		}
		return path, func() { os.RemoveAll(path); hold.Close() }, nil
	}
}

// holdFolder keeps a work folder from being removed as a left-over while the returned file is open. On a file system without locks,
// left-overs are not removed either.
func holdFolder(path string) (*os.File, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	_ = syscall.Flock(int(f.Fd()), syscall.LOCK_SH) // waits for a process that is removing it
	if _, err := os.Stat(path); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// removeLeftOvers removes the work folders of cleanings that were killed. It ignores errors.
func removeLeftOvers(parent string) {
	entries, err := os.ReadDir(parent)
	if err != nil {
		return
	}
	for _, e := range entries {
		if e.IsDir() && workForm.MatchString(e.Name()) {
			removeLeftOver(filepath.Join(parent, e.Name()))
		}
	}
}

func removeLeftOver(path string) {
	f, err := os.Open(path)
	if err != nil {
		return
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
		os.RemoveAll(path)
	}
}
