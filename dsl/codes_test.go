package dsl

import (
	"go/ast"
	"go/token"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/environment"
)

// TestCodesExamples: the wrong example of a code has that finding, the right one has none.
func TestCodesExamples(t *testing.T) {
	for _, c := range document.Codes() {
		if c.Title == "" || c.Text == "" || (c.Wrong == "") != (c.Right == "") {
			t.Errorf("%s is not explained in full", c.Name)
		}
		if c.Wrong == "" {
			continue
		}
		if diags := lintExample(c.Wrong); !slices.ContainsFunc(diags, func(d document.Diagnostic) bool { return d.Code == c.Name }) && c.Name != "empty" {
			t.Errorf("%s: the wrong example says\n%s", c.Name, diags.Text(false))
		}
		if diags := lintExample(c.Right); len(diags) > 0 {
			t.Errorf("%s: the right example says\n%s", c.Name, diags.Text(false))
		}
	}
}

func lintExample(text string) document.Diagnostics {
	switch {
	case strings.HasPrefix(text, "sluice: environment/"):
		_, diags := environment.LoadFile(document.File{Name: "example", Source: []byte(text)})
		return diags
	case !strings.HasPrefix(text, "sluice:"):
		text = "sluice: pipeline/v1\nname: example\nsteps:\n  " + strings.TrimSpace(strings.ReplaceAll(text, "\n", "\n  ")) + "\n"
	}
	_, diags := Compile(document.File{Name: "example", Source: []byte(text)}, document.File{}, archive{&txtar.Archive{Files: []txtar.File{{Name: "score"}, {Name: "fit"}, {Name: "key.pem"}}}})
	return diags
}

// TestCodesComplete: every code that this package reports is explained, and no other is.
func TestCodesComplete(t *testing.T) {
	used := reportedCodes(t)
	for _, code := range used {
		if _, _, ok := document.Explain(code); !ok {
			t.Errorf("the code %q is not in codes.yaml", code)
		}
	}
	for _, c := range document.Codes() {
		if !slices.Contains(used, c.Name) {
			t.Errorf("nothing reports the code %q", c.Name)
		}
	}
}

// reportedCodes reads this package and those below it for the codes that are handed to what reports findings.
func reportedCodes(t *testing.T) []string {
	t.Helper()
	// The place of the code among the arguments, by function; results and fields that carry codes are found by their type or name.
	arguments := map[string]int{"errorf": 1, "warnf": 1, "add": 3, "addat": 3, "addatreference": 3, "warn": 2, "report": 2, "reportreference": 2, "reportstart": 1}
	var codes []string
	text := func(x ast.Expr) {
		if lit, ok := x.(*ast.BasicLit); ok && lit.Kind == token.STRING {
			if code, err := strconv.Unquote(lit.Value); err == nil {
				codes = append(codes, code)
			}
		}
	}
	for _, tree := range sources(t, 0) {
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.CallExpr:
				if sel, ok := n.Fun.(*ast.SelectorExpr); ok && !isPackage(sel.X, "fmt") {
					if i, ok := arguments[strings.ToLower(sel.Sel.Name)]; ok && i < len(n.Args) {
						text(n.Args[i])
						if index, ok := n.Args[i].(*ast.IndexExpr); ok { // of a map of codes
							for _, e := range index.X.(*ast.CompositeLit).Elts {
								text(e.(*ast.KeyValueExpr).Value)
							}
						}
					}
				}
			case *ast.KeyValueExpr:
				if key, ok := n.Key.(*ast.Ident); ok && strings.EqualFold(key.Name, "code") {
					text(n.Value)
				}
			case *ast.FuncDecl:
				if results := n.Type.Results; results != nil && results.List[0].Names != nil && results.List[0].Names[0].Name == "code" {
					ast.Inspect(n.Body, func(n ast.Node) bool {
						if r, ok := n.(*ast.ReturnStmt); ok && len(r.Results) == 3 {
							text(r.Results[0])
						}
						return true
					})
				}
			}
			return true
		})
	}
	slices.Sort(codes)
	return slices.Compact(codes)
}

func isPackage(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}
