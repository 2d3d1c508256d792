// Package holder decides which process runs the servers of a state folder (.sluice), and tells the others where they are.
//
// The holder has a lock on the folder's file "lock", which the kernel releases when the process ends, for whatever reason. It publishes
// addresses in "holder.json". That file is valid only while the lock is held, so the file of a killed holder does no harm. Every process
// that follows a run has a shared lock on "follow", so that the holder knows whether it is still needed.
package holder

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/google/renameio/v2"
	"golang.org/x/sys/unix"
)

// LockFile is the file of a state folder that its holder locks. It is not removed when the holder ends.
const LockFile = "lock"

const infoFile = "holder.json"

// ErrHeld is returned by Acquire when another process holds the folder.
var ErrHeld = errors.New("held by another process")

// Info is what a holder publishes. It holds no secrets.
type Info struct {
	PID             int    `json:"pid"`
	TemporalAddress string `json:"temporal_address"`     // of the frontend, "127.0.0.1:7233"
	UIAddress       string `json:"ui_address"`           // "http://127.0.0.1:8233"
	Namespace       string `json:"namespace"`            // Temporal's
	TokenFile       string `json:"token_file"`           // absolute path
	CodecKeys       string `json:"codec_keys,omitempty"` // absolute path of the key file; empty without encryption
	Python          string `json:"python,omitempty"`     // absolute path of the virtual environment of the users' programs; empty for the python3 in PATH
	// PythonNamed is set if the user has named Python. It then applies to every run, whether or not there is an environment next to its
	// pipeline.
	PythonNamed bool `json:"python_named,omitempty"`
}

// Holder holds a state folder until Release.
type Holder struct {
	dir  string
	lock *os.File
	last Info
}

// Acquire makes this process the holder of the state folder dir, which it creates when missing. It does not wait: the error wraps
// ErrHeld when another process is the holder.
func Acquire(dir string) (*Holder, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unwritable(dir, err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, LockFile), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, unwritable(dir, err)
	}
	h := &Holder{dir: dir, lock: lock}
	if err := h.take(); err != nil {
		lock.Close()
		return nil, err
	}
	// An existing folder may be open to other users, and with it the files that programs and the server have written there. Ignore the error:
	// the folder of a volume may belong to another user.
	_ = os.Chmod(dir, 0o700)
	return h, nil
}

// take locks the file and withdraws what an earlier holder published.
func (h *Holder) take() error {
	// This is an open file description lock (fcntl(2)). Unlike flock(2) it can be tested without being taken, so a reader never keeps the next
	// holder out.
	switch taken, err := setLock(h.lock, unix.F_WRLCK); {
	case err != nil:
		return err
	case !taken:
		return fmt.Errorf("state folder %s: %w", h.dir, ErrHeld)
	}
	h.last, _ = read(h.dir) // missing or damaged: as if there was no previous holder
	if err := os.Remove(filepath.Join(h.dir, infoFile)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return unwritable(h.dir, err)
	}
	return nil
}

// Last is what the previous holder published; zero if there was none.
func (h *Holder) Last() Info { return h.last }

// Publish tells others where the servers are, replacing what was published before. PID is filled in.
func (h *Holder) Publish(info Info) error {
	info.PID = os.Getpid()
	data, err := json.MarshalIndent(info, "", "  ")
	if err != nil {
		return fmt.Errorf("publish addresses: %w", err)
	}
	if err := renameio.WriteFile(filepath.Join(h.dir, infoFile), append(data, '\n'), 0o600, renameio.WithTempDir(h.dir)); err != nil {
		return unwritable(h.dir, err)
	}
	return nil
}

// Release lets another process hold the folder. What was published stays, for Last, but Find no longer returns it.
func (h *Holder) Release() error { return h.lock.Close() }

// Find returns what the holder of dir has published. It returns false if no process holds dir, or the holder is still starting.
func Find(dir string) (Info, bool, error) {
	held, err := isHeld(dir)
	if err != nil || !held {
		return Info{}, false, err
	}
	info, err := read(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return Info{}, false, nil
	}
	return info, err == nil, err
}

// isHeld tests the lock without taking it.
func isHeld(dir string) (bool, error) {
	f, err := os.Open(filepath.Join(dir, LockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("state folder: %w", Explain(dir, err))
	}
	defer f.Close()
	probe := unix.Flock_t{Type: unix.F_WRLCK}
	if err := unix.FcntlFlock(f.Fd(), unix.F_OFD_GETLK, &probe); err != nil {
		return false, fmt.Errorf("test the lock %s: %w", f.Name(), err)
	}
	return probe.Type != unix.F_UNLCK, nil
}

func read(dir string) (Info, error) {
	path := filepath.Join(dir, infoFile)
	data, err := os.ReadFile(path)
	if err != nil {
		return Info{}, fmt.Errorf("addresses of the state folder's servers: %w", err)
	}
	var info Info
	if err := json.Unmarshal(data, &info); err != nil {
		return Info{}, fmt.Errorf("addresses of the state folder's servers: %s: %w", path, err)
	}
	return info, nil
}

// unwritable explains that Sluice cannot keep its state in dir.
func unwritable(dir string, err error) error {
	if explained := Explain(dir, err); explained != err { //nolint:errorlint // whether it is another
		return fmt.Errorf("state folder %s is not writable: %w", dir, explained)
	}
	return fmt.Errorf("state folder %s is not writable: %w: make it writable, or use a folder that is", dir, err)
}
