package expr

import (
	"fmt"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
)

// TypeOf is the type of a checked value.
func TypeOf(v Value) *cel.Type {
	switch v := v.(type) {
	case Computed:
		return v.Expr.OutputType()
	case Template:
		return cel.StringType
	case List:
		return cel.ListType(commonType(v))
	case Mapping:
		return cel.MapType(cel.StringType, commonType(v.Values))
	case Literal:
		switch v.Value.(type) {
		case string:
			return cel.StringType
		case bool:
			return cel.BoolType
		case int64:
			return cel.IntType
		case float64:
			return cel.DoubleType
		}
	}
	return cel.DynType
}

func commonType(values []Value) *cel.Type {
	if len(values) == 0 {
		return cel.DynType
	}
	t := TypeOf(values[0])
	for _, v := range values[1:] {
		if !t.IsExactType(TypeOf(v)) {
			return cel.DynType
		}
	}
	return t
}

// AfterJSON is the type of a value that went through JSON.
func AfterJSON(t *cel.Type) *cel.Type {
	switch t.Kind() {
	case types.UintKind:
		return cel.IntType
	case types.BytesKind:
		return cel.StringType
	case types.ListKind:
		return cel.ListType(AfterJSON(t.Parameters()[0]))
	case types.MapKind:
		return cel.MapType(cel.StringType, AfterJSON(t.Parameters()[1]))
	case types.BoolKind, types.IntKind, types.DoubleKind, types.StringKind, types.DurationKind, types.TimestampKind, types.StructKind:
		return t
	}
	return cel.DynType
}

// ElementType is the type of the values of an axis.
func (ts *TypeSystem) ElementType(name string, axis Value) *cel.Type {
	switch axis := axis.(type) {
	case List:
		of := make([]*cel.Type, len(axis))
		for i, item := range axis {
			of[i] = ts.ValueType(name, item)
		}
		return ts.Union(name, of)
	case Computed:
		if t := axis.Expr.OutputType(); t.Kind() == types.ListKind {
			return AfterJSON(t.Parameters()[0])
		}
	}
	return cel.DynType
}

// ValueType is the type of a value of the document. Mappings are objects, whose types union brings together.
func (ts *TypeSystem) ValueType(name string, v Value) *cel.Type {
	switch v := v.(type) {
	case List:
		return cel.ListType(ts.ElementType(name, v))
	case Mapping:
		o := &ObjectType{Name: fmt.Sprintf("%s#%d", name, len(ts.objects)), Fields: map[string]*cel.Type{}, Optional: map[string]bool{}}
		for i, key := range v.Keys {
			o.Fields[key] = ts.ValueType(name+"."+key, v.Values[i])
		}
		return ts.Define(o)
	}
	return AfterJSON(TypeOf(v))
}

// Union is the type of values of several types: int and double are double, objects one object with the fields of all; what has nothing
// in common is anything.
func (ts *TypeSystem) Union(name string, of []*cel.Type) *cel.Type {
	if len(of) == 0 {
		return cel.DynType
	}
	if ts.ObjectType(of[0]) != nil && len(of) > 1 && !IsArtifact(TypeName(of[0])) {
		return ts.unionObject(name, of)
	}
	t := of[0]
	for _, other := range of[1:] {
		numbers := isNumber(t) && isNumber(other)
		switch {
		case t.IsExactType(other):
		case numbers:
			t = cel.DoubleType
		case t.Kind() == types.ListKind && other.Kind() == types.ListKind:
			t = cel.ListType(ts.Union(name, []*cel.Type{t.Parameters()[0], other.Parameters()[0]}))
		default:
			return cel.DynType
		}
	}
	return t
}

func (ts *TypeSystem) unionObject(name string, of []*cel.Type) *cel.Type {
	out := &ObjectType{Name: name, Code: "matrix", What: "a key of these values", Fields: map[string]*cel.Type{}, Optional: map[string]bool{}}
	found := map[string][]*cel.Type{}
	for _, t := range of {
		o := ts.ObjectType(t)
		if o == nil || IsArtifact(o.Name) {
			return cel.DynType
		}
		for key, t := range o.Fields {
			found[key] = append(found[key], t)
			out.Optional[key] = out.Optional[key] || o.Optional[key]
		}
	}
	for key, all := range found {
		out.Fields[key] = ts.Union(name+"."+key, all)
		out.Optional[key] = out.Optional[key] || len(all) < len(of)
	}
	return ts.Define(out)
}

func isNumber(t *cel.Type) bool { return t.Kind() == types.IntKind || t.Kind() == types.DoubleKind }
