package repotest

import (
	"archive/tar"
	"compress/gzip"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// layout is the one file that spells the prefixes of keys in the store.
const layout = "store/layout.go"

// prefixes reads the table of the layout: its string constants, each with what lies there.
func prefixes(t *testing.T) []string {
	t.Helper()
	var all []string
	ast.Inspect(parse(t, layout), func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, value := range spec.Values {
			prefix := literal(value)
			if !strings.HasSuffix(prefix, "/") && !strings.HasSuffix(prefix, ".json") || spec.Comment.Text() == "" {
				t.Errorf("%s: %s is %q; it must be a prefix or a key, with a comment that says what lies there", layout, spec.Names[i], prefix)
				continue
			}
			for _, other := range all {
				if strings.HasPrefix(prefix, other) || strings.HasPrefix(other, prefix) {
					t.Errorf("%s: %q and %q overlap", layout, other, prefix)
				}
			}
			all = append(all, prefix)
		}
		return false
	})
	if len(all) == 0 {
		t.Fatalf("%s has no prefixes", layout)
	}
	return all
}

// TestOneLayout: whoever looks for what is in a store, or adds to it, finds all of it in one table. Tests spell keys, so that a prefix that
// changes its spelling breaks them.
func TestOneLayout(t *testing.T) {
	atRoot(t)
	all := prefixes(t)
	walk(t, func(name string) error {
		file := parse(t, name)
		if name == layout || imports(file, "testing") {
			return nil
		}
		ast.Inspect(file, func(n ast.Node) bool {
			text := ""
			switch n := n.(type) {
			case *ast.BasicLit:
				text = literal(n)
			case *ast.CallExpr: // path.Join("runs", run)
				if f, ok := n.Fun.(*ast.SelectorExpr); ok && f.Sel.Name == "Join" && len(n.Args) > 0 && named(f.X, "path") {
					text = literal(n.Args[0]) + "/"
				}
			}
			for _, prefix := range all {
				if strings.HasPrefix(text, prefix) {
					t.Errorf("%s spells the prefix %q of a store's keys; take it from %s", name, prefix, layout)
				}
			}
			return true
		})
		return nil
	})
}

// TestEarlierLayout: what an earlier build has left in a store is where the table says.
func TestEarlierLayout(t *testing.T) {
	atRoot(t)
	all, found := prefixes(t), 0
	f, err := os.Open("integration/testdata/state.tar.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	unzipped, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	archive := tar.NewReader(unzipped)
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		key, isObject := strings.CutPrefix(header.Name, "state/store/")
		if !isObject || header.Typeflag == tar.TypeDir {
			continue
		}
		found++
		if !slices.ContainsFunc(all, func(prefix string) bool { return strings.HasPrefix(key, prefix) }) {
			t.Errorf("%s is under no prefix of %s", key, layout)
		}
	}
	if found == 0 {
		t.Error("the archive has no store")
	}
}

func parse(t *testing.T, name string) *ast.File {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	return file
}

// literal is the text of a string literal; empty for anything else.
func literal(n ast.Expr) string {
	lit, ok := n.(*ast.BasicLit)
	if !ok || lit.Kind != token.STRING {
		return ""
	}
	text, _ := strconv.Unquote(lit.Value)
	return text
}

func named(n ast.Expr, name string) bool {
	id, ok := n.(*ast.Ident)
	return ok && id.Name == name
}

func imports(file *ast.File, name string) bool {
	return slices.ContainsFunc(file.Imports, func(spec *ast.ImportSpec) bool { return literal(spec.Path) == name })
}
