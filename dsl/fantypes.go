package dsl

import (
	"maps"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// instanceType is one element of the list that a step with a matrix or a foreach is to others. What its instances are of is only known
// when typeFan has seen the expressions; until then it is anything.
func (c *checker) instanceType(s *step) *cel.Type {
	own := c.ts.Lookup("steps." + s.ID)
	o := &expr.ObjectType{Name: "instance of " + s.ID, What: own.What, Fields: maps.Clone(own.Fields), Optional: own.Optional, Zeros: own.Zeros}
	o.Fields["index"] = cel.IntType
	o.Fields[s.instanceName()] = cel.DynType
	return c.ts.Define(o)
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
		if s.instance == nil {
			s.instance = c.excuseFan(s)
		}
		return
	}
	s.instance = map[string]*cel.Type{"index": cel.IntType}
	if s.fan == spec.FanRepeat {
		s.instance["previous"] = cel.OptionalType(expr.ObjectNamed("steps." + s.ID))
		return
	}
	for _, e := range s.exprs {
		if e.Scope != expr.ScopeOnce || e == s.when {
			continue
		}
		for _, r := range e.ReferencesIn(c.base) {
			if r.Path[0].Name == "steps" && len(r.Path) > 1 && c.byID[r.Path[1].Name] != nil {
				c.typeFan(c.byID[r.Path[1].Name])
			}
		}
		c.compile(e, s)
	}
	t := c.itemType(s)
	s.instance[s.instanceName()] = t
	c.ts.Lookup("instance of " + s.ID).Fields[s.instanceName()] = t
}

func (c *checker) itemType(s *step) *cel.Type {
	if s.fan == spec.FanMatrix {
		return c.matrixType(s)
	}
	t := s.foreach.OutputType()
	if t.Kind() != types.ListKind {
		return cel.DynType
	}
	return expr.AfterJSON(t.Parameters()[0])
}

// matrixType is the object of a matrix: its axes, and what include adds. What not every combination has is optional.
func (c *checker) matrixType(s *step) *cel.Type {
	m := s.matrix
	c.expandFixed(m)
	o := &expr.ObjectType{Name: "matrix of " + s.ID, Code: "matrix", What: "an axis of the matrix of `" + s.ID + "`", Fields: map[string]*cel.Type{}}
	found := map[string][]*cel.Type{}
	for i, axis := range m.axes.Keys {
		found[axis] = append(found[axis], c.ts.ElementType(o.Name+"."+axis, m.axes.Values[i]))
	}
	for _, entry := range m.include {
		for i, key := range entry.entries.Keys {
			found[key] = append(found[key], c.ts.ValueType(o.Name+"."+key, entry.entries.Values[i]))
		}
	}
	excuseKeys(o, m.node)
	delete(o.Fields, "include")
	delete(o.Fields, "exclude")
	for key, of := range found {
		o.Fields[key] = c.ts.Union(o.Name+"."+key, of)
	}
	o.Optional = m.optional()
	return c.ts.Define(o)
}

// expandFixed finds the combinations of a matrix without expressions, while the document has not had too many of them.
func (c *checker) expandFixed(m *matrix) {
	if !m.isKnown() {
		return
	}
	size := 1
	for _, axis := range m.axes.Values {
		if size *= len(axis.(expr.List)); size > maxInstances {
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
	if len(all) == 0 && len(m.axes.Keys) > 0 {
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
		onAxis := slices.ContainsFunc(m.axes.Keys, func(axis string) bool { return slices.Contains(entry.entries.Keys, axis) })
		for _, key := range entry.entries.Keys {
			optional[key] = optional[key] || !slices.Contains(m.axes.Keys, key)
		}
		for _, axis := range m.axes.Keys {
			optional[axis] = optional[axis] || onAxis && !slices.Contains(entry.entries.Keys, axis)
		}
	}
	return optional
}

// isKnown reports whether the matrix holds no expression.
func (m *matrix) isKnown() bool {
	return expr.IsKnown(m.axes) &&
		!slices.ContainsFunc(m.include, func(e mapping) bool { return !expr.IsKnown(e.entries) }) &&
		!slices.ContainsFunc(m.exclude, func(e mapping) bool { return !expr.IsKnown(e.entries) })
}
