package transform

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

// maxShapeFields bounds the fields of rows that are followed. No document that a person wrote has more.
const maxShapeFields = 1000

// RowChecker is the config of a transform that cannot take rows of any shape.
type RowChecker interface {
	// CheckRows reports what of the shape of the rows that reach it the transform cannot take. at is where its type stands.
	CheckRows(r document.Reporter, in Shape, at, config *yaml.Node)
}

// ColumnReader is a document.Workspace that knows the columns of its files.
type ColumnReader interface {
	// Columns returns the types of the fields of the rows that a transform of a type reads from files, given by patterns relative to the
	// workspace; nil if they are not known.
	Columns(reader string, patterns []string) map[string]*cel.Type
}

// columnsOf returns the shape of the rows in the files that a transform reads.
func columnsOf(ws document.Workspace, n *yaml.Node) Shape {
	known, ok := ws.(ColumnReader)
	if !ok {
		return anyRow
	}
	var patterns []string
	for p := range document.Scalars(document.Lookup(n, "config", "path")) {
		if !document.IsInside(p.Value) || strings.Contains(p.Value, "${") || strings.Contains(p.Value, "://") {
			return anyRow
		}
		patterns = append(patterns, p.Value)
	}
	fields := known.Columns(document.TextAt(n, "type"), patterns)
	if fields == nil {
		return anyRow
	}
	return Shape{Fields: fields}
}

// CheckRows follows the rows of a cleaning, reports fields that a transform names and that the rows which come to it lack, or cannot be
// what it works on, and returns the shape of the rows that are written. compile checks the expressions below a node over rows of a shape
// and returns their types; whose rows they are is for messages. What ws knows of the files that are read is what is known of their rows.
func (g *Cleaning) CheckRows(r document.Reporter, ws document.Workspace, compile func(below *yaml.Node, in Shape, whose string) ExprTypes) Shape {
	shapes := slices.Repeat([]Shape{anyRow}, len(g.all))
	var written []Shape
	for _, at := range g.order {
		var in []Shape
		for _, from := range g.from[at] {
			if from.Name != "" && from.Name == g.all[from.Node].config.ErrorHandling.Output {
				in = append(in, rejectedShape)
				continue
			}
			in = append(in, shapes[from.Node])
		}
		if len(in) == 0 {
			in = append(in, columnsOf(ws, g.nodes[at]))
		}
		shapes[at] = checkRows(r, g.nodes[at], g.all[at].label(), joinShapes(in), compile)
		if g.all[at].writes() {
			written = append(written, shapes[at])
		}
	}
	if len(g.errors) > 0 { // which may be why less is written than was meant
		return anyRow
	}
	return joinShapes(written)
}

// checkRows checks one transform and returns the shape of what it hands on.
func checkRows(r document.Reporter, n *yaml.Node, label string, in Shape, compile func(*yaml.Node, Shape, string) ExprTypes) Shape {
	typ := document.Lookup(n, "type")
	if typ == nil || typ.Kind != yaml.ScalarNode {
		return anyRow
	}
	config := document.Lookup(n, "config")
	computed := compile(config, in, "`"+label+"`")
	checkFields(r, typ.Value, config, in, label)
	known := Config(typ.Value)
	if t, ok := known.(RowChecker); ok {
		t.CheckRows(r, in, typ, config)
	}
	if t, ok := known.(Partition); ok {
		t.checkBool(r, config, computed)
	}
	out := in
	if t, ok := known.(Shaper); ok {
		out = t.Shape(in, config, computed)
	}
	if len(out.Fields) > maxShapeFields {
		return anyRow
	}
	return out
}

// checkFields reports the fields that a transform names and that its rows lack, or that cannot be what it works on.
func checkFields(r document.Reporter, typ string, config *yaml.Node, in Shape, label string) {
	for _, key := range []string{"field", "fields", "drop", "group_by"} {
		named := document.Lookup(config, key)
		if named == nil || named.Kind == yaml.MappingNode {
			continue
		}
		for n := range document.Scalars(named) {
			got, takes := in.typeOf(n.Value), transforms[typ].takes
			switch {
			case got == nil && key == "drop" && in.Rest != nil: // it is gone already
			case got == nil && key == "drop":
				r.Warnf(n, "row", suggest.Hint(n.Value, in.Names()), "`%s` is not a field of the rows that reach `%s`, so nothing is dropped", n.Value, label)
			case got == nil:
				r.Errorf(n, "row", suggest.Hint(n.Value, in.Names()), "`%s` is not a field of the rows that reach `%s`", n.Value, label)
			case got.Kind() == types.DynKind:
			case takes == takesLists && got.Kind() != types.ListKind:
				r.Errorf(n, "type", "", "`%s` is %s, but %s needs lists", n.Value, spec.Article(expr.TypeName(got)), typ)
			case takes == takesTexts && got.Kind() != types.StringKind:
				r.Errorf(n, "type", "", "`%s` is %s, but %s needs strings", n.Value, spec.Article(expr.TypeName(got)), typ)
			}
		}
	}
}
