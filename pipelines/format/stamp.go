package format

import (
	"errors"
	"io/fs"
	"os"
	"syscall"

	"github.com/sluiceml/sluice/internal/fault"
)

// Stamp tells one state of a file of this machine from another, besides the file's size. Times are in nanoseconds since 1970.
type Stamp struct {
	// Modified is when the content was written last, as programs may claim.
	Modified int64 `json:"modified,omitempty"`
	// Changed is when the file was changed in any way, also renamed, linked or given another mode.
	Changed int64  `json:"changed,omitempty"`
	Inode   uint64 `json:"inode,omitempty"`
}

// StampOf returns the stamp of a file.
func StampOf(info fs.FileInfo) Stamp {
	stamp := Stamp{Modified: info.ModTime().UnixNano()}
	if stat, ok := info.Sys().(*syscall.Stat_t); ok {
		stamp.Changed, stamp.Inode = stat.Ctim.Nano(), stat.Ino
	}
	return stamp
}

// Same reports whether a file that has this information is still what was listed. Another inode alone says nothing, because some network
// file systems number a file anew, and neither does another time of change alone, because a new link to a file or a new mode is one.
func (f File) Same(info fs.FileInfo) bool {
	now := StampOf(info)
	return info.Size() == f.Size && now.Modified == f.Stamp.Modified && (now.Inode == f.Stamp.Inode || now.Changed == f.Stamp.Changed)
}

// Unchanged returns an error if the file is no longer what was listed. It knows nothing of objects, whose version is checked when they are
// read, and of files without a stamp.
func (f File) Unchanged() error {
	if f.Stamp == (Stamp{}) {
		return nil
	}
	info, err := os.Stat(f.Path)
	if err == nil && f.Same(info) {
		return nil
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return f.changed()
}

// openLocal opens a file of this machine, which must be what was listed.
func (f File) openLocal() (*os.File, error) {
	file, err := os.Open(f.Path)
	if errors.Is(err, fs.ErrNotExist) && f.Stamp != (Stamp{}) {
		return nil, f.changed()
	}
	if err != nil {
		return nil, err
	}
	if err := f.verify(file); err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}

// verify returns an error if the open file is not what was listed, or no longer.
func (f File) verify(file *os.File) error {
	if f.Stamp == (Stamp{}) {
		return nil
	}
	info, err := file.Stat()
	if err == nil && !f.Same(info) {
		err = f.changed()
	}
	return err
}

func (f File) changed() error {
	if f.IsObject() {
		return fault.Errorf(fault.User, "%s has been changed or removed since it was listed; run the step again when nothing else writes there", f.Name)
	}
	return fault.Errorf(fault.User, "%s changed while it was read, or was removed, so the result could mix two versions and was discarded; "+
		"clean again when nothing else writes there", f.Path)
}
