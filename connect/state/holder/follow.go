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

// Follower marks this process as one that shows a run of the state folder to a user. The kernel removes the mark when the process ends, for
// whatever reason.
type Follower struct{ lock *os.File }

// Follow makes this process a follower, whether or not it is the holder. While a holder is leaving (see Alone), it waits, until ctx ends.
func Follow(ctx context.Context, dir string) (*Follower, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unwritable(dir, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, followFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unwritable(dir, err)
	}
	for range poll.Every(ctx, 20*time.Millisecond) {
		if taken, err := setLock(lock, unix.F_RDLCK); taken {
			return &Follower{lock: lock}, nil
		} else if err != nil {
			return nil, errors.Join(err, lock.Close())
		}
	}
	return nil, errors.Join(fmt.Errorf("wait for the process that leaves %s: %w", dir, context.Cause(ctx)), lock.Close())
}

// Alone reports whether no other process follows a run. If so, no process can become a follower until Close, so the holder can exit without
// cutting off a follower.
func (f *Follower) Alone() (bool, error) { return setLock(f.lock, unix.F_WRLCK) }

// Close releases the lock. This process is then no longer a follower.
func (f *Follower) Close() error { return f.lock.Close() }

// setLock locks a file, replacing the lock it has. It returns false if the lock of another process conflicts.
func setLock(f *os.File, kind int16) (bool, error) {
	err := unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK, &unix.Flock_t{Type: kind})
	switch {
	case err == nil:
		return true, nil
	case errors.Is(err, unix.EAGAIN) || errors.Is(err, unix.EACCES):
		return false, nil
	}
	return false, fmt.Errorf("lock %s: %w (a state folder must be on a file system that supports locks)", f.Name(), err)
}
