package state

import (
	"cmp"
	"os"
	"path/filepath"

	"github.com/sluiceml/sluice/connect/state/holder"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/serving/onnx"
)

// FindPython returns the virtual environment whose programs the users' commands find first in PATH: $SLUICE_PYTHON_ENV, or else the
// folder .venv in the working folder or the nearest folder above it, or else the one that is activated. Empty when there is none.
func FindPython() string { return PythonBeside(".") }

// PythonBeside is FindPython for the folder of a pipeline in place of the working folder.
func PythonBeside(folder string) string {
	if env := os.Getenv(onnx.EnvironmentVariable); env != "" {
		if whole, err := filepath.Abs(env); err == nil {
			return whole
		}
		return env
	}
	dir, err := filepath.Abs(folder)
	if err != nil {
		return ""
	}
	for _, env := range append(onnx.EnvironmentsAbove(dir), ActivatedPython()) {
		if env == "" {
			continue
		}
		if info, err := os.Stat(filepath.Join(env, "bin", "python3")); err == nil && !info.IsDir() {
			return env
		}
	}
	return ""
}

// ActivatedPython returns the environment that is activated in the user's shell: of venv, virtualenv or uv, or else of conda. Empty when there
// is none.
func ActivatedPython() string { return cmp.Or(os.Getenv("VIRTUAL_ENV"), os.Getenv("CONDA_PREFIX")) }

// PythonNamed reports whether FindPython returns the environment that $SLUICE_PYTHON_ENV names.
func PythonNamed() bool { return os.Getenv(onnx.EnvironmentVariable) != "" }

// CheckPython returns an error if $SLUICE_PYTHON_ENV names something other than a folder, because programs would then silently use another
// Python.
func CheckPython() error {
	env := os.Getenv(onnx.EnvironmentVariable)
	if info, err := os.Stat(env); env == "" || err == nil && info.IsDir() {
		return nil
	}
	return fault.Errorf(fault.Invalid, "%s is %q, which is not a folder\nhelp: unset it, or create the virtual environment: `python3 -m venv %s`",
		onnx.EnvironmentVariable, env, env)
}

// PythonOf returns the virtual environment of the process that holds the state folder, or else the one that FindPython finds, and whether
// $SLUICE_PYTHON_ENV names it.
func PythonOf(state string) (env string, named bool) {
	if info, held, err := holder.Find(state); err == nil && held {
		return info.Python, info.PythonNamed
	}
	return FindPython(), PythonNamed()
}
