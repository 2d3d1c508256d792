package dsl

import (
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

func approvalOutputs(ts *expr.TypeSystem, _ string, sp *spec.Approval) expr.ObjectType {
	ranges := map[string]expr.Range{}
	fields, optional := ts.StructFields(reflect.TypeFor[spec.ApprovalOutput]()), map[string]bool{}
	// An approval that nobody gives has its form only if nobody need fill it in.
	isUnfilled := sp.Default == "approve" && (sp.Timeout == nil || *sp.Timeout > 0) &&
		slices.ContainsFunc(slices.Collect(maps.Values(sp.Fields)), func(f spec.Field) bool { return f.Required })
	for name, f := range sp.Fields {
		optional[name] = isUnfilled || !f.Required && f.Default == nil
		if t := expr.ParamType(spec.Param{Type: f.Type}); t != nil && fields[name] == nil {
			fields[name] = t
			ranges[name] = expr.Range{Only: f.Values}
		}
	}
	for _, f := range spec.KeysOf(reflect.TypeFor[spec.ApprovalOutput]()) {
		delete(optional, f.Name)
	}
	return expr.ObjectType{Fields: fields, Optional: optional, Ranges: ranges}
}

func checkApproval(c *checker, s *step, sp *spec.Approval) {
	c.checkWho(document.Lookup(s.body, "who"))
	if at := document.Lookup(s.body, "default"); at != nil && sp.Timeout != nil && *sp.Timeout == 0 && !isComputed(s.body, "timeout") {
		c.src.Warnf(at, "approval-timeout", "write a `timeout`, or remove `default`", "the `default` of `%s` never applies: the step waits forever", s.ID)
	}
	reserved := spec.KeyNames(spec.KeysOf(reflect.TypeFor[spec.ApprovalOutput]()))
	for key, n := range document.Entries(s.body, "fields") {
		f, ok := sp.Fields[key.Value]
		switch {
		case slices.Contains(reserved, key.Value):
			c.src.Errorf(key, "reserved", "give it another name", "`%s` is an output of every approval", key.Value)
		case ok && n.Kind == yaml.MappingNode:
			checkField(c, key, n, f)
		}
	}
}

func checkField(c *checker, key, n *yaml.Node, f spec.Field) {
	values, byDefault := document.Lookup(n, "values"), document.Lookup(n, "default")
	document.CheckTwice(c.src, values)
	switch {
	case f.Type == "enum" && slices.Contains(f.Values, ""):
		c.src.Errorf(values, "field", "remove the empty one: a field that is not `required` may be left empty", "an empty value of `%s` cannot be chosen", key.Value)
	case f.Type == "enum" && len(f.Values) == 0 && !slices.Contains(c.d.MeantKeys(n), "values") && (values == nil || values.Kind == yaml.SequenceNode):
		c.src.Errorf(key, "field", "add `values: [a, b]`", "the enum `%s` has no values", key.Value)
	case f.Type != "enum" && f.Type != "" && values != nil:
		c.src.Errorf(document.KeyNode(n, "values"), "field", "write `type: enum`", "`values` is only allowed for an enum, and `%s` is %s", key.Value, spec.Article(f.Type))
	case byDefault != nil && f.Required:
		c.src.Errorf(document.KeyNode(n, "required"), "field", "remove one of them", "`%s` is required and has a default", key.Value)
	case byDefault != nil && f.Type != "":
		if _, err := f.Convert(spec.Written(f.Default)); err != nil {
			c.src.Errorf(byDefault, "field", "", "the default of `%s` is %s", key.Value, err)
		}
	}
}
