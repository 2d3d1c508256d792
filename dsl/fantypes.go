package dsl

import (
	"maps"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// instanceType is one element of the list that a step with a matrix or a foreach is to others. What its instances are of is only known
// when typeFan has seen the expressions; until then it is anything.
func (c *checker) instanceType(s *step) *cel.Type {
	own := c.ts.Lookup("steps." + s.ID)
	o := &expr.ObjectType{Name: expr.InstanceOf + s.ID, What: own.What, Fields: maps.Clone(own.Fields), Optional: own.Optional, Zeros: own.Zeros}
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
	if s.until != nil || s.matrix != nil && s.foreach != nil { // which was told
		s.instance = c.excuseFan(s)
	}
	for _, e := range s.exprs {
		if e.Scope != expr.ScopeOnce || e == s.when {
			continue
		}
		for _, r := range e.ReferencesIn(c.base) {
			if of := c.byID[r.Step()]; of != nil {
				c.typeFan(of)
			}
		}
		c.compile(e, s)
	}
	t := c.itemType(s)
	s.instance[s.instanceName()] = t
	c.ts.Lookup(expr.InstanceOf + s.ID).Fields[s.instanceName()] = t
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
	for i, axis := range m.Axes.Keys {
		found[axis] = append(found[axis], c.ts.ElementType(o.Name+"."+axis, m.Axes.Values[i]))
	}
	for _, entry := range m.Include {
		for i, key := range entry.Entries.Keys {
			found[key] = append(found[key], c.ts.ValueType(o.Name+"."+key, entry.Entries.Values[i]))
		}
	}
	excuseKeys(o, m.Node)
	delete(o.Fields, "include")
	delete(o.Fields, "exclude")
	for key, of := range found {
		o.Fields[key] = c.ts.Union(o.Name+"."+key, of)
	}
	o.Optional = m.Optional()
	return c.ts.Define(o)
}

// expandFixed finds the combinations of a matrix without expressions, while the document has not had too many of them.
func (c *checker) expandFixed(m *matrix) {
	if !m.IsKnown() {
		return
	}
	size := 1
	for _, axis := range m.Axes.Values {
		if size *= len(axis.(expr.List)); size > maxInstances {
			c.src.Errorf(m.Node, "limit", "", "%s", errTooMany)
			return
		}
	}
	if c.tried += size * (1 + len(m.Include) + len(m.Exclude)); c.tried > maxTried {
		return
	}
	all, err := m.Combinations(nil)
	if err != nil {
		c.src.Errorf(m.Node, "limit", "", "%s", err)
		return
	}
	m.Fixed = all
	if len(all) == 0 && len(m.Axes.Keys) > 0 {
		c.src.Errorf(m.Node, "matrix", "", "`exclude` leaves no combination")
	}
}

// maxTried bounds the combinations that are tried for a whole document: a small document can have very many.
const maxTried = 50_000
