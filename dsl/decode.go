package dsl

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// decoder reads YAML values against spec structs. It reports everything that is wrong and goes on.
type decoder struct {
	src     *source
	scope   scope // of the expressions met
	exprs   []*expression
	fixed   bool // no ${} here, as in an environment
	depth   int
	aliased int // values left to reach through aliases
	inAlias int
	forms   map[reflect.Type]form
	meant   map[*yaml.Node][]string // the keys that a mapping's unknown keys were likely meant to be
}

// form reads the values of one type that may be written in more than one way; done is false when it leaves the value to the
// decoder.
type form func(n *yaml.Node, r rules) (v value, done bool)

func newDecoder(src *source, fixed bool) *decoder {
	return &decoder{src: src, fixed: fixed, aliased: maxAliased, forms: map[reflect.Type]form{}, meant: map[*yaml.Node][]string{}}
}

// enter resolves an alias, checks the tag, and guards depth and size. When ok, the caller must call leave.
func (d *decoder) enter(n *yaml.Node) (target *yaml.Node, leave func(), ok bool) {
	through := 0
	if n.Kind == yaml.AliasNode {
		if d.inAlias >= maxAliasDepth {
			d.src.errorf(n, "limit", "write the value out", "the alias `*%s` holds itself, or aliases nest too deeply", n.Value)
			return nil, nil, false
		}
		n, through = n.Alias, 1
	}
	if d.depth >= maxDepth {
		d.src.errorf(n, "limit", "", "values nest deeper than %d", maxDepth)
		return nil, nil, false
	}
	if !d.checkTag(n) {
		return nil, nil, false
	}
	d.depth++
	d.inAlias += through
	return n, func() { d.depth--; d.inAlias -= through }, true
}

var coreTags = []string{"!!str", "!!int", "!!float", "!!bool", "!!null", "!!map", "!!seq", "!!timestamp", ""}

// checkTag refuses everything outside YAML's core schema: an unquoted `!x` would silently lose its meaning.
func (d *decoder) checkTag(n *yaml.Node) bool {
	written := d.src.line(n.Line)
	runes := []rune(written)
	tagged := n.Style&yaml.TaggedStyle != 0 || n.Column <= len(runes) && n.Column > 0 && runes[n.Column-1] == '!'
	if n.Tag == "!!merge" {
		d.src.errorf(n, "tag", "write the keys out, or use an alias for a whole value", "merge keys (`<<`) are not part of YAML 1.2")
		return false
	}
	if !tagged && n.Tag != "!!binary" {
		return true
	}
	if n.Style&yaml.TaggedStyle != 0 && strings.HasPrefix(n.Tag, "!!") && slices.Contains(coreTags, n.Tag) && n.Tag != "!!timestamp" {
		return true
	}
	if n.Kind == yaml.ScalarNode && !strings.HasPrefix(string(runes[n.Column-1:]), "!!") {
		meant := "!" + n.Value
		if n.Style&yaml.TaggedStyle != 0 {
			meant = strings.TrimSpace(n.Tag + " " + n.Value)
		}
		d.src.errorf(n, "tag", "quote it: "+strconv.Quote(meant), "YAML reads a `!` here as a tag and drops it from the text")
		return false
	}
	d.src.errorf(n, "tag", "remove it", "the tag `%s` is outside YAML's core schema", n.Tag)
	return false
}

// decode reads n as a value of type t; nil after it has reported why it cannot.
func (d *decoder) decode(n *yaml.Node, t reflect.Type, r rules) value {
	n, leave, ok := d.enter(n)
	if !ok {
		return nil
	}
	defer leave()
	if r.literal && !d.fixed {
		d.fixed = true
		defer func() { d.fixed = false }()
	}
	if short := d.forms[t]; short != nil {
		if v, done := short(n, r); done {
			return v
		}
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == yaml.ScalarNode && t != exprType && !r.raw && strings.Contains(n.Value, "${") {
		w := want{typ: t, artifact: r.artifact}
		if t.Kind() == reflect.Interface {
			w.typ = nil
		}
		return d.interpolate(n, w)
	}
	switch {
	case t == exprType:
		return d.expression(n, r)
	case t == refType:
		d.src.errorf(n, "type", "write a whole value such as ${steps.NAME.OUTPUT}", "an artifact comes from an earlier step")
		return nil
	case t == rawType:
		return d.free(n)
	}
	switch t.Kind() {
	case reflect.Struct:
		return d.structure(n, t, nil)
	case reflect.Map:
		return d.mapping(n, t, r)
	case reflect.Slice:
		return d.sequence(n, t, r)
	case reflect.Interface:
		return d.free(n)
	}
	return d.scalar(n, t, r)
}

var rawType = reflect.TypeFor[json.RawMessage]()

// structure reads a mapping against a struct. other, when given, takes keys the struct lacks.
func (d *decoder) structure(n *yaml.Node, t reflect.Type, other func(key, val *yaml.Node) bool) value {
	if n.Kind != yaml.MappingNode {
		d.src.errorf(n, "type", "its keys are "+strings.Join(fieldNames(fieldsOf(t)), ", "), "a mapping is expected here, not %s", nodeKind(n))
		return nil
	}
	var out entries
	fields := fieldsOf(t)
	d.eachKey(n, func(key, val *yaml.Node) {
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key.Value })
		if i < 0 {
			if other == nil || !other(key, val) {
				d.unknownKey(n, key, t, fields)
			}
			return
		}
		if v := d.decode(val, fields[i].typ, fields[i].rules); v != nil {
			out.keys, out.values = append(out.keys, key.Value), append(out.values, v)
		}
	})
	for _, f := range fields {
		if f.required && d.missing(n, f.name) {
			d.src.errorf(n, "required", "", "`%s` is missing", f.name)
		}
	}
	return out
}

// eachKey calls f for every entry of a mapping with a key that is a string and not there twice.
func (d *decoder) eachKey(n *yaml.Node, f func(key, val *yaml.Node)) {
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		if d.inAliased(n) {
			return
		}
		if key.Kind != yaml.ScalarNode || !d.checkTag(key) {
			if key.Kind != yaml.ScalarNode {
				d.src.errorf(key, "type", "", "a key must be a plain word")
			}
			continue
		}
		if line, twice := seen[key.Value]; twice {
			d.src.errorf(key, "duplicate", "remove one of them", "the key `%s` is already in line %d", key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		f(key, val)
	}
}

// inAliased counts the values of a document and stops at more than any real one has: a few aliases of aliases make billions.
func (d *decoder) inAliased(n *yaml.Node) bool {
	if d.inAlias == 0 {
		return false
	}
	if d.aliased--; d.aliased == -1 {
		d.src.errorf(n, "limit", "write the values out", "aliases stand for more than %d values", maxAliased)
	}
	return d.aliased < 0
}

func (d *decoder) unknownKey(n, key *yaml.Node, t reflect.Type, fields []field) {
	if slices.Contains(notYetKeys[t], key.Value) {
		d.src.errorf(key, "not-yet", "", "`%s` is not in this version yet", key.Value)
		return
	}
	names := fieldNames(fields)
	hint, meant := suggest(key.Value, names), nearest(key.Value, names)
	if ours, ok := foreignWords[key.Value]; ok && (slices.Contains(names, ours) || strings.Contains(ours, " ")) {
		hint, meant = "Sluice uses `"+ours+"`", ours
		if strings.Contains(ours, " ") {
			hint = "Sluice uses " + ours
		}
	}
	d.meant[n] = append(d.meant[n], meant)
	d.src.errorf(key, "unknown-key", hint, "`%s` is not a key here", key.Value)
}

// missing reports whether a mapping lacks a key, and no key in it was a misspelling of it.
func (d *decoder) missing(n *yaml.Node, key string) bool {
	return lookup(n, key) == nil && !slices.Contains(d.meant[n], key)
}

func (d *decoder) mapping(n *yaml.Node, t reflect.Type, r rules) value {
	if n.Kind != yaml.MappingNode {
		d.src.errorf(n, "type", "", "a mapping is expected here, not %s", nodeKind(n))
		return nil
	}
	var out entries
	item := r
	item.names = false
	d.eachKey(n, func(key, val *yaml.Node) {
		if r.names && !d.checkName(key) {
			return
		}
		if v := d.decode(val, t.Elem(), item); v != nil {
			out.keys, out.values = append(out.keys, key.Value), append(out.values, v)
		}
	})
	return out
}

func (d *decoder) checkName(n *yaml.Node) bool {
	if isIdentifier(n.Value) {
		return true
	}
	hint := "small letters, digits and `_`, beginning with a letter"
	if strings.Contains(n.Value, "-") {
		hint = "write `" + strings.ReplaceAll(n.Value, "-", "_") + "`: in an expression a hyphen is a subtraction"
	}
	d.src.errorf(n, "name", hint, "%q is not a name", n.Value)
	return false
}

func (d *decoder) sequence(n *yaml.Node, t reflect.Type, r rules) value {
	if n.Kind != yaml.SequenceNode {
		d.src.errorf(n, "type", "write [a, b], or one `- item` a line", "a list is expected here, not %s", nodeKind(n))
		return nil
	}
	out := list{}
	item := r
	item.names = false
	seen := map[string]bool{}
	for _, c := range n.Content {
		if d.inAliased(n) {
			break
		}
		if r.names && c.Kind == yaml.ScalarNode {
			if !d.checkName(c) {
				continue
			}
			if seen[c.Value] {
				d.src.errorf(c, "duplicate", "remove one of them", "`%s` is in the list twice", c.Value)
				continue
			}
			seen[c.Value] = true
		}
		if v := d.decode(c, t.Elem(), item); v != nil {
			out = append(out, v)
		}
	}
	return out
}

// scalar reads a literal.
func (d *decoder) scalar(n *yaml.Node, t reflect.Type, r rules) value {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.src.errorf(n, "type", "", "%s is expected here, not %s", want{typ: t}, nodeKind(n))
		return nil
	}
	switch t {
	case durationType, shareType, sizeType:
		v, err := parseScalar(t, n.Value)
		if err != nil {
			d.src.errorf(n, map[reflect.Type]string{durationType: "duration", shareType: "share", sizeType: "size"}[t], "", "%s", err)
			return nil
		}
		return literal{v}
	}
	v, err := d.plain(n, t)
	if err != nil {
		d.src.errorf(n, "type", "", "%s", err)
		return nil
	}
	if s, ok := v.(string); ok && !d.inEnum(n, s, r) {
		return nil
	}
	if !d.inRange(n, v, r) {
		return nil
	}
	return literal{v}
}

// plain reads a string, bool or number. A string may be written as a number or a bool, as it often is in `env` and `command`.
func (d *decoder) plain(n *yaml.Node, t reflect.Type) (any, error) {
	mismatch := fmt.Errorf("%s is expected here, not %s", want{typ: t}, nodeKind(n))
	switch t.Kind() {
	case reflect.String:
		return n.Value, nil
	case reflect.Bool:
		if n.Tag != "!!bool" {
			return nil, mismatch
		}
		return strings.EqualFold(n.Value, "true"), nil
	case reflect.Int, reflect.Int64:
		v, err := strconv.ParseInt(strings.ReplaceAll(n.Value, "_", ""), 0, 64)
		if errors.Is(err, strconv.ErrRange) {
			return nil, fmt.Errorf("%s is too large", n.Value)
		}
		if n.Tag != "!!int" || err != nil {
			return nil, mismatch
		}
		return v, nil
	case reflect.Float64:
		v, err := strconv.ParseFloat(n.Value, 64)
		if n.Tag != "!!float" && n.Tag != "!!int" || err != nil || math.IsNaN(v) || math.IsInf(v, 0) {
			return nil, mismatch
		}
		return v, nil
	}
	return nil, mismatch
}

func (d *decoder) inEnum(n *yaml.Node, s string, r rules) bool {
	switch {
	case len(r.enum) == 0 || slices.Contains(r.enum, s):
		return true
	case slices.Contains(r.later, s):
		d.src.errorf(n, "not-yet", "", "`%s` is not in this version yet", s)
	case len(r.enum) == 1:
		d.src.errorf(n, "enum", "", "this must be %s, not %q", r.enum[0], s)
	default:
		d.src.errorf(n, "enum", didYouMean(s, r.enum), "%q is not one of %s", s, strings.Join(r.enum, ", "))
	}
	return false
}

func (d *decoder) inRange(n *yaml.Node, v any, r rules) bool {
	var x float64
	switch v := v.(type) {
	case int64:
		x = float64(v)
	case float64:
		x = v
	default:
		return true
	}
	switch {
	case r.min != nil && x < *r.min:
		d.src.errorf(n, "range", "", "%s is less than %s, the least allowed", n.Value, formatDouble(*r.min))
	case r.max != nil && x > *r.max:
		d.src.errorf(n, "range", "", "%s is more than %s, the most allowed", n.Value, formatDouble(*r.max))
	default:
		return true
	}
	return false
}

// expression reads a CEL expression that stands without ${}.
func (d *decoder) expression(n *yaml.Node, r rules) value {
	if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
		d.src.errorf(n, "type", "", "an expression is expected here, not %s", nodeKind(n))
		return nil
	}
	if strings.Contains(n.Value, "${") {
		d.src.errorf(n, "interpolation", "write it without `${` and `}`", "this is an expression already")
		return nil
	}
	w := want{}
	if r.boolean {
		w.typ = boolType
	}
	d.add(n, n.Value, 0, d.scope, w)
	return literal{n.Value}
}

func (d *decoder) add(n *yaml.Node, text string, start int, s scope, w want) *expression {
	e := &expression{text: text, node: n, start: start, scope: s, want: w}
	d.exprs = append(d.exprs, e)
	return e
}

// interpolate reads a scalar that holds ${}.
func (d *decoder) interpolate(n *yaml.Node, w want) value {
	parts, err := splitText(n.Value)
	if err != nil {
		var at *splitError
		errors.As(err, &at)
		line, col := d.src.locate(n, at.offset)
		d.src.add(SeverityError, line, col, "interpolation", "write `$${` for a literal `${`", at.message)
		return nil
	}
	exprs := slices.ContainsFunc(parts, func(p part) bool { return p.isExpr })
	switch {
	case exprs && d.fixed:
		d.src.errorf(n, "literal", "write the value itself", "this must be known before a run starts: it takes no ${}")
		return nil
	case !exprs && w.isText():
		return literal{joinLiterals(parts)}
	case len(parts) == 1 && parts[0].isExpr:
		return hole{d.add(n, parts[0].expr, parts[0].offset, scopePlain, w)}
	case !w.isText():
		d.src.errorf(n, "type", "let one ${} be the whole value", "this is a text, and the place takes %s", w)
		return nil
	}
	var out text
	for _, p := range parts {
		if !p.isExpr {
			out = append(out, textPart{literal: p.literal})
			continue
		}
		out = append(out, textPart{expr: d.add(n, p.expr, p.offset, scopePlain, want{typ: stringType, part: true})})
	}
	return out
}

func joinLiterals(parts []part) string {
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(p.literal)
	}
	return b.String()
}

// free reads any plain data as it is, such as a JSON Schema.
func (d *decoder) free(n *yaml.Node) value {
	n, leave, ok := d.enter(n)
	if !ok {
		return nil
	}
	defer leave()
	switch n.Kind {
	case yaml.MappingNode:
		out := entries{}
		d.eachKey(n, func(key, val *yaml.Node) {
			if v := d.free(val); v != nil {
				out.keys, out.values = append(out.keys, key.Value), append(out.values, v)
			}
		})
		return out
	case yaml.SequenceNode:
		out := list{}
		for _, c := range n.Content {
			if v := d.free(c); v != nil && !d.inAliased(n) {
				out = append(out, v)
			}
		}
		return out
	}
	for _, t := range map[string][]reflect.Type{
		"!!bool": {boolType}, "!!int": {reflect.TypeFor[int64]()}, "!!float": {reflect.TypeFor[float64]()},
	}[n.Tag] {
		if v, err := d.plain(n, t); err == nil {
			return literal{v}
		}
	}
	if n.Tag == "!!null" {
		return literal{nil}
	}
	return literal{n.Value}
}

func nodeKind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.Tag {
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return "the bool " + n.Value
	}
	if len(n.Value) > 40 {
		return "a text"
	}
	return strconv.Quote(n.Value)
}

// lookup returns the value at a path of keys (string) and indices (int), or nil.
func lookup(n *yaml.Node, path ...any) *yaml.Node {
	for _, p := range path {
		if n != nil && n.Kind == yaml.AliasNode {
			n = n.Alias
		}
		if n == nil {
			return nil
		}
		var next *yaml.Node
		switch p := p.(type) {
		case string:
			for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
				if n.Content[i].Value == p {
					next = n.Content[i+1]
					break
				}
			}
		case int:
			if n.Kind == yaml.SequenceNode && p < len(n.Content) {
				next = n.Content[p]
			}
		}
		n = next
	}
	return n
}

// keyNode returns the key of an entry of a mapping, or the mapping itself when it has no such key.
func keyNode(n *yaml.Node, key string) *yaml.Node {
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i]
		}
	}
	return n
}
