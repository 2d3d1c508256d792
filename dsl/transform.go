package dsl

import (
	"maps"
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/nearest"
)

var transformType = reflect.TypeFor[spec.Transform]()

var groupOutputsType = reflect.TypeFor[spec.GroupOutputs]()

// groupKeys are those that only a group has.
var groupKeys = []string{"source", "transforms", "sink", "extra_transforms", "output"}

// readTransform reads one transform or a group of them.
func readTransform(d *decode.Decoder, n *yaml.Node) expr.Value {
	typ := document.Lookup(n, "type")
	if typ == nil || typ.Kind != yaml.ScalarNode {
		return d.Structure(n, transformType, nil)
	}
	if isGroup(typ.Value) {
		return readGroup(d, n, typ.Value)
	}
	spec, ok := transformSpecs[typ.Value]
	if !ok {
		d.Source.Errorf(typ, "transform", nearest.Hint(typ.Value, slices.Collect(maps.Keys(transformSpecs))), "there is no transform `%s`", typ.Value)
		return nil
	}
	for key := range keysOf(n, groupKeys...) {
		d.Source.Errorf(key, "unknown-key", "write `type: chain` or `type: composite` for a group", "`%s` is a key of a group of transforms, and not of `%s`", key.Value, typ.Value)
	}
	return readConfig(d, n, typ.Value, reflect.TypeOf(spec))
}

// readConfig reads a transform whose config has the shape of its type.
func readConfig(d *decode.Decoder, n *yaml.Node, typ string, sp reflect.Type) expr.Value {
	config := document.Lookup(n, "config")
	outer := d.Forms[rawType]
	d.Forms[rawType] = func(n *yaml.Node, _ spec.Rules) (expr.Value, bool) {
		if n != config {
			return nil, false
		}
		return d.Structure(n, sp, nil), true
	}
	defer func() { d.Forms[rawType] = outer }()
	out := d.Structure(n, transformType, nil)
	if config == nil {
		for _, f := range spec.KeysOf(sp) {
			if f.Required {
				d.Source.Errorf(n, "required", "write `config: {"+f.Name+": ...}`", "the transform `%s` needs a config with `%s`", typ, f.Name)
			}
		}
	}
	return out
}

// readGroup reads a chain or a composite of transforms.
func readGroup(d *decode.Decoder, n *yaml.Node, typ string) expr.Value {
	for key := range keysOf(n, "config") {
		d.Source.Errorf(key, "unknown-key", "write the configs of the transforms inside it", "a %s has no `config`", typ)
	}
	if typ == "composite" {
		noChain(d.Source, n)
	}
	if chain, extra := memberNodes(n); len(chain)+len(extra) == 0 {
		d.Source.Errorf(n, "required", "write `transforms: [...]`", "there are no transforms in this %s", typ)
	}
	out, ok := d.Structure(n, transformType, nil).(expr.Mapping)
	if names := document.Lookup(n, "input"); ok && names != nil && names.Kind == yaml.MappingNode {
		var list expr.List
		for name := range inputNodes(n) {
			list = append(list, expr.Literal{Value: name})
		}
		out.Add("input_names", list)
	}
	return out
}

// readOutputs reads the form that names no output but has one.
func readOutputs(n *yaml.Node) (expr.Value, bool) {
	if n.Kind != yaml.ScalarNode {
		return nil, false
	}
	return expr.MappingOf("", expr.Literal{Value: n.Value}), true
}

// keysOf yields those keys of a mapping that are among some.
func keysOf(n *yaml.Node, names ...string) func(yield func(*yaml.Node) bool) {
	return func(yield func(*yaml.Node) bool) {
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := n.Content[i]; slices.Contains(names, key.Value) && !yield(key) {
				return
			}
		}
	}
}

// noChain reports the keys of a composite that only a chain has.
func noChain(r document.Reporter, composite *yaml.Node) {
	for key := range keysOf(composite, "source", "sink", "extra_transforms") {
		r.Errorf(key, "chain", "write it under `transforms`", "`%s` belongs to a chain, and a composite has none", key.Value)
	}
}
