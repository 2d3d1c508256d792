package holder

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/sluiceml/sluice/internal/poll"
)

// followFile is locked, shared, by every process that follows a run in the folder.
const followFile = "follow"

// Follower is a process that shows somebody a run of a state folder. The kernel forgets it when the process ends, however it ends.
type Follower struct{ lock *os.File }

// Follow makes this process a follower, holder or not. It waits, until ctx ends, for a holder that leaves: see Alone.
func Follow(ctx context.Context, dir string) (*Follower, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unwritable(dir, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, followFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unwritable(dir, err)
	}
	f := &Follower{lock: lock}
	for range poll.Every(ctx, 20*time.Millisecond) {
		if taken, err := f.take(unix.F_RDLCK); taken {
			return f, nil
		} else if err != nil {
			return nil, errors.Join(err, lock.Close())
		}
	}
	return nil, errors.Join(fmt.Errorf("wait for the process that leaves %s: %w", dir, context.Cause(ctx)), lock.Close())
}

// Alone reports whether no other process follows a run. From then on none can begin to until Close, so that a holder that is alone
// takes nothing along that anybody looks at.
func (f *Follower) Alone() (bool, error) { return f.take(unix.F_WRLCK) }

// Close ends the following.
func (f *Follower) Close() error { return f.lock.Close() }

// take locks the file, in place of the lock it has; false when another process's lock forbids it.
func (f *Follower) take(kind int16) (bool, error) {
	err := unix.FcntlFlock(f.lock.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES):
		return false, nil
	}
	return false, fmt.Errorf("lock %s: %w (a state folder must be on a file system that supports locks)", f.lock.Name(), err)
}
