// Package onnx runs ONNX models in this process on ONNX Runtime. It is the only package that loads that library, which is done on
// the first use, once per process.
package onnx

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"

	ort "github.com/yalue/onnxruntime_go"
)

// LibraryVariable names the environment variable that holds the path of ONNX Runtime's shared library.
const LibraryVariable = "SLUICE_ONNXRUNTIME"

// EnvironmentVariable names the environment variable that holds the project's Python environment.
const EnvironmentVariable = "SLUICE_PYTHON_ENV"

// NoTelemetry is the environment variable that, with value 1, keeps ONNX Runtime from reporting on models and machine to its maker,
// which its official builds do by default. The library looks at it once, when it is loaded.
const NoTelemetry = "ORT_DISABLE_TELEMETRY"

// ErrNoLibrary says that ONNX Runtime's shared library is not there or cannot be used. Its message says where it was looked for
// and what to do.
var ErrNoLibrary = errors.New("ONNX Runtime cannot be used")

// systemLibrary is what the dynamic linker is asked for when no file was found.
const systemLibrary = "libonnxruntime.so"

// FindLibrary returns the path of ONNX Runtime's shared library, the first of:
//
//  1. $SLUICE_ONNXRUNTIME;
//  2. lib/python*/site-packages/onnxruntime/capi/libonnxruntime.so* in the Python environment: $SLUICE_PYTHON_ENV, or else the
//     folder .venv in the working folder or the nearest folder above it that has one;
//  3. libonnxruntime.so, by the dynamic linker's own search.
func FindLibrary() (string, error) {
	if path := os.Getenv(LibraryVariable); path != "" {
		if _, err := os.Stat(path); err != nil {
			return "", fmt.Errorf("%w: %s names %s: %w", ErrNoLibrary, LibraryVariable, path, err)
		}
		return path, nil
	}
	for _, env := range PythonEnvironments() {
		if library := LibraryIn(env); library != "" {
			return library, nil
		}
	}
	return systemLibrary, nil
}

// LibraryIn returns the path of the library in a Python environment; empty where that has none.
func LibraryIn(env string) string {
	found, err := filepath.Glob(filepath.Join(env, "lib", "python*", "site-packages", "onnxruntime", "capi", "libonnxruntime.so*"))
	if err != nil || len(found) == 0 {
		return ""
	}
	return slices.Max(found)
}

// PythonEnvironments are where a Python environment may be, the first one first: what $SLUICE_PYTHON_ENV names, or else the folder .venv in
// the working folder and in each folder above it.
func PythonEnvironments() []string {
	if env := os.Getenv(EnvironmentVariable); env != "" {
		return []string{env}
	}
	dir, err := os.Getwd()
	if err != nil {
		return nil
	}
	return EnvironmentsAbove(dir)
}

// EnvironmentsAbove are the folders .venv in a folder, which is absolute, and in each folder above it.
func EnvironmentsAbove(dir string) []string {
	var envs []string
	for {
		envs = append(envs, filepath.Join(dir, ".venv"))
		parent := filepath.Dir(dir)
		if parent == dir {
			return envs
		}
		dir = parent
	}
}

// initialize loads the library on the first call; every later call returns the same result.
var initialize = sync.OnceValue(func() error {
	path, err := FindLibrary()
	if err != nil {
		return err
	}
	if err := os.Setenv(NoTelemetry, "1"); err != nil {
		return err
	}
	ort.SetSharedLibraryPath(path)
	// What it would log of an error is in the error, too; it knows no log but the terminal.
	if err := ort.InitializeEnvironment(ort.WithLogLevelFatal()); err != nil {
		return fmt.Errorf("%w: %s: %w; set %s to the path of libonnxruntime.so of version 1.29 or newer, or create a Python environment with onnxruntime "+
			"(set with %s, default .venv)", ErrNoLibrary, path, err, LibraryVariable, EnvironmentVariable)
	}
	if err := ort.DisableTelemetry(); err != nil {
		return fmt.Errorf("%w: %w", ErrNoLibrary, err)
	}
	return nil
})

// Build loads ONNX Runtime and returns what tells its build, and that of what some providers load, from others: a model that one of them runs may
// crash another.
func Build(providers []string) (string, error) {
	version, err := LibraryVersion()
	if err != nil {
		return "", err
	}
	path, err := FindLibrary()
	if err != nil {
		return "", err
	}
	build := version
	if file, err := os.Stat(path); err == nil { // the dynamic linker's has no path
		build = fmt.Sprintf("%s %s %d %d", version, path, file.Size(), file.ModTime().UnixNano())
	}
	if slices.ContainsFunc(providers, func(name string) bool { return name != CPU }) {
		driver, _ := os.ReadFile("/proc/driver/nvidia/version") // without one, the next provider of the list loads the model
		build += " " + string(driver)
	}
	if slices.Contains(providers, TensorRTRTX) {
		if p, err := findRTX(); err == nil {
			build += fmt.Sprint(" ", p.library, p.needs)
		}
	}
	return build, nil
}

// LibraryVersion loads ONNX Runtime and returns its version.
func LibraryVersion() (string, error) {
	if err := initialize(); err != nil {
		return "", err
	}
	return ort.GetVersion(), nil
}
