package holder

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"strconv"
	"syscall"
)

// Explain adds to an error of a file in a state folder whose it is, if it belongs to another user: one command with sudo is enough to lock the
// folder's owner out. It returns any other error as it is.
func Explain(dir string, err error) error {
	var denied *fs.PathError
	if !errors.Is(err, fs.ErrPermission) || !errors.As(err, &denied) {
		return err
	}
	for _, path := range []string{denied.Path, dir} { // what is in a folder that may not be entered cannot be looked at
		info, failed := os.Stat(path)
		if failed != nil {
			continue
		}
		if owner := info.Sys().(*syscall.Stat_t).Uid; int(owner) != os.Geteuid() {
			return fmt.Errorf("%w: %s belongs to %s\nhelp: if Sluice was run here as another user, such as with sudo, `sudo chown -R %s %s` gives everything back to you",
				err, path, nameOf(owner), nameOf(uint32(os.Geteuid())), dir)
		}
	}
	return err
}

func nameOf(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}
