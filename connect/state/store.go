// Package state has the settings of a state folder: which store its runs are kept in, and which Python their programs get.
package state

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/once"
	"github.com/sluiceml/sluice/store"
)

// Dir is the default state folder.
const Dir = ".sluice"

// TargetsFile is the file of a state folder that lists the targets it serves, so that a restarted holder serves them again before a run
// needs them.
const TargetsFile = "targets.json"

// StoreVariable names the environment variable that holds the URL of a store other than the state folder's own.
const StoreVariable = "SLUICE_STORE"

// storeFile holds, in a state folder, the URL of its store when that is elsewhere.
const storeFile = "store.url"

// Check returns a fault.Invalid error if the path of the state folder is not a folder. A missing folder is not an error.
func Check(state string) error {
	info, err := os.Stat(state)
	if err == nil && !info.IsDir() || errors.Is(err, syscall.ENOTDIR) {
		return fault.New(fault.Invalid, fmt.Sprintf("the state folder %s is not a folder\n"+
			"help: use --state with a folder; `sluice run` creates one that does not exist", state), err)
	}
	return nil
}

// OpenStore opens the store that StoreVariable names, or else that of the state folder. No process needs to be running.
func OpenStore(ctx context.Context, state string) (*store.Store, error) {
	url, err := StoreURL(state)
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, url)
}

// StoreURL returns the URL of the store in which a state folder's runs are kept.
func StoreURL(state string) (string, error) {
	if url := os.Getenv(StoreVariable); url != "" {
		return url, nil
	}
	if err := Check(state); err != nil {
		return "", err
	}
	noted, err := os.ReadFile(filepath.Join(state, storeFile))
	if err == nil {
		return strings.TrimSpace(string(noted)), nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("look where the runs of the state folder %s are kept: %w", state, holder.Explain(state, err))
	}
	dir, err := filepath.Abs(filepath.Join(state, "store"))
	return "file://" + dir, err
}

// NoteStore sets the store of a state folder that has not been used yet. If another command sets it at the same moment, that one may win,
// so a caller that submits a run compares afterwards.
func NoteStore(state, url string) error {
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("state folder %s cannot be created: %w: make its parent writable, or use another with --state", state, err)
	}
	if err := once.Create(filepath.Join(state, storeFile), []byte(url+"\n")); err != nil {
		return fmt.Errorf("note the store of %s: %w", state, err)
	}
	return nil
}

// Unused reports whether the store of a state folder is not yet chosen: no run has been submitted, and no process has held the folder.
func Unused(state string) bool {
	for _, trace := range []string{storeFile, "store", "lock"} {
		if _, err := os.Lstat(filepath.Join(state, trace)); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}
