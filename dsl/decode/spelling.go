package decode

import (
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

func spellingHint(err error) string {
	var spelling *spec.SpellingError
	if !errors.As(err, &spelling) {
		return ""
	}
	return fmt.Sprintf("write %s, or %q for a string", spelling.Decimal, spelling.Written)
}

// decimalOf returns how a number is better written that readers of YAML do not agree on; empty for any other scalar.
func decimalOf(n *yaml.Node) string {
	if n.Tag != "!!int" && n.Tag != "!!float" {
		return ""
	}
	decimal := spec.WithoutLeadingZeros(strings.ReplaceAll(n.Value, "_", ""))
	switch {
	case strings.HasPrefix(strings.TrimLeft(decimal, "+-"), "0b"):
		return "it in decimal digits"
	case decimal == n.Value:
		return ""
	}
	return decimal
}

// asText reads a value anew as the texts that were written: of a number that stands for a text, the number alone would not do, since
// 1.10 is the number 1.1.
func (d *Decoder) asText(v expr.Value, n *yaml.Node) expr.Value {
	n = document.Unalias(n)
	if n == nil {
		return v
	}
	switch v := v.(type) {
	case expr.Literal:
		if n.Kind == yaml.ScalarNode && n.Tag != "!!null" {
			delete(d.misspelt, n)
			if _, isText := v.Value.(string); !isText {
				return expr.Literal{Value: n.Value}
			}
		}
	case expr.List:
		if n.Kind == yaml.SequenceNode && len(n.Content) == len(v) { // else an item was reported
			for i := range v {
				v[i] = d.asText(v[i], n.Content[i])
			}
		}
	case expr.Mapping:
		for i, key := range v.Keys {
			v.Values[i] = d.asText(v.Values[i], document.Lookup(n, key))
		}
	}
	return v
}

// ValuesAsText reads one entry of a mapping as texts, where a declaration says that it is one or holds some.
func (d *Decoder) ValuesAsText(of expr.Mapping, key string, n *yaml.Node, typ, items string) {
	isText := typ == "string" || typ == "enum" || (typ == "list" || typ == "map") && (items == "" || items == "string")
	if i := slices.Index(of.Keys, key); i >= 0 && isText {
		of.Values[i] = d.asText(of.Values[i], document.Lookup(n, key))
	}
}

// DeclaredAsText reads the defaults of declared parameters or fields as what they are declared to be.
func (d *Decoder) DeclaredAsText(declared expr.Mapping, n *yaml.Node) {
	for i, name := range declared.Keys {
		if decl, ok := declared.Values[i].(expr.Mapping); ok {
			typ, items := DeclaredType(decl)
			d.ValuesAsText(decl, "default", document.Lookup(n, name), typ, items)
		}
	}
}

// DeclaredType is the type that a parameter or a field is declared to have, and that of its items.
func DeclaredType(decl expr.Mapping) (typ, items string) {
	typ, _ = expr.Known(decl.Get("type")).(string)
	items, _ = expr.Known(decl.Get("items")).(string)
	return typ, items
}

// HoldsMisspelt reports whether a value is or holds a number that ReportMisspelt reports.
func (d *Decoder) HoldsMisspelt(n *yaml.Node) bool {
	n = document.Unalias(n)
	return n != nil && (d.misspelt[n] || slices.ContainsFunc(n.Content, d.HoldsMisspelt))
}

// ReportMisspelt reports numbers that readers of YAML do not agree on, where a number is meant or may be.
func (d *Decoder) ReportMisspelt() {
	for n := range d.misspelt {
		_, err := d.plain(n, reflect.TypeFor[int64]())
		d.Source.Errorf(n, "type", spellingHint(err), "%s", err)
	}
}
