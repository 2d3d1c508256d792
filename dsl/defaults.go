package dsl

import (
	"reflect"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

// withDefaults returns a mapping with the keys it lacks taken from the defaults of that name. They keep their places in the document.
func (l *loader) withDefaults(n *yaml.Node, name string) *yaml.Node {
	defaults := document.Lookup(l.defaults, name)
	if defaults == nil || defaults.Kind != yaml.MappingNode || n.Kind != yaml.MappingNode {
		return n
	}
	merged := *n
	merged.Content = slices.Clone(n.Content)
	for i := 0; i+1 < len(defaults.Content); i += 2 {
		if key := defaults.Content[i]; document.Child(n, key.Value) == nil && (name != "step" || decode.HasKey(envelopeType, key.Value)) {
			merged.Content = append(merged.Content, key, defaults.Content[i+1])
		}
	}
	return &merged
}

// checkDefaults reads the defaults by themselves: what no step takes must be right too. The findings of those that a step takes come
// twice, and one of them goes.
func (l *loader) checkDefaults(n *yaml.Node) {
	d := l.d
	if n.Kind != yaml.MappingNode {
		l.src.Errorf(n, "type", "write `defaults: {step: {...}}`, or a kind in place of `step`", "expected a mapping, not %s", document.NodeKind(n))
		return
	}
	outer := d.Expressions
	defer func() { d.Expressions = outer }()
	d.EachKey(n, func(key, val *yaml.Node) {
		val, leave, ok := d.Enter(val)
		if !ok {
			return
		}
		defer leave()
		if key.Value == "step" {
			l.envelopeForms(d, &step{})
			d.Partial(val, reflect.TypeFor[spec.Envelope]())
			return
		}
		info := kindByName(key.Value)
		if info == nil {
			hint := suggest.Hint(key.Value, append(kindNames(), "step"))
			if decode.HasKey(envelopeType, key.Value) {
				hint = "write `defaults: {step: {" + key.Value + ": ...}}`"
			}
			l.src.Errorf(key, "unknown-key", hint, "`%s` is neither `step` nor a kind", key.Value)
			return
		}
		defer d.EnterScope(info.scope)()
		l.bodyForms(d)
		d.Partial(val, reflect.TypeOf(info.new()).Elem())
	})
}
