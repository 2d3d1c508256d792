package control

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

func TestReadDocument(t *testing.T) {
	dir := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	if got, err := ReadDocument(write("p.yaml", "name: p\n")); err != nil || string(got) != "name: p\n" {
		t.Errorf("got %q, %v", got, err)
	}
	if got, err := ReadDocument(write("large.yaml", strings.Repeat("#", document.MaxSource+10))); err != nil || len(got) != document.MaxSource+1 {
		t.Errorf("of a large file %d bytes were read, %v", len(got), err)
	}
	if _, err := ReadDocument(filepath.Join(dir, "none")); !errors.Is(err, fs.ErrNotExist) || strings.Contains(err.Error(), "stat") {
		t.Errorf("a missing file: %v", err)
	}
	pipe := filepath.Join(dir, "pipe")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, pipe, "/dev/zero"} {
		if _, err := ReadDocument(path); err == nil || !strings.Contains(err.Error(), path+" is not a file") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

// TestEnvironmentName: a name stands for a file beside the pipeline, a file of that name goes first, and where the folder lies makes no
// other submission of it.
func TestEnvironmentName(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{"p.yaml": "name: p\n", "environments/lab.yaml": "name: lab\n", "own.yml": "name: own\n"} {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	pipeline := filepath.Join(dir, "p.yaml")
	for env, want := range map[string]string{"lab": "environments/lab.yaml", filepath.Join(dir, "own.yml"): "own.yml", "": ""} {
		_, e, err := ReadDocuments(pipeline, env)
		if err != nil {
			t.Errorf("%q: %v", env, err)
		}
		sub := packed(record.Submission{File: pipeline, EnvFile: e.Name})
		if sub.File != "p.yaml" || sub.EnvFile != want {
			t.Errorf("%q: the files are %s and %s, want %s", env, sub.File, sub.EnvFile, want)
		}
	}
	if _, _, err := ReadDocuments(pipeline, "prod"); fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "environments/prod.yaml") {
		t.Errorf("an environment that is not there: %v", err)
	}
}

func TestIsEnvironment(t *testing.T) {
	for source, want := range map[string]bool{
		"sluice: environment/v1\nname: lab\n":                        true,
		"%YAML 1.2\n---\n\"sluice\" : 'environment/v1'\n":            true,
		"{sluice: environment/v1, name: lab}":                        true,
		"{\n  \"sluice\": \"environment/v1\",\n  \"name\": \"a\"\n}": true,
		"sluice: pipeline/v1\nname: lab\n":                           false,
		"sluice: pipeline/v1\nsteps:\n  a:\n    run:\n      script: |\n        cat > e.yaml <<END\n        sluice: environment/v1\n        END\n": false,
	} {
		if got := IsEnvironment([]byte(source)); got != want {
			t.Errorf("%q is an environment: %v", source, got)
		}
	}
}
