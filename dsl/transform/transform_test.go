package transform_test

import (
	"bytes"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/dsl/transform"
)

// TestConfigsAreTransforms: code tells transforms apart by their configs.
func TestConfigsAreTransforms(t *testing.T) {
	of := map[reflect.Type]string{}
	for _, typ := range transform.Types() {
		config := reflect.TypeOf(transform.Config(typ))
		if other := of[config]; other != "" {
			t.Errorf("%s and %s have one config, %s", other, typ, config)
		}
		of[config] = typ
	}
	if typ := transform.TypeOf[transform.MaskPII](); !transform.Is[transform.MaskPII](typ) || transform.Is[transform.Exec](typ) {
		t.Errorf("MaskPII is %s", typ)
	}
	if config := transform.Config("Mask"); config != nil {
		t.Errorf("there is no Mask, and its config is a %T", config)
	}
}

// TestTypesAreInTwoLists: what writes a transform's type is the list of the language and that of pipelines. Benchmarks write pipelines.
func TestTypesAreInTwoLists(t *testing.T) {
	root := filepath.Join("..", "..")
	types := transform.Types()
	places := map[string][]string{}
	err := filepath.WalkDir(root, func(name string, f fs.DirEntry, err error) error {
		switch base := f.Name(); {
		case err != nil:
			return err
		case f.IsDir() && name != root && (strings.HasPrefix(base, ".") || slices.Contains([]string{"testdata", "node_modules", "bench"}, base)):
			return fs.SkipDir
		case f.IsDir() || !strings.HasSuffix(base, ".go") || strings.HasSuffix(base, "_test.go"):
			return nil
		}
		source, err := os.ReadFile(name)
		if err != nil || !slices.ContainsFunc(types, func(typ string) bool { return bytes.Contains(source, []byte(strconv.Quote(typ))) }) {
			return err
		}
		tree, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
		if err != nil {
			return err
		}
		ast.Inspect(tree, func(n ast.Node) bool {
			if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
				text, err := strconv.Unquote(lit.Value)
				if err == nil && slices.Contains(types, text) && !slices.Contains(places[text], name) {
					places[text] = append(places[text], name)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, typ := range types {
		if len(places[typ]) == 0 || len(places[typ]) > 2 {
			t.Errorf("%s is written in %s", typ, strings.Join(places[typ], ", "))
		}
	}
}
