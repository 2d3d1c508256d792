package pipelines

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/spill"
)

// publish moves the finished output into place, the dataset last. If a move fails, it removes what was already moved.
func publish(job Job, out spec.CleanOutput) (err error) {
	var moved []string
	defer func() {
		if err != nil {
			for _, path := range moved {
				err = errors.Join(err, os.RemoveAll(path))
			}
		}
	}()
	if out.Rows.Rejected > 0 {
		dead := filepath.Join(job.WorkDir, "rejected")
		if err := spill.MergeDeadLetters(job.WorkDir, dead); err != nil {
			return err
		}
		if err := moveFolder(dead, job.DeadLetterDir); err != nil {
			return err
		}
		moved = append(moved, job.DeadLetterDir)
	}
	for name, to := range map[string]string{account.FileName: job.AccountFile, profileName: job.ProfileFile} {
		if to == "" {
			continue
		}
		if err := os.Rename(filepath.Join(job.WorkDir, name), to); err != nil {
			return err
		}
		moved = append(moved, to)
	}
	return moveFolder(filepath.Join(job.WorkDir, "out"), job.OutputDir)
}

// moveFolder syncs the folders below from, whose files must be synced already, renames from to to, and syncs the parent. If that fails, to
// is removed.
func moveFolder(from, to string) error {
	err := filepath.WalkDir(from, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return err
		}
		return syncFolder(path)
	})
	if err != nil {
		return err
	}
	err = syscall.Rename(from, to) // not os.Rename, which refuses to replace an empty folder
	switch {
	case errors.Is(err, fs.ErrExist), errors.Is(err, syscall.ENOTDIR): // a folder that is not empty, or a file
		return fault.Errorf(fault.Invalid, "%s was created while this command ran, and is not empty; nothing was written\n"+
			"help: use another folder; two commands cannot write to the same one", to)
	case err != nil:
		return &os.LinkError{Op: "rename", Old: from, New: to, Err: err}
	}
	if err := syncFolder(filepath.Dir(to)); err != nil {
		return errors.Join(err, os.RemoveAll(to))
	}
	return nil
}

func syncFolder(path string) error {
	f, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
