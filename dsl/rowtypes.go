package dsl

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/nearest"
)

// rowShape is what is known of the rows at one place of a cleaning, before any was read.
type rowShape struct {
	fields map[string]*cel.Type
	// rest is the type of all other fields; nil when there are none.
	rest *cel.Type
}

// anyRow is the shape of rows of which nothing is known.
var anyRow = rowShape{rest: cel.DynType}

// with returns the shape with a field of that type.
func (r rowShape) with(name string, t *cel.Type) rowShape {
	r.fields = maps.Clone(r.fields)
	if r.fields == nil {
		r.fields = map[string]*cel.Type{}
	}
	r.fields[name] = t
	return r
}

// without returns the shape without a field; of rows that may have others it may be there all the same.
func (r rowShape) without(name string) rowShape {
	r.fields = maps.Clone(r.fields)
	delete(r.fields, name)
	return r
}

// typeOf returns the type of a field, or nil when there is none.
func (r rowShape) typeOf(name string) *cel.Type {
	if t, ok := r.fields[name]; ok {
		return t
	}
	return r.rest
}

// Beyond these, rows are not followed: a document that has as many is no person's.
const (
	maxShapes      = 500
	maxShapeFields = 1000
)

// rowTyper follows the rows of one cleaning.
type rowTyper struct {
	*checker
	// exprs are the step's expressions over rows that were not compiled yet, by where they stand.
	exprs map[*yaml.Node][]*expr.Expression
}

// typeRows checks a cleaning's expressions over rows against what is known of the rows that come to them.
func (c *checker) typeRows(s *step) {
	t := &rowTyper{checker: c, exprs: map[*yaml.Node][]*expr.Expression{}}
	for _, e := range s.exprs {
		if e.Scope == expr.ScopeRow {
			t.exprs[e.Node] = append(t.exprs[e.Node], e)
		}
	}
	g := t.graphOf(s)
	shapes := slices.Repeat([]rowShape{anyRow}, len(g.all))
	var written []rowShape
	for _, at := range g.order {
		var in []rowShape
		for _, from := range g.from[at] {
			if from.Name != "" && from.Name == g.all[from.Node].config.ErrorHandling.Output {
				in = append(in, rejectedShape)
				continue
			}
			in = append(in, shapes[from.Node])
		}
		shapes[at] = t.transform(g.nodes[at], g.all[at].label(), joinShapes(in))
		if g.all[at].writes() {
			written = append(written, shapes[at])
		}
	}
	t.compile(document.Lookup(s.body, "profile"), joinShapes(written), "the profile")
}

// transform checks one transform and returns the shape of what it hands on.
func (t *rowTyper) transform(n *yaml.Node, label string, in rowShape) rowShape {
	typ := document.Lookup(n, "type")
	if typ == nil || typ.Kind != yaml.ScalarNode {
		return anyRow
	}
	config := document.Lookup(n, "config")
	computed := t.compile(config, in, "`"+label+"`")
	t.checkFields(typ.Value, config, in, label)
	t.checkWrite(typ, config, in)
	out := in.after(typ.Value, config, computed)
	if len(out.fields) > maxShapeFields {
		return anyRow
	}
	return out
}

// compile checks the expressions below a node over rows of that shape, and returns their types by where they stand.
func (t *rowTyper) compile(below *yaml.Node, shape rowShape, whose string) map[*yaml.Node]*cel.Type {
	computed := map[*yaml.Node]*cel.Type{}
	var env *cel.Env
	var vars map[string]*cel.Type
	for n := range document.Scalars(below) {
		if len(t.exprs[n]) == 0 {
			continue
		}
		e := t.exprs[n][0]
		t.exprs[n] = t.exprs[n][1:]
		if !e.ReadsFields(t.base) || t.shapes == maxShapes {
			t.compileFree(e)
		} else {
			if env == nil {
				env, vars = t.rowEnv(shape, whose)
			}
			e.Compile(t.src, t.ts, env, vars)
			t.use(e)
		}
		computed[n] = fieldType(e.OutputType())
	}
	return computed
}

// rowEnv makes an environment in which `row` has a shape.
func (t *rowTyper) rowEnv(shape rowShape, whose string) (*cel.Env, map[string]*cel.Type) {
	t.shapes++
	row := t.ts.Define(&expr.ObjectType{
		Name: fmt.Sprintf("row %d", t.shapes), Code: "row", What: "a field of the rows that come to " + whose, Fields: shape.fields, Rest: shape.rest,
	})
	vars := map[string]*cel.Type{"row": row, "params": t.vars["params"]}
	return expr.MustEnv(t.ts, vars), vars
}

// fieldType is the type of a field that is set to a value of type t: what JSON makes of it.
func fieldType(t *cel.Type) *cel.Type {
	switch t.Kind() {
	case types.BoolKind, types.IntKind, types.DoubleKind, types.StringKind:
		return t
	case types.UintKind:
		return cel.IntType
	case types.BytesKind, types.TimestampKind, types.DurationKind:
		return cel.StringType
	case types.ListKind:
		return cel.ListType(fieldType(t.Parameters()[0]))
	case types.MapKind:
		return cel.MapType(cel.StringType, fieldType(t.Parameters()[1]))
	}
	return cel.DynType
}

// checkWrite reports a form of files that rows with these fields cannot have.
func (t *rowTyper) checkWrite(typ, config *yaml.Node, in rowShape) {
	columns := document.Lookup(config, "columns")
	fields := slices.Sorted(maps.Keys(in.fields))
	switch {
	case typ.Value == "WriteToText" && in.rest == nil && len(fields) != 1:
		t.src.Errorf(typ, "row", "leave them with one by MapToFields", "a line is one field, and the rows have %d: %s", len(fields), strings.Join(fields, ", "))
	case typ.Value == "WriteToCsv" && columns != nil:
		named := slices.Collect(valuesBelow(columns))
		for n := range document.Scalars(columns) {
			if in.typeOf(n.Value) == nil {
				t.src.Errorf(n, "row", nearest.Hint(n.Value, fields), "`%s` is not a field of the rows that are written", n.Value)
			}
		}
		for _, field := range fields {
			if !slices.Contains(named, field) {
				t.src.Errorf(columns, "row", "add it, or leave it out of the rows by MapToFields", "the rows have the field `%s`, and no column for it", field)
			}
		}
	}
}

// textTransforms work on texts.
var textTransforms = []string{"DecodeMail", "Decontaminate", "DetectLanguage", "HtmlToText", "MaskPII", "NormalizeText", "QualityFilter"}

// checkFields reports the fields that a transform names and that its rows lack, or that cannot be what it works on.
func (t *rowTyper) checkFields(typ string, config *yaml.Node, in rowShape, label string) {
	for _, key := range []string{"field", "fields", "drop", "group_by"} {
		named := document.Lookup(config, key)
		if named == nil || named.Kind == yaml.MappingNode {
			continue
		}
		for n := range document.Scalars(named) {
			got := in.typeOf(n.Value)
			switch {
			case got == nil:
				t.src.Errorf(n, "row", nearest.Hint(n.Value, slices.Collect(maps.Keys(in.fields))), "`%s` is not a field of the rows that come to `%s`", n.Value, label)
			case got.Kind() == types.DynKind:
			case typ == "Explode" && got.Kind() != types.ListKind:
				t.src.Errorf(n, "type", "", "`%s` is %s, and Explode takes lists", n.Value, spec.Article(expr.TypeName(got)))
			case slices.Contains(textTransforms, typ) && got.Kind() != types.StringKind:
				t.src.Errorf(n, "type", "", "`%s` is %s, and %s works on texts", n.Value, spec.Article(expr.TypeName(got)), typ)
			}
		}
	}
}
