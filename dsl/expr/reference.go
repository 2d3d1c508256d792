package expr

import (
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/common/ast"
	"github.com/google/cel-go/common/operators"
	"github.com/google/cel-go/common/types"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

// Reference is a name with the path read from it, such as steps.fit.metrics.f1.
type Reference struct {
	id   int64 // of the whole path's node
	root int64 // of the name it begins with
	Path []Segment
}

// Segment is one name on the way of a reference.
type Segment struct {
	Name     string
	Optional bool // read as .?name
}

// String is the reference as it is written.
func (r Reference) String() string {
	var s string
	for i, seg := range r.Path {
		switch {
		case i == 0:
			s = seg.Name
		case seg.Optional:
			s += ".?" + seg.Name
		case IsIdentifier(seg.Name):
			s += "." + seg.Name
		default:
			s += "[" + strconv.Quote(seg.Name) + "]"
		}
	}
	return s
}

// Step is the step that a reference names, or empty.
func (r Reference) Step() string {
	if r.Path[0].Name != "steps" || len(r.Path) < 2 {
		return ""
	}
	return r.Path[1].Name
}

// references lists the longest paths an expression reads from names outside of it, in the order they are written.
func references(tree *ast.AST) []Reference {
	var refs []Reference
	walkReferences(tree.Expr(), map[string]int{}, &refs)
	return refs
}

// walkReferences collects from x; bound counts the comprehension variables in scope by name.
func walkReferences(x ast.Expr, bound map[string]int, refs *[]Reference) {
	if path, ok := pathOf(x); ok {
		if bound[path[0].Name] == 0 {
			*refs = append(*refs, Reference{x.ID(), rootOf(x), path})
		}
		return
	}
	switch x.Kind() {
	case ast.SelectKind:
		walkReferences(x.AsSelect().Operand(), bound, refs)
	case ast.CallKind:
		call := x.AsCall()
		if call.IsMemberFunction() {
			walkReferences(call.Target(), bound, refs)
		}
		for _, arg := range call.Args() {
			walkReferences(arg, bound, refs)
		}
	case ast.ListKind:
		for _, item := range x.AsList().Elements() {
			walkReferences(item, bound, refs)
		}
	case ast.MapKind:
		for _, entry := range x.AsMap().Entries() {
			walkReferences(entry.AsMapEntry().Key(), bound, refs)
			walkReferences(entry.AsMapEntry().Value(), bound, refs)
		}
	case ast.StructKind:
		for _, f := range x.AsStruct().Fields() {
			walkReferences(f.AsStructField().Value(), bound, refs)
		}
	case ast.ComprehensionKind:
		walkComprehension(x.AsComprehension(), bound, refs)
	}
}

func walkComprehension(c ast.ComprehensionExpr, bound map[string]int, refs *[]Reference) {
	walkReferences(c.IterRange(), bound, refs)
	walkReferences(c.AccuInit(), bound, refs)
	names := []string{c.IterVar(), c.IterVar2(), c.AccuVar()} // the second may be empty, as no name is
	for _, n := range names {
		bound[n]++
	}
	walkReferences(c.LoopCondition(), bound, refs)
	walkReferences(c.LoopStep(), bound, refs)
	walkReferences(c.Result(), bound, refs)
	for _, n := range names {
		bound[n]--
	}
}

// pathOf reads x as a name followed by fields and constant string indices.
func pathOf(x ast.Expr) ([]Segment, bool) {
	switch x.Kind() {
	case ast.IdentKind:
		return []Segment{{Name: x.AsIdent()}}, true
	case ast.SelectKind:
		sel := x.AsSelect()
		path, ok := pathOf(sel.Operand())
		return append(path, Segment{Name: sel.FieldName(), Optional: sel.IsTestOnly()}), ok
	case ast.CallKind:
		call := x.AsCall()
		name := call.FunctionName()
		if name != operators.OptSelect && name != operators.OptIndex && name != operators.Index || len(call.Args()) != 2 {
			return nil, false
		}
		key, ok := call.Args()[1].AsLiteral().(types.String)
		if call.Args()[1].Kind() != ast.LiteralKind || !ok {
			return nil, false
		}
		path, ok := pathOf(call.Args()[0])
		return append(path, Segment{Name: string(key), Optional: name != operators.Index}), ok
	}
	return nil, false
}

// ownerOf returns what an expression reads a field of that name from, or nil.
func ownerOf(x ast.Expr, name string) ast.Expr {
	switch path, ok := pathOf(x); {
	case x.Kind() == ast.SelectKind && x.AsSelect().FieldName() == name:
		return x.AsSelect().Operand()
	case x.Kind() == ast.CallKind && ok && path[len(path)-1].Name == name:
		return x.AsCall().Args()[0]
	}
	return nil
}

// rootOf returns the ID of the name that a path begins with.
func rootOf(x ast.Expr) int64 {
	switch x.Kind() {
	case ast.SelectKind:
		return rootOf(x.AsSelect().Operand())
	case ast.CallKind:
		return rootOf(x.AsCall().Args()[0])
	}
	return x.ID()
}

// reserved are the words that CEL's specification reserves: they can be fields, but no expression can begin with one.
var reserved = []string{
	"as", "break", "const", "continue", "else", "for", "function", "if", "import", "let", "loop", "package", "namespace", "return", "var", "void", "while",
}

// IsReserved reports whether CEL reserves a word, so that it cannot be the name of a variable.
func IsReserved(word string) bool { return slices.Contains(reserved, word) }

// IsIdentifier reports whether s is a name of the language: [a-z][a-z0-9_]*.
func IsIdentifier(s string) bool { return identifier.MatchString(s) }

var identifier = regexp.MustCompile(`^[a-z][a-z0-9_]*$`)

// ReadsArtifact reports whether any part of the expression is an artifact of some type, as what is picked from a list of instances may be.
func (e *Expression) ReadsArtifact(kinds []artifact.Type) bool {
	found := false
	if e.OK {
		ast.PreOrderVisit(e.tree.Expr(), ast.NewExprVisitor(func(x ast.Expr) {
			name, isObject := strings.CutPrefix(e.tree.GetType(x.ID()).TypeName(), objectPrefix)
			found = found || isObject && slices.Contains(kinds, artifact.Type(name))
		}))
	}
	return found
}

// Params are the parameters that an expression reads.
func (e *Expression) Params(declared map[string]spec.Param) (all []string) {
	for _, r := range e.Refs {
		all = append(all, r.Params(declared)...)
	}
	return all
}

// Params are the parameters that a reference reads: all of them where it does not name one.
func (r Reference) Params(declared map[string]spec.Param) []string {
	switch {
	case r.Path[0].Name != "params":
		return nil
	case len(r.Path) > 1:
		return []string{r.Path[1].Name}
	}
	return slices.Sorted(maps.Keys(declared))
}
