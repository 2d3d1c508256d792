package state

import (
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/serving/onnx"
)

// FindPython returns the virtual environment whose programs the users' commands find first in PATH: $SLUICE_PYTHON_ENV, or else the
// folder .venv in the working folder or the nearest folder above it. Empty when there is none.
func FindPython() string {
	if env := os.Getenv(onnx.EnvironmentVariable); env != "" {
		if whole, err := filepath.Abs(env); err == nil {
			return whole
		}
		return env
	}
	for _, env := range onnx.PythonEnvironments() {
		if info, err := os.Stat(filepath.Join(env, "bin", "python3")); err == nil && !info.IsDir() {
			return env
		}
	}
	return ""
}

// PythonOf returns the virtual environment that steps get which are done now: that of the process that holds the state folder, or else the
// one that FindPython finds.
func PythonOf(state string) string {
	if info, held, err := holder.Find(state); err == nil && held {
		return info.Python
	}
	return FindPython()
}
