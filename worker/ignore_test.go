package worker

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/store"
)

func TestIgnore(t *testing.T) {
	file := filepath.Join(t.TempDir(), ".sluiceignore")
	if err := os.WriteFile(file, []byte("# a comment\n\n*.pt\n  data/raw/ \n/build\ndocs/*.md\r\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	rules, err := readIgnore(file)
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
		if got := leftOut(rules, tt.path); got != tt.want {
			t.Errorf("%s: left out is %v, want %v", tt.path, got, tt.want)
		}
	}
}

// leftOut reports whether rules leave a path out.
func leftOut(rules []rule, p string) bool {
	last := lastMatch(rules, p)
	return last != nil && !last.take
}

// TestSecretsStayOut: what seems to hold secrets, and what this process reads some from, stays out unless it is asked for.
func TestSecretsStayOut(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{".env", ".env.local", "sub/.env", "tls/server.pem", "id_rsa", "ID_RSA.bak", "prod.env", ".aws/credentials", "team.keys", "train.py", "public.pem", "envs/a.py"} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, nil, 0o600)); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, ".sluiceignore"), []byte("!public.pem\n!.git\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	folder, err := workspaceOf(dir, t.TempDir(), []string{filepath.Join(dir, "team.keys")})
	if err != nil {
		t.Fatal(err)
	}
	files, err := store.ListTree(t.Context(), dir, folder.leavesOut)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range files {
		names = append(names, f.Path)
	}
	if diff := cmp.Diff([]string{".sluiceignore", "envs/a.py", "public.pem", "train.py"}, names); diff != "" {
		t.Errorf("taken along (-want +got):\n%s", diff)
	}
	slices.Sort(folder.withheld)
	if diff := cmp.Diff([]string{".aws", ".env", ".env.local", "ID_RSA.bak", "id_rsa", "prod.env", "sub/.env", "team.keys", "tls/server.pem"}, folder.withheld); diff != "" {
		t.Errorf("withheld (-want +got):\n%s", diff)
	}
	if !folder.leavesOut(".git") {
		t.Error(".git is taken along")
	}
}

func TestIgnoreWithoutFile(t *testing.T) {
	rules, err := readIgnore(filepath.Join(t.TempDir(), ".sluiceignore"))
	if err != nil {
		t.Fatal(err)
	}
	if leftOut(rules, "train.py") || !leftOut(rules, ".git") {
		t.Errorf("left out: train.py %v, .git %v", leftOut(rules, "train.py"), leftOut(rules, ".git"))
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
		folder, err := workspaceOf(dir, state, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := folder.leavesOut("state"); got != want {
			t.Errorf("with the state in %s: `state` is left out: %v, want %v", state, got, want)
		}
		if !folder.leavesOut(".git") || folder.leavesOut("train.py") {
			t.Errorf("with the state in %s: .git is left out: %v, train.py: %v", state, folder.leavesOut(".git"), folder.leavesOut("train.py"))
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
	folder, err := workspaceOf(dir, filepath.Join(dir, ".sluice"), nil)
	if err != nil {
		t.Fatal(err)
	}
	for p, want := range map[string]bool{
		".sluice-lab": true, "mine": false, "environments": false, "environments/prod.yaml": true, "environments/gym.yaml": false,
		"environments/cart.py": false, "other/prod.yaml": false,
	} {
		if got := folder.leavesOut(p); got != want {
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
	info, err := log.Stat()
	if err != nil {
		t.Fatal(err)
	}
	own := func(path string) bool { return isOne(filepath.Join(dir, path), []os.FileInfo{info}) }
	for path, want := range map[string]bool{"run.log": true, "link": true, "old.log": false, "nothing": false} {
		if got := own(path); got != want {
			t.Errorf("%s: left out is %v, want %v", path, got, want)
		}
	}
}
