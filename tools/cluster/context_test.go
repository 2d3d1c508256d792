package main

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"
)

const root = "../.."

// The image is built of what .dockerignore leaves: whatever the programs consist of, and what the Dockerfile copies, has to be there.
func TestBuildContext(t *testing.T) {
	dir := copyContext(t)
	dockerfile, err := os.ReadFile(filepath.Join(root, "Dockerfile"))
	if err != nil {
		t.Fatal(err)
	}
	args := []string{"list", "-deps"}
	for _, found := range regexp.MustCompile(`go build .* (\./cmd/\S+)`).FindAllSubmatch(dockerfile, -1) {
		args = append(args, string(found[1]))
	}
	if len(args) != 5 {
		t.Errorf("the Dockerfile builds %s, want three programs", args[2:])
	}
	list := exec.CommandContext(t.Context(), "go", args...)
	list.Dir = dir
	if out, err := list.CombinedOutput(); err != nil {
		t.Errorf("go %s: %v\n%s", strings.Join(args, " "), err, out[max(0, len(out)-2000):])
	}
	for _, found := range regexp.MustCompile(`(?m)^COPY ([^-].*) \S+$`).FindAllSubmatch(dockerfile, -1) {
		for file := range strings.FieldsSeq(string(found[1])) {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				t.Errorf("the Dockerfile copies %s, which .dockerignore leaves out", file)
			}
		}
	}
}

// copyContext copies what Docker would send to be built.
func copyContext(t *testing.T) (dir string) {
	t.Helper()
	file, err := os.Open(filepath.Join(root, ".dockerignore"))
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	patterns, err := ignorefile.ReadAll(file)
	if err != nil {
		t.Fatal(err)
	}
	matcher, err := patternmatcher.New(patterns)
	if err != nil {
		t.Fatal(err)
	}
	dir = t.TempDir()
	err = filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, path)
		if err != nil || rel == "." {
			return err
		}
		ignored, err := matcher.MatchesOrParentMatches(rel)
		switch below := "!" + rel + "/"; {
		case err != nil:
			return err
		case entry.IsDir() && ignored && !slices.ContainsFunc(patterns, func(p string) bool { return strings.HasPrefix(p, below) }):
			return fs.SkipDir
		case entry.IsDir():
			return os.MkdirAll(filepath.Join(dir, rel), 0o700)
		case ignored:
			return nil
		}
		raw, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(filepath.Join(dir, rel), raw, 0o600)
	})
	if err != nil {
		t.Fatal(err)
	}
	return dir
}
