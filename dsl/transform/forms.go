package transform

import (
	"cmp"
	"encoding/json"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

var (
	nodeType   = reflect.TypeFor[spec.Transform]()
	cleanType  = reflect.TypeFor[spec.Clean]()
	execType   = reflect.TypeFor[Exec]()
	configType = reflect.TypeFor[json.RawMessage]() // where it is a transform's
)

// AddForms tells a decoder of what in a clean step may be written in more than one way.
func AddForms(d *decode.Decoder) {
	d.Forms[nodeType] = func(n *yaml.Node, _ spec.Rules) (expr.Value, bool) { return readTransform(d, n), true }
	d.Forms[reflect.PointerTo(nodeType)] = d.Forms[nodeType]
	d.Forms[reflect.TypeFor[spec.GroupOutputs]()] = func(n *yaml.Node, _ spec.Rules) (expr.Value, bool) { return readOutputs(n) }
	d.Forms[reflect.TypeFor[map[string]Aggregate]()] = func(n *yaml.Node, _ spec.Rules) (expr.Value, bool) {
		writeOutAggregates(n)
		return nil, false
	}
	d.Forms[reflect.TypeFor[spec.TransformInputs]()] = func(n *yaml.Node, _ spec.Rules) (expr.Value, bool) { return readInputs(d, n) }
}

// readTransform reads one transform or a group of them.
func readTransform(d *decode.Decoder, n *yaml.Node) expr.Value {
	typ := document.Lookup(n, "type")
	if typ == nil || typ.Kind != yaml.ScalarNode {
		return d.Structure(n, nodeType, nil)
	}
	if isGroup(typ.Value) {
		return readGroup(d, n, typ.Value)
	}
	config := Config(typ.Value)
	if config == nil {
		d.Source.Errorf(typ, "transform", cmp.Or(suggest.DidYouMean(typ.Value, Types()), beginning(typ.Value), "there are "+strings.Join(Types(), ", ")), "there is no transform `%s`", typ.Value)
		return nil
	}
	checkSingle(d.Source, n, typ.Value)
	return readConfig(d, n, typ.Value, reflect.TypeOf(config))
}

// beginning is a hint for a type that has the beginning of a transform's name, or the same beginning, such as Dedupe.
func beginning(word string) string {
	for _, n := range []int{len(word), 5} {
		for _, t := range Types() {
			if len(word) >= max(n, 4) && strings.HasPrefix(strings.ToLower(t), strings.ToLower(word[:n])) {
				return "did you mean `" + t + "`?"
			}
		}
	}
	return ""
}

// ExplainKey says where a key belongs that a transform lacks: in its config, or in the place of its type.
func ExplainKey(t reflect.Type, n, key *yaml.Node) (hint, meant string) {
	if t == execType && slices.ContainsFunc(spec.KeysOf(cleanType), func(k spec.Key) bool { return k.Name == key.Value }) {
		return "the whole step runs where its programs run: write it under `clean`, beside `transforms`", ""
	}
	if t != nodeType {
		return "", ""
	}
	for _, name := range Types() {
		if strings.EqualFold(name, key.Value) {
			return "write {type: " + name + ", config: {...}}", "type"
		}
	}
	if typ := document.Lookup(n, "type"); typ != nil {
		if config := Config(typ.Value); config != nil && slices.ContainsFunc(spec.KeysOf(reflect.TypeOf(config)), func(k spec.Key) bool { return k.Name == key.Value }) {
			return "write it under `config: {" + key.Value + ": ...}`", "config"
		}
	}
	return "", ""
}

// readConfig reads a transform whose config has the shape of its type.
func readConfig(d *decode.Decoder, n *yaml.Node, typ string, sp reflect.Type) expr.Value {
	config := document.Lookup(n, "config")
	outer := d.Forms[configType]
	d.Forms[configType] = func(n *yaml.Node, _ spec.Rules) (expr.Value, bool) {
		if n != config {
			return nil, false
		}
		return d.Structure(n, sp, nil), true
	}
	defer func() { d.Forms[configType] = outer }()
	out := d.Structure(n, nodeType, nil)
	if config == nil && !slices.Contains(d.MeantKeys(n), "config") {
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
	checkGroup(d.Source, n, typ)
	out, ok := d.Structure(n, nodeType, nil).(expr.Mapping)
	if names := inputNames(n); ok && names != nil {
		var list expr.List
		for _, name := range names {
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

// readInputs reads the form of Beam YAML that names the inputs; there is no transform that tells them apart.
func readInputs(d *decode.Decoder, n *yaml.Node) (expr.Value, bool) {
	if n.Kind != yaml.MappingNode {
		return nil, false
	}
	out := expr.List{}
	d.EachKey(n, func(_, val *yaml.Node) {
		if v := d.Decode(val, reflect.TypeFor[string](), spec.Rules{Literal: true}); v != nil {
			out = append(out, v)
		}
	})
	return out, true
}
