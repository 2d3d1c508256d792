package dsl

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/expr/value"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/suggest"
)

// maxShapes bounds the shapes of rows that are told apart. No document that a person wrote has more.
const maxShapes = 500

// rowTyper follows the rows of one cleaning.
type rowTyper struct {
	*checker
	// exprs are the step's expressions over rows that were not compiled yet, by where they stand.
	exprs map[*yaml.Node][]*expr.Expression
}

// typeRows checks a cleaning's expressions over rows against what is known of the rows that reach them. Those of an accepted document are
// left to be compiled over any rows, since a later version may know more.
func (c *checker) typeRows(s *step) {
	if c.family.accepted {
		return
	}
	t := &rowTyper{checker: c, exprs: map[*yaml.Node][]*expr.Expression{}}
	for _, e := range s.exprs {
		if e.Scope == expr.ScopeRow {
			t.exprs[e.Node] = append(t.exprs[e.Node], e)
		}
	}
	written := c.graphOf(s).CheckRows(c.src, c.family.ws, t.compile)
	c.written[s] = written
	t.compile(document.Lookup(s.body, "profile"), written, "the profile")
}

// compile checks the expressions below a node over rows of that shape, and returns their types by where they stand.
func (t *rowTyper) compile(below *yaml.Node, shape transform.Shape, whose string) transform.ExprTypes {
	computed := transform.ExprTypes{}
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

// checkColumns reports columns of a profile, or of a drift, that no row has.
func (c *checker) checkColumns(s *step) {
	for e, r := range s.references() {
		of, path := s, r.Path
		if path[0].Name == "steps" && len(path) > 2 {
			of, path = c.byID[path[1].Name], path[2:]
		} else if e.Own == "" {
			continue
		}
		if of == nil || len(path) < 3 || path[0].Name != "profile" && path[0].Name != "drift" || path[1].Name != "columns" {
			continue
		}
		columns, name := c.written[of].Fields, path[2].Name
		known := slices.Collect(maps.Keys(columns))
		for key := range document.Entries(of.body, "profile", "columns") {
			known = append(known, key.Value)
		}
		if c.written[of].Rest != nil || len(columns) == 0 || slices.Contains(known, name) {
			continue
		}
		e.ReportReference(c.src, r, "row", suggest.Hint(name, known), "`"+name+"` is not a column of the rows that `"+of.ID+"` writes")
	}
}

// rowEnv makes an environment in which `row` has a shape.
func (t *rowTyper) rowEnv(shape transform.Shape, whose string) (*cel.Env, map[string]*cel.Type) {
	t.shapes++
	row := t.ts.Define(&expr.ObjectType{
		Name: fmt.Sprintf("row %d", t.shapes), Code: "row", What: "a field of the rows that reach " + whose, Fields: shape.Fields, Rest: shape.Rest,
	})
	vars := map[string]*cel.Type{"row": row, "params": t.vars["params"]}
	return expr.MustEnv(expr.ScopeRow, t.ts, vars), vars
}

// fieldType is the type of a field that is set to a value of type t.
func fieldType(t *cel.Type) *cel.Type {
	switch t.Kind() {
	case types.BoolKind, types.IntKind, types.UintKind, types.DoubleKind, types.StringKind, types.BytesKind, types.TimestampKind, types.DurationKind:
		return t
	case types.OpaqueKind:
		if t.IsExactType(value.DecimalType) {
			return t
		}
	case types.ListKind:
		return cel.ListType(fieldType(t.Parameters()[0]))
	case types.MapKind:
		return cel.MapType(cel.StringType, fieldType(t.Parameters()[1]))
	}
	return cel.DynType
}
