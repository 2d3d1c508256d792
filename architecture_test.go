// Package sluice_test holds the module to its plan: how large a room may grow, and who may know whom (ARCHITECTURE.md).
package sluice_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/transform"
)

const (
	module = "github.com/sluiceml/sluice/"

	maxFileLines    = 500
	maxPackageLines = 4100
	maxPackageFiles = 40
)

// maxCompilerLines is for package dsl, in any number of files: the compiler of the language is one thing.
const maxCompilerLines = 7000

// room is a package: its files without tests, and what they import of the module.
type room struct {
	files, lines int
	imports      map[string]bool
	others       map[string]bool // packages of other modules
}

// rooms reads the module's packages. Generated files count for nothing, nested modules are none of its.
func rooms(t *testing.T) map[string]*room {
	t.Helper()
	all := map[string]*room{}
	walk(t, func(name string) error { return read(t, all, name) })
	return all
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

func read(t *testing.T, all map[string]*room, name string) error {
	t.Helper()
	source, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ImportsOnly|parser.ParseComments)
	if err != nil {
		return err
	}
	r := all[path.Dir(name)]
	if r == nil {
		r = &room{imports: map[string]bool{}, others: map[string]bool{}}
		all[path.Dir(name)] = r
	}
	for _, spec := range file.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			return err
		}
		host, _, _ := strings.Cut(imported, "/")
		switch below, ours := strings.CutPrefix(imported, module); {
		case ours:
			r.imports[below] = true
		case strings.Contains(host, "."): // the standard library's have none
			r.others[imported] = true
		}
	}
	if ast.IsGenerated(file) {
		return nil
	}
	lines := bytes.Count(source, []byte("\n"))
	r.files, r.lines = r.files+1, r.lines+lines
	if lines > maxFileLines {
		t.Errorf("%s has %d lines; %d are enough for one thing", name, lines, maxFileLines)
	}
	return nil
}

// TestPackageSize: a package is small enough to be known by who works on it.
func TestPackageSize(t *testing.T) {
	for name, r := range rooms(t) {
		lines, files := maxPackageLines, maxPackageFiles
		if name == "dsl" {
			lines, files = maxCompilerLines, r.files
		}
		if r.lines > lines || r.files > files {
			t.Errorf("%s has %d lines in %d files, more than %d in %d", name, r.lines, r.files, lines, files)
		}
	}
}

// TestTopFoldersAreLayered: of two top folders at most one needs the other. Packages of internal stand each at its own height, which depguard
// knows (.golangci.yml).
func TestTopFoldersAreLayered(t *testing.T) {
	uses := map[[2]string][]string{}
	for name, r := range rooms(t) {
		for imported := range r.imports {
			from, to := top(name), top(imported)
			if from != to && from != "internal" && to != "internal" {
				uses[[2]string{from, to}] = append(uses[[2]string{from, to}], name+" imports "+imported)
			}
		}
	}
	for pair, there := range uses {
		back, both := uses[[2]string{pair[1], pair[0]}]
		if both && pair[0] < pair[1] {
			slices.Sort(there)
			slices.Sort(back)
			t.Errorf("%s and %s need each other: %s; %s", pair[0], pair[1], strings.Join(there, ", "), strings.Join(back, ", "))
		}
	}
}

func top(name string) string {
	first, _, _ := strings.Cut(name, "/")
	return first
}

// TestImports: each package imports what imports.txt has for it, and nothing else. A new package, and a new tie, has to be placed there.
func TestImports(t *testing.T) {
	text, err := os.ReadFile("imports.txt")
	if err != nil {
		t.Fatal(err)
	}
	all := rooms(t)
	placed := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		name, may, ok := strings.Cut(strings.TrimSpace(line), ":")
		if strings.HasPrefix(name, "#") {
			continue
		}
		ours, others, both := strings.Cut(may, "|")
		r := all[name]
		if !ok || !both || r == nil || placed[name] {
			t.Errorf("imports.txt: this is no line of a package, or its second: %s", line)
			continue
		}
		placed[name] = true
		if want := slices.Sorted(maps.Keys(r.imports)); !slices.Equal(want, strings.Fields(ours)) {
			t.Errorf("imports.txt: %s imports %s", name, strings.Join(want, " "))
		}
		modules := strings.Fields(others)
		for imported := range r.others {
			if !slices.ContainsFunc(modules, func(m string) bool { return isOf(imported, m) }) {
				t.Errorf("imports.txt: %s imports %s", name, imported)
			}
		}
		for _, m := range modules {
			if imported := slices.Collect(maps.Keys(r.others)); !slices.ContainsFunc(imported, func(i string) bool { return isOf(i, m) }) {
				t.Errorf("imports.txt: %s imports nothing of %s", name, m)
			}
		}
	}
	for name := range all {
		if !placed[name] {
			t.Errorf("imports.txt has no line for %s", name)
		}
	}
}

// isOf reports whether a package is a module's, or the package of that name or one below it.
func isOf(imported, module string) bool {
	return imported == module || strings.HasPrefix(imported, module+"/")
}

// without is what packages, with all that they need of the module, must not link: what is printed and reported is data, which can be read
// where no Temporal is, and the agent is small and static.
var without = map[string][]string{
	"cmd/sluice-agent":    {"github.com/google/cel-go", "github.com/apache/beam", "go.temporal.io/server", "github.com/yalue/onnxruntime_go"},
	"cmd/sluice/view":     {"go.temporal.io"},
	"report":              {"go.temporal.io"},
	"pipelines":           {"go.temporal.io"},
	"training/protocol":   {"go.temporal.io"},
	"training/policy":     {"go.temporal.io"},
	"training/checkpoint": {"go.temporal.io"},
	"training/delivery":   {"go.temporal.io"},
	"training/local":      {"go.temporal.io"},
	"training/ec2":        {"go.temporal.io"},
	"training/kubernetes": {"go.temporal.io"},
	"store/registry":      {"go.temporal.io", "github.com/google/cel-go"},
}

// TestWithout: no listed package imports what it must not, directly or by another package of the module.
func TestWithout(t *testing.T) {
	all := rooms(t)
	for name, others := range without {
		if all[name] == nil {
			t.Errorf("there is no package %s", name)
			continue
		}
		below := []string{name}
		for i := 0; i < len(below); i++ {
			for imported := range all[below[i]].others {
				if slices.ContainsFunc(others, func(m string) bool { return isOf(imported, m) }) {
					t.Errorf("%s links %s, by %s", name, imported, below[i])
				}
			}
			for imported := range all[below[i]].imports {
				if !slices.Contains(below, imported) {
					below = append(below, imported)
				}
			}
		}
	}
}

// kindFiles are the files that name kinds of steps: the lists of kinds, and few besides. A new kind is in few places.
var kindFiles = []string{
	"activities/engine/kinds.go", "dsl/kinds.go", "report/kinds.go", "workflows/kinds.go", // the lists
	"activities/program.go", "cmd/sluice/data/data.go", "cmd/sluice/runs/logs.go", "cmd/sluice/runs/logs_training.go",
	"cmd/sluice/runs/show.go",
	"cmd/sluice/serve/doctor_pipeline.go", "cmd/sluice/view/outputs.go", "control/watch.go", "dsl/block.go",
	"store/record/training.go", "training/agent/ranks.go",
}

// TestKindsAreInLists: what differs from kind to kind stands in lists that a test walks.
func TestKindsAreInLists(t *testing.T) {
	kind := regexp.MustCompile(`\bspec\.Kind[A-Z]`)
	var naming []string
	walk(t, func(name string) error {
		source, err := os.ReadFile(name)
		if kind.Match(source) {
			naming = append(naming, name)
		}
		return err
	})
	slices.Sort(naming)
	if diff := cmp.Diff(slices.Sorted(slices.Values(kindFiles)), naming); diff != "" {
		t.Errorf("the files that name kinds of steps (-may +do):\n%s", diff)
	}
}

// TestTransformsAreInLists: the language and the cleaning list the transforms by name once each. A benchmark writes pipelines.
func TestTransformsAreInLists(t *testing.T) {
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
