package worker

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestIgnore(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".sluiceignore")
	if err := os.WriteFile(file, []byte("# a comment\n\n*.pt\n  data/raw/ \n/build\ndocs/*.md\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := readIgnore(file)
	if err != nil {
		t.Fatal(err)
	}
	tests := []struct {
		path string
		want bool
	}{
		{"train.py", false},
		{"a.pt", true},
		{"models/deep/a.pt", true},
		{"a.pts", false},
		{"data", false},
		{"data/raw", true},
		{"data/raw/mail.json", true},
		{"data/raw2", false},
		{"other/data/raw", false}, // a path is the workspace's
		{"build/x", true},
		{"docs/readme.md", true},
		{"docs/deep/readme.md", false},
		{"# a comment", false},
		{".git/config", true},
		{"lib/__pycache__/a.pyc", true},
		{".sluice", true},
		{".venv/bin/python3", true},
		{"web/node_modules/x", true},
		{".gitignore", false},
	}
	for _, tt := range tests {
		if got := out(tt.path); got != tt.want {
			t.Errorf("%s: left out is %v, want %v", tt.path, got, tt.want)
		}
	}
}

func TestIgnoreWithoutFile(t *testing.T) {
	out, err := readIgnore(filepath.Join(t.TempDir(), ".sluiceignore"))
	if err != nil {
		t.Fatal(err)
	}
	if out("train.py") || !out(".git") {
		t.Errorf("left out: train.py %v, .git %v", out("train.py"), out(".git"))
	}
}

func TestIgnoreRefusesABrokenPattern(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".sluiceignore")
	if err := os.WriteFile(file, []byte("*.pt\n[a-\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readIgnore(file); err == nil || !strings.Contains(err.Error(), file+":2:") {
		t.Errorf("got %v, want an error at %s:2", err, file)
	}
}

// A state folder that is not called .sluice is no part of the pipeline either.
func TestTheStateFolderIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	for state, want := range map[string]bool{filepath.Join(dir, "state"): true, filepath.Join(dir, "a", "state"): false, t.TempDir(): false} {
		out, err := leftOut(dir, state)
		if err != nil {
			t.Fatal(err)
		}
		if got := out("state"); got != want {
			t.Errorf("with the state in %s: `state` is left out: %v, want %v", state, got, want)
		}
		if !out(".git") || out("train.py") {
			t.Errorf("with the state in %s: .git is left out: %v, train.py: %v", state, out(".git"), out("train.py"))
		}
	}
}

// What is in another state folder is for nobody to have, and environments are for other runs.
func TestOthersFoldersAreLeftOut(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		".sluice-lab/lock": "", ".sluice-lab/token": "secret", "mine/token": "a word", "environments/prod.yaml": "sluice: environment/v1\n",
		"environments/gym.yaml": "agents: 3\n", "environments/cart.py": "", "other/prod.yaml": "sluice: environment/v1\n",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	out, err := leftOut(dir, filepath.Join(dir, ".sluice"))
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]bool{
		".sluice-lab": true, "mine": false, "environments": false, "environments/prod.yaml": true, "environments/gym.yaml": false,
		"environments/cart.py": false, "other/prod.yaml": false,
	} {
		if got := out(p); got != want {
			t.Errorf("%s is left out: %v, want %v", p, got, want)
		}
	}
}

// A file that this process writes to is no part of the pipeline, by whatever name; one that it has written before is.
func TestOwnOutputIsLeftOut(t *testing.T) {
	dir := t.TempDir()
	log, err := os.Create(filepath.Join(dir, "run.log"))
	if err != nil {
		t.Fatal(err)
	}
	defer log.Close()
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "old.log"), nil, 0o600), os.Symlink("run.log", filepath.Join(dir, "link"))); err != nil {
		t.Fatal(err)
	}
	null, err := os.OpenFile(os.DevNull, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer null.Close()
	own := outputs(dir, null, log)
	for path, want := range map[string]bool{"run.log": true, "link": true, "old.log": false, "nothing": false} {
		if got := own(path); got != want {
			t.Errorf("%s: left out is %v, want %v", path, got, want)
		}
	}
}
