package gateway

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// labelKeyFile is the file of a state folder with its LabelKey.
const labelKeyFile = "label.key"

// labelKeyVariable names the LabelKey of gateways and workers that have no state folder in common.
const labelKeyVariable = "SLUICE_LABEL_KEY"

// EnsureLabelKey returns the LabelKey of the environment, else that of a state folder, and makes one first where there is none. Only the
// folder's owner can read it.
func EnsureLabelKey(state string) (string, error) {
	if key := strings.TrimSpace(os.Getenv(labelKeyVariable)); key != "" {
		return key, nil
	}
	path := filepath.Join(state, labelKeyFile)
	raw, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		if err = makeLabelKey(state, path); err == nil {
			raw, err = os.ReadFile(path)
		}
	}
	if err != nil {
		return "", fmt.Errorf("the key of labels: %w", err)
	}
	key := strings.TrimSpace(string(raw))
	if key == "" {
		return "", fmt.Errorf("the key of labels: %s is empty; remove it, and a new one will be created", path)
	}
	return key, nil
}

// makeLabelKey writes the file as a whole or not at all; of two processes that do so at once, one wins.
func makeLabelKey(state, path string) (err error) {
	f, err := os.CreateTemp(state, labelKeyFile+".*") // mode 0600
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, os.Remove(f.Name())) }()
	_, err = f.WriteString(rand.Text() + "\n")
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		return err
	}
	if err = os.Link(f.Name(), path); errors.Is(err, fs.ErrExist) {
		err = nil
	}
	return err
}
