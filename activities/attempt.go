package activities

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/store/record"
)

// attemptLock is the file in the folder of an attempt that is locked as long as its worker lives.
const attemptLock = ".lock"

// AttemptDir creates the folder of this attempt, which no other attempt shares; cleanup removes it.
func AttemptDir(ctx context.Context, state string, in record.StepInput) (dir string, cleanup func(), err error) {
	dir, hold, err := makeAttempt(filepath.Join(state, "tmp"), in.Run+"-"+in.Step+"-")
	if err != nil {
		return "", nil, fault.New(fault.Infrastructure, "make a folder for the step: "+err.Error(), err)
	}
	return dir, func() {
		if err := errors.Join(script.RemoveFolder(dir), hold.Close()); err != nil {
			activity.GetLogger(ctx).Warn("the folder of an attempt could not be removed", "folder", dir, "error", err)
		}
	}, nil
}

// makeAttempt makes a folder, and locks it while hold is open.
func makeAttempt(parent, prefix string) (dir string, hold *os.File, err error) {
	if err := os.MkdirAll(parent, 0o700); err != nil {
		return "", nil, err
	}
	for {
		if dir, err = os.MkdirTemp(parent, prefix); err != nil {
			return "", nil, err
		}
		if hold, err = os.OpenFile(filepath.Join(dir, attemptLock), os.O_CREATE|os.O_RDWR, 0o600); err != nil {
			return "", nil, errors.Join(err, os.RemoveAll(dir))
		}
		_ = syscall.Flock(int(hold.Fd()), syscall.LOCK_SH) // waits for one that sweeps it; without locks nothing is swept
		if _, err = os.Stat(hold.Name()); err == nil {
			return dir, hold, nil
		}
		if err = errors.Join(err, hold.Close()); !errors.Is(err, os.ErrNotExist) {
			return "", nil, err
		}
	}
}

// SweepAttempts removes the folders of attempts whose worker was killed, among all workers that share a state folder. It keeps folders
// without a lock file, because another version of Sluice created them and may use them.
func SweepAttempts(state string) error {
	parent := filepath.Join(state, "tmp")
	attempts, err := os.ReadDir(parent)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	for _, attempt := range attempts {
		err = errors.Join(err, sweepAttempt(filepath.Join(parent, attempt.Name(), attemptLock)))
	}
	return err
}

func sweepAttempt(lock string) error {
	f, err := os.Open(lock)
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, syscall.ENOTDIR) { // its worker is done with it, or it is no attempt's
		return nil
	}
	if err != nil {
		return err
	}
	defer f.Close()
	if syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) != nil {
		return nil
	}
	return script.RemoveFolder(filepath.Dir(lock))
}
