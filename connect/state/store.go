// Package state is the state folder: which store its runs are kept in, and which Python their programs get.
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
	"github.com/sluiceml/sluice/store"
)

// Dir is the state folder when nothing else is said.
const Dir = ".sluice"

// TargetsFile remembers, in a state folder, which targets it serves, so that a holder that restarts serves them again before any run asks
// for it.
const TargetsFile = "targets.json"

// StoreVariable names the environment variable that holds the URL of a store other than the state folder's own.
const StoreVariable = "SLUICE_STORE"

// storeFile holds, in a state folder, the URL of its store when that is elsewhere.
const storeFile = "store.url"

// Check returns an invalid error when something that is not a folder is where a state folder is to be. That there is none yet is no error.
func Check(state string) error {
	info, err := os.Stat(state)
	if err == nil && !info.IsDir() || errors.Is(err, syscall.ENOTDIR) {
		return fault.New(fault.Invalid, fmt.Sprintf("the state folder %s is not a folder\n"+
			"help: use --state with a folder; `sluice run` creates one that does not exist", state), err)
	}
	return nil
}

// OpenStore opens the store that StoreVariable names, else the state folder's. It needs nothing to be running.
func OpenStore(ctx context.Context, state string) (*store.Store, error) {
	url, err := StoreURL(state)
	if err != nil {
		return nil, err
	}
	return store.Open(ctx, url)
}

// StoreURL is where a state folder's runs are kept.
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
		return "", fmt.Errorf("look where the runs of the state folder %s are kept: %w", state, err)
	}
	dir, err := filepath.Abs(filepath.Join(state, "store"))
	return "file://" + dir, err
}

// NoteStore makes a store that of a state folder which nothing has been kept for yet, unless somebody else's command has made one so at the
// same moment: whoever submits a run compares.
func NoteStore(state, url string) error {
	if err := os.MkdirAll(state, 0o700); err != nil {
		return fmt.Errorf("state folder %s cannot be created: %w: make its parent writable, or use another with --state", state, err)
	}
	if err := holder.CreateOnce(filepath.Join(state, storeFile), []byte(url+"\n")); err != nil {
		return fmt.Errorf("note the store of %s: %w", state, err)
	}
	return nil
}

// Unused reports whether a state folder's store has not been chosen, by a run or by a Sluice that was up.
func Unused(state string) bool {
	for _, trace := range []string{storeFile, "store", "lock"} {
		if _, err := os.Lstat(filepath.Join(state, trace)); !errors.Is(err, fs.ErrNotExist) {
			return false
		}
	}
	return true
}
