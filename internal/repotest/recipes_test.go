package repotest

import (
	"cmp"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// recipes are those of CONTRIBUTING.md. The patch of each, testdata/recipes/<what>.patch, does what it says.
var recipes = []struct {
	what, name string
	tests      [][]string // arguments of go test
}{
	{"kind", "wait", [][]string{{"./activities/engine", "./report", "./workflows"}, {"./cmd/sluice", "-run", "TestScripts/wait"}}},
	{"transform", "truncate", [][]string{{"./pipelines/transform"}, {"./pipelines", "-run", "TestVersion|TestFixture|TestScripts"}}},
	{"target", "replicated", [][]string{{"./serving/replicated"}, {"./worker", "-run", "TestGateways"}}},
}

// TestRecipes adds a kind, a transform and a target to a copy of the tree. A recipe names all files that its patch touches, beside tests
// and what is generated, and no others. With SLUICE_TEST_LONG the copy is built, and its tests pass.
func TestRecipes(t *testing.T) {
	atRoot(t)
	tree := copyTree(t)
	for _, r := range recipes {
		t.Run(r.what, func(t *testing.T) {
			patch, err := filepath.Abs("internal/repotest/testdata/recipes/" + r.what + ".patch")
			if err != nil {
				t.Fatal(err)
			}
			command(t, tree, "git", "apply", "-C1", patch)
			touched := touchedBy(t, patch)
			var named []string
			for _, name := range namedBy(t, r.what) {
				named = append(named, strings.ReplaceAll(name, "<"+r.what+">", r.name))
			}
			for _, file := range touched {
				if !slices.ContainsFunc(named, func(name string) bool { return covers(name, file) }) {
					t.Errorf("CONTRIBUTING.md does not name %s", file)
				}
			}
			for _, name := range named {
				if !slices.ContainsFunc(touched, func(file string) bool { return covers(name, file) }) {
					t.Errorf("the patch does not touch %s, which CONTRIBUTING.md names", name)
				}
			}
		})
	}
	if t.Failed() || os.Getenv("SLUICE_TEST_LONG") == "" {
		return
	}
	command(t, tree, "go", "build", "-o", "bin/", "./cmd/sluice", "./cmd/sluice-agent")
	command(t, tree, "go", "generate", "./dsl")
	command(t, tree, "go", "test", "./pipelines", "-run", "TestVersion|TestScripts", "-update")
	command(t, tree, "go", "test", "-skip", "TestRecipes", "./internal/repotest", "./dsl/...")
	for _, r := range recipes {
		for _, args := range r.tests {
			command(t, tree, "go", append([]string{"test"}, args...)...)
		}
	}
}

// covers reports whether a file is the one of that name, its test, or in the folder of that name.
func covers(name, file string) bool {
	return file == name || file == strings.TrimSuffix(name, ".go")+"_test.go" || path.Dir(file) == name
}

// namedBy are the paths that the steps of a recipe name.
func namedBy(t *testing.T, what string) (names []string) {
	t.Helper()
	text, err := os.ReadFile("CONTRIBUTING.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, found := strings.Cut(string(text), "\n## Add a "+what)
	if !found {
		t.Fatalf("CONTRIBUTING.md does not say how to add a %s", what)
	}
	section, _, _ = strings.Cut(section, "\n## ")
	for _, step := range regexp.MustCompile(`(?m)^\d\. .*\n(   .*\n)*`).FindAllString(section, -1) {
		for _, name := range regexp.MustCompile("`([^` ]+/[^` ]+)`").FindAllStringSubmatch(step, -1) {
			names = append(names, name[1])
		}
	}
	return names
}

// touchedBy are the files that a patch touches.
func touchedBy(t *testing.T, patch string) (files []string) {
	t.Helper()
	text, err := os.ReadFile(patch)
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range regexp.MustCompile(`(?m)^\+\+\+ b/(.*)$`).FindAllStringSubmatch(string(text), -1) {
		files = append(files, file[1])
	}
	return files
}

// copyTree copies the files of the repository to a folder of the test's.
func copyTree(t *testing.T) string {
	t.Helper()
	tree := t.TempDir()
	list, err := exec.CommandContext(t.Context(), "git", "ls-files", "-z", "--cached", "--others", "--exclude-standard").Output()
	if err != nil {
		t.Fatalf("list the files of the repository: %v", err)
	}
	for name := range strings.SplitSeq(strings.TrimRight(string(list), "\x00"), "\x00") {
		info, err := os.Lstat(name)
		if os.IsNotExist(err) { // deleted, and that not committed yet
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		data, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		to := filepath.Join(tree, name)
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(to, data, info.Mode().Perm()); err != nil {
			t.Fatal(err)
		}
	}
	return tree
}

// command runs a command in the tree.
func command(t *testing.T, tree, name string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir = tree
	python, err := filepath.Abs(cmp.Or(os.Getenv("SLUICE_PYTHON_ENV"), ".venv"))
	if err != nil {
		t.Fatal(err)
	}
	// The tree is no repository, wherever it lies.
	cmd.Env = append(os.Environ(), "SLUICE_PYTHON_ENV="+python, "SLUICE_BIN="+filepath.Join(tree, "bin"), "GIT_CEILING_DIRECTORIES="+filepath.Dir(tree))
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%s %s: %v\n%s", name, strings.Join(args, " "), err, out)
	}
}
