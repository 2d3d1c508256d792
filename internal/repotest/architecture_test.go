// Package repotest tests the repository itself: its documentation, the layout of its store, what its programs link.
package repotest

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/transform"
)

// atRoot makes the repository's root a test's working directory: all paths of these tests start there.
func atRoot(t *testing.T) {
	t.Helper()
	t.Chdir("../..")
}

// walk visits the module's Go files but its tests.
func walk(t *testing.T, visit func(name string) error) {
	t.Helper()
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name == "." {
				return nil
			}
			_, nested := os.Stat(filepath.Join(name, "go.mod"))
			if base := d.Name(); nested == nil || strings.HasPrefix(base, ".") || base == "testdata" || base == "node_modules" {
				return fs.SkipDir
			}
			return nil
		}
		if !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return nil
		}
		return visit(filepath.ToSlash(name))
	})
	if err != nil {
		t.Fatal(err)
	}
}

// TestAgentLinks: the node agent is small and static. depguard sees direct imports only.
func TestAgentLinks(t *testing.T) {
	atRoot(t)
	out, err := exec.CommandContext(t.Context(), "go", "list", "-deps", "./cmd/sluice-agent").Output()
	if err != nil {
		t.Fatal(err)
	}
	linked := strings.Fields(string(out))
	if !slices.Contains(linked, "github.com/sluiceml/sluice/training/agent") {
		t.Fatalf("the agent links %d packages, and not its own", len(linked))
	}
	for _, module := range []string{
		"github.com/apache/beam", "github.com/google/cel-go", "github.com/yalue/onnxruntime_go", "go.temporal.io/server",
		"github.com/sluiceml/sluice/control", "github.com/sluiceml/sluice/dsl/expr", "github.com/sluiceml/sluice/worker",
	} {
		if slices.ContainsFunc(linked, func(p string) bool { return p == module || strings.HasPrefix(p, module+"/") }) {
			t.Errorf("the agent links %s", module)
		}
	}
}

// TestTransformsAreInLists: the language and the cleaning list the transforms by name once each. A benchmark writes pipelines.
func TestTransformsAreInLists(t *testing.T) {
	atRoot(t)
	naming := map[string]bool{}
	walk(t, func(name string) error {
		source, err := os.ReadFile(name)
		for _, typ := range transform.Types() {
			if bytes.Contains(source, []byte(strconv.Quote(typ))) && !strings.HasPrefix(name, "bench/") {
				naming[name] = true
			}
		}
		return err
	})
	want := []string{"dsl/transform/transform.go", "pipelines/transform/transform.go"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(naming))); diff != "" {
		t.Errorf("the files that name transforms (-may +do):\n%s", diff)
	}
}

// TestWhereToLook: what the table of ARCHITECTURE.md names is there.
func TestWhereToLook(t *testing.T) {
	atRoot(t)
	text, err := os.ReadFile("ARCHITECTURE.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile("(?m)^\\|[^|]*\\| ([a-z/]+\\.go) \\| `([A-Za-z]+)` \\|$").FindAllStringSubmatch(string(text), -1)
	if len(rows) < 12 {
		t.Errorf("the table has %d rows", len(rows))
	}
	for _, row := range rows {
		file, err := parser.ParseFile(token.NewFileSet(), row[1], nil, parser.SkipObjectResolution)
		if err != nil {
			t.Error(err)
			continue
		}
		if !slices.ContainsFunc(file.Decls, func(d ast.Decl) bool {
			f, ok := d.(*ast.FuncDecl)
			return ok && f.Name.Name == row[2]
		}) {
			t.Errorf("%s has no function %s", row[1], row[2])
		}
	}
}
