package pipelines_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/pipelines"
)

func TestMain(m *testing.M) {
	pipelines.WorkerMain()
	if len(os.Args) > 1 && os.Args[1] == pipelines.Arg {
		if err := clean(); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

// clean is the child process of a job, as a test wants it.
func clean() error {
	if err := errors.Join(setVariables(), limitFiles()); err != nil {
		return err
	}
	if runner := os.Getenv(runnerVariable); runner != "" {
		pipelines.RunOn(runner)
	}
	reportBatch := sortLess()
	if err := pipelines.Main(context.Background(), os.Stdin, os.Stdout); err != nil {
		return err
	}
	reportPeak()
	return reportBatch()
}

// Beside a program that childWith returns lies what its environment is to have besides, and what Run gave it.
const (
	variablesFile = "variables"
	environFile   = "environ"
)

// childWith returns the program of a job's child, this test's own binary, with variables that Run would not give it: NAME=VALUE.
func childWith(t testing.TB, variables ...string) (exe string) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	exe = filepath.Join(write(t, map[string]string{variablesFile: strings.Join(variables, "\n")}), "child")
	if err := os.Symlink(self, exe); err != nil {
		t.Fatal(err)
	}
	return exe
}

func setVariables() error {
	dir := filepath.Dir(os.Args[0])
	text, err := os.ReadFile(filepath.Join(dir, variablesFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	err = errors.Join(err, os.WriteFile(filepath.Join(dir, environFile), []byte(strings.Join(os.Environ(), "\n")), 0o600))
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		err = errors.Join(err, os.Setenv(name, value))
	}
	return err
}
