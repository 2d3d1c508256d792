package gateway

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/sluiceml/sluice/internal/once"
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
		if err = once.Create(path, []byte(rand.Text()+"\n")); err == nil {
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
