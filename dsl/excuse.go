package dsl

import (
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// An error in one place should not cause further findings elsewhere: whatever could not be read, and was reported, has any type for the
// expressions that read it.

// isBroken reports whether a key of a mapping was written, or probably meant, and could not be read.
func (c *checker) isBroken(n *yaml.Node, key string, want yaml.Kind) bool {
	at := document.Lookup(n, key)
	return at != nil && at.Kind != want || at == nil && n != nil && slices.Contains(c.d.MeantKeys(n), key)
}

// excuseOutputs adds the outputs of a step that could not be read.
func (c *checker) excuseOutputs(s *step, outputs *expr.ObjectType) {
	if c.isBroken(s.body, "outputs", yaml.MappingNode) {
		outputs.Rest = cel.DynType
	}
	isTwo := func(d document.Diagnostic) bool { // steps of one name, or kinds of one step
		return strings.Contains(d.Message, "key `"+s.ID+"` is already") || strings.Contains(d.Message, "and `"+s.ID+"` already has")
	}
	if slices.ContainsFunc(c.src.Findings, isTwo) {
		outputs.Rest = cel.DynType
	}
	if s.info().programs != programsInTransforms {
		excuseKeys(outputs, s.body, "outputs")
	}
	if isA[*spec.Approval](s) {
		for key := range document.Entries(s.body, "fields") {
			if outputs.Fields[key.Value] == nil && expr.IsIdentifier(key.Value) {
				outputs.Fields[key.Value] = cel.DynType
			}
		}
	}
	metrics := document.Lookup(s.body, "metrics")
	isUnread := func(n *yaml.Node) bool { return n.Kind != yaml.ScalarNode }
	switch has := outputs.Fields["metrics"] != nil; {
	case has && c.isBroken(s.body, "metrics", yaml.SequenceNode), !has && metrics != nil, has && slices.ContainsFunc(document.Items(metrics), isUnread):
		outputs.Fields["metrics"] = cel.DynType
	}
}

// excuseFan are the names of instances for a step whose matrix, foreach or repeat could not be read; nil when it has none.
func (c *checker) excuseFan(s *step) map[string]*cel.Type {
	for _, fan := range []spec.Fan{spec.FanMatrix, spec.FanForeach, spec.FanRepeat} {
		if document.Lookup(s.node, string(fan)) != nil || slices.Contains(c.d.MeantKeys(s.node), string(fan)) {
			return map[string]*cel.Type{"matrix": cel.DynType, "item": cel.DynType, "index": cel.DynType, "previous": cel.DynType}
		}
	}
	return nil
}

// excuseParams adds the parameters that could not be read.
func (c *checker) excuseParams(params *expr.ObjectType) {
	if c.isBroken(c.root, "params", yaml.MappingNode) {
		params.Rest = cel.DynType
	}
	excuseKeys(params, c.root, "params")
}

// excuseKeys adds the keys of a mapping that could not be read; of what is no name also the name that was likely meant.
func excuseKeys(o *expr.ObjectType, n *yaml.Node, path ...any) {
	for key := range document.Entries(n, path...) {
		for _, name := range []string{key.Value, decode.NearName(key.Value)} {
			if o.Fields[name] == nil {
				o.Fields[name] = cel.DynType
			}
		}
	}
}
