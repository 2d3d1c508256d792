package dsl

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strings"
	"testing"
)

// comments are the doc comments of the structs of this package and of those below it: of a type under "Type", of a field under "Type.Field".
func comments(t *testing.T) map[string]string {
	t.Helper()
	found := map[string]string{}
	for _, tree := range sources(t, parser.ParseComments) {
		ast.Inspect(tree, func(n ast.Node) bool {
			decl, ok := n.(*ast.GenDecl)
			if !ok {
				return true
			}
			for _, s := range decl.Specs {
				if spec, ok := s.(*ast.TypeSpec); ok {
					addComments(found, decl, spec)
				}
			}
			return true
		})
	}
	return found
}

// sources are the files of this package and of those below it, without tests.
func sources(t *testing.T, mode parser.Mode) []*ast.File {
	t.Helper()
	var trees []*ast.File
	err := filepath.WalkDir(".", func(path string, f fs.DirEntry, err error) error {
		if err != nil || f.IsDir() && f.Name() == "testdata" {
			return cmp.Or(err, fs.SkipDir)
		}
		if f.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
			return nil
		}
		tree, err := parser.ParseFile(token.NewFileSet(), path, nil, mode)
		trees = append(trees, tree)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return trees
}

func addComments(found map[string]string, decl *ast.GenDecl, spec *ast.TypeSpec) {
	found[spec.Name.Name] = oneLine(decl.Doc.Text(), spec.Name.Name)
	body, ok := spec.Type.(*ast.StructType)
	if !ok {
		return
	}
	last := ""
	for _, f := range body.Fields.List {
		// A comment over the first of several fields, such as Min and Max, is about all of them.
		if text := f.Doc.Text() + f.Comment.Text(); text != "" {
			last = text
		}
		for _, name := range f.Names {
			found[spec.Name.Name+"."+name.Name] = oneLine(last, name.Name)
		}
	}
}

// oneLine drops the Go name that a comment begins with where the rest stands alone: "Port is where it listens" becomes "Where it
// listens", "Retry says how often" becomes "Says how often", and "Split of the dataset" stays.
func oneLine(text, name string) string {
	text = strings.Join(strings.Fields(text), " ")
	if rest, ok := strings.CutPrefix(text, name+": "); ok {
		return rest
	}
	rest, ok := strings.CutPrefix(text, name+" ")
	verb, object, _ := strings.Cut(rest, " ")
	switch {
	case !ok:
		return text
	case verb == "is" || verb == "are":
		rest = object
	case !strings.HasSuffix(verb, "s"):
		return text
	}
	if word, _, _ := strings.Cut(rest, " "); strings.ContainsAny(word, "/:") {
		return rest
	}
	return strings.ToUpper(rest[:1]) + rest[1:]
}
