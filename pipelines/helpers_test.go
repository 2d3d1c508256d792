package pipelines_test

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines"
)

// chain reads a list of transforms written as in a pipeline; INPUT stands for the input's folder.
func chain(t testing.TB, input, text string) spec.Clean {
	t.Helper()
	var list []map[string]any
	if err := yaml.Unmarshal([]byte(text), &list); err != nil {
		t.Fatal(err)
	}
	sp := spec.Clean{}
	for _, item := range list {
		text, err := json.Marshal(item)
		if err != nil {
			t.Fatal(err)
		}
		var transform spec.Transform
		if err := json.Unmarshal([]byte(strings.ReplaceAll(string(text), "INPUT", input)), &transform); err != nil {
			t.Fatal(err)
		}
		sp.Transforms = append(sp.Transforms, transform)
	}
	return sp
}

// job returns a job over the spec whose folders are new.
func job(dir string, spec spec.Clean) pipelines.Job {
	return pipelines.Job{
		Spec: spec, OutputDir: filepath.Join(dir, "out"), DeadLetterDir: filepath.Join(dir, "rejected"), Parallelism: 2,
	}
}

// run runs a job in a child process, this test's own binary.
func run(t testing.TB, j pipelines.Job) (spec.CleanOutput, error) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	return pipelines.Run(ctx, exe, j, nil)
}

// mustRun is run for jobs that succeed.
func mustRun(t testing.TB, j pipelines.Job) spec.CleanOutput {
	t.Helper()
	out, err := run(t, j)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// write writes files, by name, into a new folder.
func write(t testing.TB, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// lines reads the rows of the files a pattern matches.
func lines(t testing.TB, pattern string) []map[string]any {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil {
		t.Fatal(err)
	}
	var rows []map[string]any
	for _, path := range paths {
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(string(text)) {
			var row map[string]any
			if err := json.Unmarshal([]byte(line), &row); err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			rows = append(rows, row)
		}
	}
	return rows
}

// treeDigest is one digest of all files of a folder, by their names.
func treeDigest(t testing.TB, dir string) string {
	t.Helper()
	h := sha256.New()
	err := filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		fmt.Fprintf(h, "%s %d\n%s", strings.TrimPrefix(path, dir), len(text), text)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%x", h.Sum(nil))
}

// names lists what is in a folder; a missing one has nothing in it.
func names(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	list := []string{}
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// fewerChecks bounds the checks of a property for one test, of which each starts a process.
func fewerChecks(t *testing.T, n string) {
	t.Helper()
	checks := flag.Lookup("rapid.checks")
	before := checks.Value.String()
	t.Cleanup(func() {
		if err := checks.Value.Set(before); err != nil {
			t.Error(err)
		}
	})
	if err := checks.Value.Set(n); err != nil {
		t.Fatal(err)
	}
}

// errorType returns the type of a job's error.
func errorType(err error) string {
	var e *fault.Error
	if errors.As(err, &e) {
		return e.Type
	}
	return ""
}

// await returns when another process has made something, or fails when it takes too long.
func await(t *testing.T, what string, there func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	again := time.NewTicker(2 * time.Millisecond)
	defer again.Stop()
	for !there() {
		select {
		case <-again.C:
		case <-ctx.Done():
			t.Errorf("there is no %s after a minute", what)
			return
		}
	}
}
