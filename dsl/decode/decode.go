// Package decode reads YAML against the structs of dsl/spec: the values that a document has, with the expressions in them, and a finding at
// its place for everything that does not fit. What may be written in more than one way is read by forms, which its caller brings.
package decode

import (
	"cmp"
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

// Bounds on what is in a document, as in dsl/document.
const (
	maxDepth      = 100      // nested values
	maxAliased    = 10_000   // values reached through aliases
	maxAliasDepth = 20       // aliases within aliases
	maxText       = 16 << 10 // bytes of a text with ${}
	maxExprs      = 10_000   // expressions
)

// Decoder reads YAML values against spec structs. It reports everything that is wrong and goes on.
type Decoder struct {
	Source *document.Source
	// Scope is that of the expressions met from now on, and Expressions are those that were met.
	Scope       expr.Scope
	Expressions []*expr.Expression
	// Forms are what reads the values of some types before the decoder does.
	Forms map[reflect.Type]Form
	// Beside are keys that may stand beside those of a struct, which others read.
	Beside map[reflect.Type][]string
	// Explain says of a key that a struct of type t lacks, in the mapping n, what to write instead, and which key was meant. Both are empty
	// when it does not know.
	Explain func(t reflect.Type, n, key *yaml.Node) (hint, meant string)

	key     string // that the value stands under which is read
	met     int    // expressions so far, of all steps
	fixed   bool   // no ${} here, as in an environment
	partial bool   // the next mapping may lack keys, as defaults do
	depth   int
	aliased int // values left to reach through aliases
	inAlias int
	meant   map[*yaml.Node][]string // the keys that a mapping's unknown keys were likely meant to be
	told    map[*yaml.Node]string   // the hint for the last unknown key of a mapping
	// misspelt are numbers that not everyone reads alike, in places where they may yet turn out to be texts.
	misspelt map[*yaml.Node]bool
	// Paths are texts that are written like what an expression reads.
	Paths []*yaml.Node
}

// Form reads the values of one type that may be written in more than one way; done is false when it leaves the value to the
// decoder.
type Form func(n *yaml.Node, r spec.Rules) (v expr.Value, done bool)

// EnterScope sets the scope of the expressions met from now on. It returns what sets it back.
func (d *Decoder) EnterScope(scope expr.Scope) (leave func()) {
	outer := d.Scope
	d.Scope = scope
	return func() { d.Scope = outer }
}

// FormIn reads structs of type t, whose expressions see other names than those around them.
func (d *Decoder) FormIn(scope expr.Scope, t reflect.Type) Form {
	return func(n *yaml.Node, _ spec.Rules) (expr.Value, bool) {
		defer d.EnterScope(scope)()
		return d.Structure(n, t, nil), true
	}
}

// New makes a decoder of a document, in which there is no ${} when it is fixed.
func New(src *document.Source, fixed bool) *Decoder {
	return &Decoder{
		Source: src, fixed: fixed, aliased: maxAliased, Forms: map[reflect.Type]Form{}, meant: map[*yaml.Node][]string{},
		misspelt: map[*yaml.Node]bool{}, told: map[*yaml.Node]string{},
	}
}

// Enter resolves an alias, checks the tag, and guards depth and size. When ok, the caller must call leave.
func (d *Decoder) Enter(n *yaml.Node) (target *yaml.Node, leave func(), ok bool) {
	through := 0
	if n.Kind == yaml.AliasNode {
		if d.inAlias >= maxAliasDepth {
			d.Source.Errorf(n, "limit", "write the value out", "the alias `*%s` contains itself, or aliases are nested too deeply", n.Value)
			return nil, nil, false
		}
		n, through = n.Alias, 1
	}
	if d.depth >= maxDepth {
		d.Source.Errorf(n, "limit", "", "values are nested more than %d deep", maxDepth)
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
func (d *Decoder) checkTag(n *yaml.Node) bool {
	runes := d.Source.Characters(n.Line)
	tagged := n.Style&yaml.TaggedStyle != 0 || n.Column <= len(runes) && n.Column > 0 && runes[n.Column-1] == '!'
	if n.Tag == "!!merge" {
		d.Source.Errorf(n, "tag", "write the keys out, or use an alias for a whole value", "merge keys (`<<`) are not part of YAML 1.2")
		return false
	}
	if !tagged && n.Tag != "!!binary" {
		return true
	}
	if n.Style&yaml.TaggedStyle != 0 && strings.HasPrefix(n.Tag, "!!") && slices.Contains(coreTags, n.Tag) && n.Tag != "!!timestamp" {
		return true
	}
	if n.Kind == yaml.ScalarNode && !strings.HasPrefix(string(runes[n.Column-1:min(n.Column+1, len(runes))]), "!!") {
		meant := "!" + n.Value
		if n.Style&yaml.TaggedStyle != 0 {
			meant = strings.TrimSpace(n.Tag + " " + n.Value)
		}
		d.Source.Errorf(n, "tag", "quote it: "+strconv.Quote(meant), "YAML reads `!` here as a tag and drops it from the value")
		return false
	}
	d.Source.Errorf(n, "tag", "remove it", "the tag `%s` is not part of YAML's core schema", n.Tag)
	return false
}

// Decode reads n as a value of type t; nil after it has reported why it cannot.
func (d *Decoder) Decode(n *yaml.Node, t reflect.Type, r spec.Rules) expr.Value {
	n, leave, ok := d.Enter(n)
	if !ok {
		return nil
	}
	defer leave()
	if fixed := (d.fixed || r.Literal) && t != goRef; fixed != d.fixed {
		d.fixed = fixed
		defer func() { d.fixed = !fixed }()
	}
	if short := d.Forms[t]; short != nil {
		if v, done := short(n, r); done {
			return v
		}
	}
	if t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if n.Kind == yaml.ScalarNode && t != spec.ExprType && t != spec.PathsType && !r.Raw && strings.Contains(n.Value, "${") {
		w := expr.Expected{Type: t, Artifact: r.Artifact}
		if t.Kind() == reflect.Interface {
			w.Type = nil
		}
		return d.Interpolate(n, w)
	}
	switch {
	case t == spec.ExprType:
		return d.Expression(n, r)
	case t == goRef:
		d.Source.Errorf(n, "type", "write a whole value such as ${steps.NAME.OUTPUT}, or for a published one ${"+cmp.Or(r.Artifact, "model")+"s['NAME']}", "an artifact must come from an earlier step")
		return nil
	case t == goRaw:
		return d.free(n)
	case t == spec.TimeType:
		return d.scalar(n, t, r)
	}
	switch t.Kind() {
	case reflect.Struct:
		return d.Structure(n, t, nil)
	case reflect.Map:
		return d.mapping(n, t, r)
	case reflect.Slice:
		return d.sequence(n, t, r)
	case reflect.Interface:
		if d.fixed {
			return d.free(n)
		}
		return d.Data(n)
	}
	return d.scalar(n, t, r)
}

var (
	goRaw    = reflect.TypeFor[json.RawMessage]()
	goBool   = reflect.TypeFor[bool]()
	goString = reflect.TypeFor[string]()
	goRef    = reflect.TypeFor[artifact.Ref]()
)

// Structure reads a mapping against a struct. other, when given, takes keys the struct lacks.
func (d *Decoder) Structure(n *yaml.Node, t reflect.Type, other func(key, val *yaml.Node) bool) expr.Value {
	if n.Kind != yaml.MappingNode {
		d.Source.Errorf(n, "type", d.shapeHint(n, t), "expected a mapping, not %s", document.NodeKind(n))
		return nil
	}
	var out expr.Mapping
	fields := spec.KeysOf(t)
	partial := d.partial
	d.partial = false
	d.EachKey(n, func(key, val *yaml.Node) {
		i := slices.IndexFunc(fields, func(f spec.Key) bool { return f.Name == key.Value })
		if i < 0 {
			if other == nil || !other(key, val) {
				d.unknownKey(n, key, val, t, fields, partial)
			}
			return
		}
		if _, below := AboveAndBelow(n, key); below != "" && !slices.ContainsFunc(fields, func(f spec.Key) bool { return f.Name == below }) && holds(fields[i].Type) {
			return // told of there
		}
		if v := d.Decode(val, fields[i].Type, fields[i].Rules); v != nil {
			out.Add(key.Value, v)
		}
	})
	for _, f := range fields {
		if f.Required && !partial && d.Missing(n, f.Name) {
			d.Source.Errorf(n, "required", requiredHint(n, t, f), "`%s` is missing", f.Name)
		}
	}
	return out
}

// Partial reads a mapping against a struct of which it may lack any key, as defaults do.
func (d *Decoder) Partial(n *yaml.Node, t reflect.Type) {
	d.partial = true
	defer func() { d.partial = false }()
	d.Structure(n, t, nil)
}

// EachKey calls f for every entry of a mapping with a key that is a string and not there twice.
func (d *Decoder) EachKey(n *yaml.Node, f func(key, val *yaml.Node)) {
	seen := make(map[string]int, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, val := n.Content[i], n.Content[i+1]
		if d.inAliased(n) {
			return
		}
		if key.Kind != yaml.ScalarNode || !d.checkTag(key) {
			if key.Kind != yaml.ScalarNode {
				d.Source.Errorf(key, "type", "", "a key must be a plain string")
			}
			continue
		}
		if line, twice := seen[key.Value]; twice {
			d.Source.Errorf(key, "duplicate", "remove one of them", "the key `%s` is already used on line %d", key.Value, line)
			continue
		}
		seen[key.Value] = key.Line
		outer := d.key
		d.key = key.Value
		f(key, val)
		d.key = outer
	}
}

// inAliased counts the values of a document and stops at more than any real one has: a few aliases of aliases make billions.
func (d *Decoder) inAliased(n *yaml.Node) bool {
	if d.inAlias == 0 {
		return false
	}
	if d.aliased--; d.aliased == -1 {
		d.Source.Errorf(n, "limit", "write the values out", "aliases expand to more than %d values", maxAliased)
	}
	return d.aliased < 0
}

// NoteMeant notes which key an unknown key of a mapping was likely meant to be.
func (d *Decoder) NoteMeant(n *yaml.Node, key string) { d.meant[n] = append(d.meant[n], key) }

// MeantKeys are the keys that a mapping's unknown keys were likely meant to be.
func (d *Decoder) MeantKeys(n *yaml.Node) []string { return d.meant[n] }

// Missing reports whether a mapping lacks a key, and no key in it was a misspelling of it.
func (d *Decoder) Missing(n *yaml.Node, key string) bool {
	return document.Lookup(n, key) == nil && !slices.Contains(d.meant[n], key)
}

func (d *Decoder) mapping(n *yaml.Node, t reflect.Type, r spec.Rules) expr.Value {
	if n.Kind != yaml.MappingNode {
		d.Source.Errorf(n, "type", d.shapeHint(n, t), "expected a mapping, not %s", document.NodeKind(n))
		return nil
	}
	var out expr.Mapping
	item := r
	item.Names, item.Labels = false, false
	d.EachKey(n, func(key, val *yaml.Node) {
		if r.Names && !d.CheckName(key) || r.Labels && !d.checkLabel(key) {
			return
		}
		if isChoice(t.Elem(), key.Value) && val.Kind == yaml.MappingNode && len(val.Content) > 0 &&
			document.OnlyKeys(val, func(word string) bool { return !slices.Contains(spec.KeyNames(spec.KeysOf(t.Elem())), word) }) {
			d.Source.Errorf(key, "type", "write {NAME: {"+key.Value+": {...}}}", "`%s` is read as a name here", key.Value)
			return
		}
		if v := d.Decode(val, t.Elem(), item); v != nil {
			out.Add(key.Value, v)
		}
	})
	return out
}

// isChoice reports whether a word is a key of which a struct must have one.
func isChoice(t reflect.Type, word string) bool {
	return t.Kind() == reflect.Struct && slices.Contains(spec.Choices(t), word)
}

// CheckName reports what is no name of the language; it reports whether it is one.
func (d *Decoder) CheckName(n *yaml.Node) bool {
	switch near := NearName(n.Value); {
	case invisibleHint(n.Value) != "":
		d.Source.Errorf(n, "name", invisibleHint(n.Value), "%q is not a name", n.Value)
	case slices.Contains(unreadableNames, n.Value):
		d.Source.Errorf(n, "name", "give it another name, such as `"+n.Value+"_`", "%q is a reserved word in CEL: no expression could read it", n.Value)
	case expr.IsIdentifier(n.Value):
		return true
	case strings.Contains(n.Value, "-") && expr.IsIdentifier(near):
		d.Source.Errorf(n, "name", "write `"+near+"`: in an expression a hyphen is a subtraction", "%q is not a name", n.Value)
	case expr.IsIdentifier(near):
		d.Source.Errorf(n, "name", "write `"+near+"`", "%q is not a name", n.Value)
	default:
		d.Source.Errorf(n, "name", "use lower-case letters, digits and `_`, beginning with a letter", "%q is not a name", n.Value)
	}
	return false
}

// checkLabel is CheckName for what no expression reads.
func (d *Decoder) checkLabel(n *yaml.Node) bool {
	if expr.IsIdentifier(strings.ReplaceAll(n.Value, "-", "_")) {
		return true
	}
	d.Source.Errorf(n, "name", "use lower-case letters, digits, `-` and `_`, beginning with a letter", "%q is not a name", n.Value)
	return false
}

// metricName is what frameworks call metrics: val/acc, Hits@10, F1.
var metricName = regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_/@.:%+-]{0,99}$`)

// metricsFile is the name of a file that metrics may be in.
var metricsFile = regexp.MustCompile(`\.(?:jsonl?|csv|ya?ml|txt)$`)

func (d *Decoder) checkMetric(n *yaml.Node) bool {
	if metricsFile.MatchString(n.Value) {
		d.Source.Warnf(n, "metric", "write the names of the numbers in it, such as [f1, loss]", "%q looks like a file, and is the name of a metric here", n.Value)
	}
	if metricName.MatchString(n.Value) {
		return true
	}
	hint := "use letters, digits and _ / @ . : % + -, at most 100"
	if strings.ContainsAny(n.Value, "<>=") {
		hint = "write the name alone; a condition on it is a `gate` of the step"
	}
	d.Source.Errorf(n, "name", hint, "%q is not a valid name for a metric", n.Value)
	return false
}

// unreadableNames are the words that CEL takes for something else even behind a dot.
var unreadableNames = []string{"in", "true", "false", "null"}

var capitalWithin = regexp.MustCompile(`([a-z0-9])([A-Z])`)

// NearName is the name that was likely meant by one that is none.
func NearName(s string) string {
	s = capitalWithin.ReplaceAllString(s, "${1}_$2")
	return strings.ToLower(strings.NewReplacer("-", "_", " ", "_", ".", "_", "/", "_").Replace(s))
}

func (d *Decoder) sequence(n *yaml.Node, t reflect.Type, r spec.Rules) expr.Value {
	items := n.Content
	switch {
	case r.Single && (n.Kind == yaml.ScalarNode && n.Tag != "!!null" || n.Kind == yaml.MappingNode && t.Elem().Kind() == reflect.Struct):
		items = []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode:
		d.Source.Errorf(n, "type", d.listHint(n, t.Elem()), "expected a list, not %s", document.NodeKind(n))
		return nil
	}
	out := expr.List{}
	item := r
	item.Names, item.Metrics = false, false
	seen := map[string]bool{}
	if n.Style&yaml.FlowStyle != 0 && t.Elem() == goString {
		d.checkSplit(n.Content)
	}
	if hint := d.wordsHint(items, t.Elem(), r); hint != "" {
		d.Source.Errorf(items[0], "type", hint, "expected %s, not %s", expr.Expected{Type: t.Elem()}, document.NodeKind(items[0]))
		return nil
	}
	for _, c := range items {
		if d.inAliased(n) {
			break
		}
		if (r.Names || r.Metrics) && c.Kind == yaml.ScalarNode {
			if r.Names && !d.CheckName(c) || r.Metrics && !d.checkMetric(c) {
				continue
			}
			if seen[c.Value] {
				d.Source.Errorf(c, "duplicate", "remove one of them", "`%s` is listed twice", c.Value)
				continue
			}
			seen[c.Value] = true
		}
		if v := d.Decode(c, t.Elem(), item); v != nil {
			out = append(out, v)
		} else if t.Elem().Kind() == reflect.Struct && c.Kind == yaml.ScalarNode {
			break // the others are likely the same mistake
		}
	}
	return out
}

// AboveAndBelow returns the keys next to one in a block: the key above if that has no value, and the key below if this one has none. An
// unknown key was probably meant to be indented under the key without a value.
func AboveAndBelow(n, key *yaml.Node) (above, below string) {
	i := slices.Index(n.Content, key)
	isEmpty := func(at int) bool { return n.Content[at].Tag == "!!null" && n.Content[at].Value == "" }
	switch {
	case i < 0 || n.Style&yaml.FlowStyle != 0:
		return "", ""
	case i >= 2 && isEmpty(i-1):
		above = n.Content[i-2].Value
	}
	if i+2 < len(n.Content) && isEmpty(i+1) {
		below = n.Content[i+2].Value
	}
	return above, below
}

// holds reports whether values of a type have keys.
func holds(t reflect.Type) bool {
	return t == goRaw || t == reflect.TypeFor[spec.Steps]() || slices.Contains([]reflect.Kind{reflect.Map, reflect.Struct, reflect.Pointer}, t.Kind())
}

// free reads any plain data as it is, such as a JSON Schema.
func (d *Decoder) free(n *yaml.Node) expr.Value { return d.tree(n, d.constant) }

// tree reads mappings and sequences of any depth, whose scalars are read by scalar.
func (d *Decoder) tree(n *yaml.Node, scalar func(*yaml.Node) expr.Value) expr.Value {
	n, leave, ok := d.Enter(n)
	if !ok {
		return nil
	}
	defer leave()
	switch n.Kind {
	case yaml.MappingNode:
		out := expr.Mapping{}
		d.EachKey(n, func(key, val *yaml.Node) {
			if v := d.tree(val, scalar); v != nil {
				out.Add(key.Value, v)
			}
		})
		return out
	case yaml.SequenceNode:
		out := expr.List{}
		for _, c := range n.Content {
			if d.inAliased(n) {
				break
			}
			if v := d.tree(c, scalar); v != nil {
				out = append(out, v)
			}
		}
		return out
	}
	return scalar(n)
}

// Data reads any value, in which ${} may stand anywhere.
func (d *Decoder) Data(n *yaml.Node) expr.Value {
	return d.tree(n, func(n *yaml.Node) expr.Value {
		if strings.Contains(n.Value, "${") {
			return d.Interpolate(n, expr.Expected{})
		}
		return d.constant(n)
	})
}

// constant reads a scalar as YAML's core schema types it.
func (d *Decoder) constant(n *yaml.Node) expr.Value {
	if decimalOf(n) != "" {
		d.misspelt[n] = true
	}
	for _, t := range map[string][]reflect.Type{
		"!!bool": {goBool}, "!!int": {reflect.TypeFor[int64]()}, "!!float": {reflect.TypeFor[float64]()},
	}[n.Tag] {
		if v, err := d.plain(n, t); err == nil {
			return expr.Literal{Value: v}
		}
	}
	if n.Tag == "!!null" {
		return expr.Literal{Value: nil}
	}
	d.checkLiteral(n, spec.Rules{})
	return expr.Literal{Value: n.Value}
}

// HasKey reports whether a struct has a key.
func HasKey(t reflect.Type, key string) bool {
	return slices.ContainsFunc(spec.KeysOf(t), func(k spec.Key) bool { return k.Name == key })
}
