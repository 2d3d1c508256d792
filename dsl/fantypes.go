package dsl

import (
	"fmt"
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/sluiceml/sluice/dsl/spec"
)

// instanceNames are the names that only instances see.
var instanceNames = []string{"matrix", "item", "index", "previous"}

// instanceType is one element of the list that a step with a matrix or a foreach is to others. What its instances are of is only known
// when typeFan has seen the expressions; until then it is anything.
func (c *checker) instanceType(s *step) *cel.Type {
	own := c.ts.lookup("steps." + s.ID)
	o := &objectType{name: "instance of " + s.ID, what: own.what, fields: maps.Clone(own.fields), optional: own.optional, zeros: own.zeros}
	o.fields["index"] = cel.IntType
	o.fields[s.instanceName()] = cel.DynType
	return c.ts.define(o)
}

// instanceName is what tells the instances apart: matrix or item.
func (s *step) instanceName() string {
	if s.fan == spec.FanMatrix {
		return "matrix"
	}
	return "item"
}

// typeFan finds the types of what a step's instances see. An expression that makes instances may read other steps' instances, so
// those come first.
func (c *checker) typeFan(s *step) {
	if s.fan == spec.FanNone || s.instance != nil {
		return
	}
	s.instance = map[string]*cel.Type{"index": cel.IntType}
	if s.fan == spec.FanRepeat {
		s.instance["previous"] = cel.OptionalType(objectNamed("steps." + s.ID))
		return
	}
	for _, e := range s.exprs {
		if e.scope != scopeOnce || e == s.when {
			continue
		}
		for _, r := range e.parsed(c.base) {
			if r.path[0].name == "steps" && len(r.path) > 1 && c.byID[r.path[1].name] != nil {
				c.typeFan(c.byID[r.path[1].name])
			}
		}
		c.compile(e, s)
	}
	t := c.itemType(s)
	s.instance[s.instanceName()] = t
	c.ts.lookup("instance of " + s.ID).fields[s.instanceName()] = t
}

func (c *checker) itemType(s *step) *cel.Type {
	if s.fan == spec.FanMatrix {
		return c.matrixType(s)
	}
	t := s.foreach.outputType()
	if t.Kind() != types.ListKind {
		return cel.DynType
	}
	return asRead(t.Parameters()[0])
}

// asRead is the type of a value that went through JSON.
func asRead(t *cel.Type) *cel.Type {
	switch t.Kind() {
	case types.UintKind:
		return cel.IntType
	case types.BytesKind:
		return cel.StringType
	case types.ListKind:
		return cel.ListType(asRead(t.Parameters()[0]))
	case types.MapKind:
		return cel.MapType(cel.StringType, asRead(t.Parameters()[1]))
	case types.BoolKind, types.IntKind, types.DoubleKind, types.StringKind, types.DurationKind, types.TimestampKind, types.StructKind:
		return t
	}
	return cel.DynType
}

// matrixType is the object of a matrix: its axes, and what include adds. What not every combination has is optional.
func (c *checker) matrixType(s *step) *cel.Type {
	m := s.matrix
	c.expandFixed(m)
	o := &objectType{name: "matrix of " + s.ID, code: "matrix", what: "an axis of the matrix of `" + s.ID + "`", fields: map[string]*cel.Type{}}
	found := map[string][]*cel.Type{}
	for i, axis := range m.axes.keys {
		found[axis] = append(found[axis], c.ts.elementType(o.name+"."+axis, m.axes.values[i]))
	}
	for _, entry := range m.include {
		for i, key := range entry.entries.keys {
			found[key] = append(found[key], c.ts.valueType(o.name+"."+key, entry.entries.values[i]))
		}
	}
	for key, of := range found {
		o.fields[key] = c.ts.union(o.name+"."+key, of)
	}
	o.optional = m.optional()
	return c.ts.define(o)
}

// elementType is the type of the values of an axis.
func (ts *typeSystem) elementType(name string, axis value) *cel.Type {
	switch axis := axis.(type) {
	case list:
		of := make([]*cel.Type, len(axis))
		for i, item := range axis {
			of[i] = ts.valueType(name, item)
		}
		return ts.union(name, of)
	case hole:
		if t := axis.expr.outputType(); t.Kind() == types.ListKind {
			return asRead(t.Parameters()[0])
		}
	}
	return cel.DynType
}

// valueType is the type of a value of the document. Mappings are objects, whose types union brings together.
func (ts *typeSystem) valueType(name string, v value) *cel.Type {
	switch v := v.(type) {
	case text:
		return cel.StringType
	case hole:
		return asRead(v.expr.outputType())
	case list:
		return cel.ListType(ts.elementType(name, v))
	case entries:
		o := &objectType{name: fmt.Sprintf("%s#%d", name, len(ts.objects)), fields: map[string]*cel.Type{}, optional: map[string]bool{}}
		for i, key := range v.keys {
			o.fields[key] = ts.valueType(name+"."+key, v.values[i])
		}
		return ts.define(o)
	case literal:
		return v.outputType()
	}
	return cel.DynType
}

// union is the type of values of several types: int and double are double, objects one object with the fields of all; what has nothing
// in common is anything.
func (ts *typeSystem) union(name string, of []*cel.Type) *cel.Type {
	if len(of) == 0 {
		return cel.DynType
	}
	if ts.object(of[0]) != nil && len(of) > 1 && !isArtifact(typeName(of[0])) {
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
			t = cel.ListType(ts.union(name, []*cel.Type{t.Parameters()[0], other.Parameters()[0]}))
		default:
			return cel.DynType
		}
	}
	return t
}

func (ts *typeSystem) unionObject(name string, of []*cel.Type) *cel.Type {
	out := &objectType{name: name, code: "matrix", what: "a key of these values", fields: map[string]*cel.Type{}, optional: map[string]bool{}}
	found := map[string][]*cel.Type{}
	for _, t := range of {
		o := ts.object(t)
		if o == nil || isArtifact(o.name) {
			return cel.DynType
		}
		for key, t := range o.fields {
			found[key] = append(found[key], t)
			out.optional[key] = out.optional[key] || o.optional[key]
		}
	}
	for key, all := range found {
		out.fields[key] = ts.union(name+"."+key, all)
		out.optional[key] = out.optional[key] || len(all) < len(of)
	}
	return ts.define(out)
}

func isNumber(t *cel.Type) bool { return t.Kind() == types.IntKind || t.Kind() == types.DoubleKind }

// expandFixed finds the combinations of a matrix without expressions, while the document has not had too many of them.
func (c *checker) expandFixed(m *matrix) {
	if !m.isKnown() {
		return
	}
	size := 1
	for _, axis := range m.axes.values {
		if size *= len(axis.(list)); size > maxInstances {
			c.src.Errorf(m.node, "limit", "", "%s", errTooMany)
			return
		}
	}
	if c.tried += size * (1 + len(m.include) + len(m.exclude)); c.tried > maxTried {
		return
	}
	all, err := m.combinations(nil)
	if err != nil {
		c.src.Errorf(m.node, "limit", "", "%s", err)
		return
	}
	m.fixed = all
	if len(all) == 0 && len(m.axes.keys) > 0 {
		c.src.Errorf(m.node, "matrix", "", "`exclude` leaves no combination")
	}
}

// maxTried bounds the combinations that are tried for a whole document: a small document can have very many.
const maxTried = 50_000

// optional are the keys that a combination may lack: exactly, where the combinations are known.
func (m *matrix) optional() map[string]bool {
	optional := map[string]bool{}
	for _, c := range m.fixed {
		for key := range c {
			optional[key] = false
		}
	}
	if len(m.fixed) > 0 {
		for _, c := range m.fixed {
			for key := range optional {
				optional[key] = optional[key] || c[key] == nil
			}
		}
		return optional
	}
	for _, entry := range m.include {
		onAxis := slices.ContainsFunc(m.axes.keys, func(axis string) bool { return slices.Contains(entry.entries.keys, axis) })
		for _, key := range entry.entries.keys {
			optional[key] = optional[key] || !slices.Contains(m.axes.keys, key)
		}
		for _, axis := range m.axes.keys {
			optional[axis] = optional[axis] || onAxis && !slices.Contains(entry.entries.keys, axis)
		}
	}
	return optional
}

// isKnown reports whether the matrix holds no expression.
func (m *matrix) isKnown() bool {
	return isKnown(m.axes) &&
		!slices.ContainsFunc(m.include, func(e mapping) bool { return !isKnown(e.entries) }) &&
		!slices.ContainsFunc(m.exclude, func(e mapping) bool { return !isKnown(e.entries) })
}
