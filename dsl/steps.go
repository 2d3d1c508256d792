package dsl

import (
	"iter"
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
)

// maxSteps bounds the steps of a document.
const maxSteps = 5_000

// readSteps reads the steps of one section.
func (l *loader) readSteps(d *decode.Decoder, n *yaml.Node) {
	section := spec.SectionMain
	for _, s := range []spec.Section{spec.SectionOnFailure, spec.SectionFinally} {
		if n == document.Lookup(l.root, string(s)) {
			section = s
		}
	}
	if n.Kind == yaml.MappingNode && len(n.Content) == 0 && section != spec.SectionMain {
		return
	}
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		id := "id"
		for _, key := range []string{"task_id", "id", "name"} {
			if at := document.Lookup(n, 0, key); at != nil && expr.IsIdentifier(decode.NearName(at.Value)) {
				id = decode.NearName(at.Value)
			}
		}
		l.src.Errorf(n, "type", "write `"+id+": {run: {...}}`, one entry per step", "steps are a mapping from id to step, not %s", document.NodeKind(n))
		return
	}
	if len(n.Content)/2 > maxSteps {
		l.src.Errorf(n.Content[2*maxSteps], "limit", "use `foreach` or `matrix`, or split it into several pipelines", "there are more than %d steps", maxSteps)
		return
	}
	outer := d.Expressions
	d.EachKey(n, func(key, val *yaml.Node) {
		if !d.CheckName(key) {
			l.unreadable = append(l.unreadable, key.Value, decode.NearName(key.Value))
			if d.Expressions = nil; document.Unalias(val).Kind == yaml.MappingNode {
				l.readStep(d, key, val) // for what is wrong in it
			}
			return
		}
		if above, _ := decode.AboveAndBelow(n, key); above != "" && kindByName(key.Value) != nil {
			l.src.Errorf(key, "type", "indent it, so that it is under `"+above+"`", "`%s` is read as a step of its own, and `%s` above it is empty", key.Value, above)
			l.unreadable = append(l.unreadable, above, key.Value)
			return
		}
		if _, below := decode.AboveAndBelow(n, key); kindByName(below) != nil {
			return // told of there
		}
		if other := l.byID[key.Value]; other != nil {
			l.src.Errorf(key, "duplicate", "give it another name", "a step `%s` is already defined on line %d", key.Value, other.Line)
			return
		}
		if kind := kindByName(key.Value); kind != nil && val.Kind == yaml.MappingNode && len(val.Content) > 0 {
			body := spec.KeyNames(spec.KeysOf(reflect.TypeOf(kind.new()).Elem()))
			if document.OnlyKeys(val, func(word string) bool { return slices.Contains(body, word) && !decode.HasKey(envelopeType, word) }) {
				l.src.Errorf(key, "kind", "write `id: {"+key.Value+": {...}}`, with an id of your own", "`%s` is read as the id of a step here", key.Value)
				l.unreadable = append(l.unreadable, key.Value)
				return
			}
		}
		if slices.Contains(laterSections, key.Value) && val.Kind == yaml.MappingNode && !slices.ContainsFunc(kindNames(), func(k string) bool { return document.Lookup(val, k) != nil }) {
			l.src.Errorf(key, "kind", "write `"+key.Value+":` at the top, beside `steps`", "`%s` is a section of the pipeline, not a step", key.Value)
			return
		}
		d.Expressions = nil
		s := l.readStep(d, key, val)
		if s == nil {
			l.unreadable = append(l.unreadable, key.Value)
			return
		}
		s.section = section
		s.index = len(l.steps)
		l.steps = append(l.steps, s)
		l.byID[s.ID] = s
	})
	d.Expressions = outer
}

// laterSections are the sections beside `steps`.
var laterSections = []string{string(spec.SectionOnFailure), string(spec.SectionFinally)}

// readStep reads one step; nil when it is too broken to speak of further.
func (l *loader) readStep(d *decode.Decoder, key, val *yaml.Node) *step {
	n, leave, ok := d.Enter(val)
	if !ok {
		return nil
	}
	defer leave()
	s := &step{Step: spec.Step{ID: key.Value, Line: key.Line}, key: key, own: n}
	n = l.withDefaults(n, "step")
	s.node = n
	var kindKeys []*yaml.Node
	l.envelopeForms(d, s)
	envelope, ok := d.Structure(n, reflect.TypeFor[spec.Envelope](), func(k, v *yaml.Node) bool {
		if info := kindByName(k.Value); info != nil {
			kindKeys = append(kindKeys, k)
			if len(kindKeys) == 1 {
				s.Kind, s.body = info.kind, v
			}
			return true
		}
		if slices.Contains(laterKinds, k.Value) {
			l.src.Errorf(k, "not-yet", "", "the kind `%s` is not supported by this version yet", k.Value)
			return true
		}
		return false // the decoder explains it
	}).(expr.Mapping)
	if !ok {
		return nil
	}
	switch {
	case len(kindKeys) == 0 && !hasLaterKind(n) && !slices.ContainsFunc(d.MeantKeys(n), func(k string) bool { return k == "" || kindByName(k) != nil }) && document.Lookup(n, "<<") == nil:
		l.src.Errorf(key, "kind", "give it one of "+strings.Join(kindNames(), ", "), "the step `%s` has no kind", s.ID)
		return nil
	case len(kindKeys) == 0:
		return nil
	case len(kindKeys) > 1:
		l.src.Errorf(kindKeys[1], "kind", "split it into two steps", "a step has exactly one kind, and `%s` already has `%s`", s.ID, kindKeys[0].Value)
	}
	if err := spec.Fill(&s.Envelope, expr.Known(envelope)); err != nil {
		l.src.Errorf(key, "type", "", "%s", err)
		return nil
	}
	s.env, s.secrets, s.summary = envelope.Get("env"), envelope.Get("secrets"), envelope.Get("summary")
	l.readBody(d, s)
	s.exprs = d.Expressions
	s.complete()
	if s.listed() && envelope.Get("require") == nil {
		s.Require = 1 // also where it could not be read
	}
	return s
}

// envelopeForms tells the decoder of the keys of a step that may be written in more than one way.
func (l *loader) envelopeForms(d *decode.Decoder, s *step) {
	d.Forms[queryType] = d.FormIn(expr.ScopeValue, queryType) // the condition sees the answer
	d.Forms[gateType] = func(n *yaml.Node, r spec.Rules) (expr.Value, bool) { return readGates(d, n, r), true }
	d.Forms[needsType] = func(n *yaml.Node, _ spec.Rules) (expr.Value, bool) { return readNeeds(d, n) }
	d.Forms[cacheType] = func(n *yaml.Node, r spec.Rules) (expr.Value, bool) { return readCache(d, n, r), true }
	d.Forms[repeatType] = d.FormIn(expr.ScopeUntil, repeatType) // the condition sees the outputs of an iteration
	d.Forms[matrixType] = func(n *yaml.Node, _ spec.Rules) (expr.Value, bool) {
		s.matrix = readMatrix(d, n)
		return expr.Literal{Value: s.matrix.Known()}, true
	}
}

// complete fills what follows from what was read of a step, and tells its expressions apart.
func (s *step) complete() {
	spec.SetDefaults(reflect.ValueOf(&s.Envelope))
	if document.Lookup(s.node, "retry", "max_backoff") == nil {
		s.Retry.MaxBackoff = max(s.Retry.MaxBackoff, s.Retry.Backoff)
	}
	if document.Lookup(s.node, "cache") == nil {
		s.Cache = spec.Cache{Enabled: s.info().caching(s) == cacheByDefault}
	}
	secrets := document.Lookup(s.node, "secrets")
	for _, e := range s.exprs {
		switch {
		case e.Scope == expr.ScopeGate:
			s.gates = append(s.gates, e)
		case e.Scope == expr.ScopeUntil:
			s.until = e
		case e.Node == document.Lookup(s.node, "when"):
			s.when, e.Scope = e, expr.ScopeOnce
		case e.Node == document.Lookup(s.node, "foreach"):
			s.foreach, e.Scope, e.Expected = e, expr.ScopeOnce, expr.Expected{Type: anyList}
		case secrets != nil && slices.Contains(secrets.Content, e.Node):
			e.Scope = expr.ScopeSecret
		}
	}
	switch {
	case s.matrix != nil:
		s.fan = spec.FanMatrix
	case s.foreach != nil:
		s.fan = spec.FanForeach
	case s.until != nil:
		s.fan = spec.FanRepeat
	}
	if s.until == nil {
		s.Repeat = spec.Repeat{}
	}
	if isA[*spec.Approval](s) {
		s.Timeout = 0 // a default of all steps is for what works: how long a person has is the approval's own `timeout`
	}
	for i, g := range s.Gate {
		if g.OnFail != spec.OnFailHold {
			s.Gate[i].Hold = spec.Hold{}
		}
	}
	if !s.listed() {
		s.Require, s.MaxParallel = 0, 0 // perhaps a default, of which it has no use
	}
}

// references are what the step's expressions read, each with its expression.
func (s *step) references() iter.Seq2[*expr.Expression, expr.Reference] {
	return func(yield func(*expr.Expression, expr.Reference) bool) {
		for _, e := range s.exprs {
			for _, r := range e.Refs {
				if !yield(e, r) {
					return
				}
			}
		}
	}
}

// listed reports whether the step's results are a list of instances.
func (s *step) listed() bool { return s.fan == spec.FanMatrix || s.fan == spec.FanForeach }

// bodyForms tells the decoder of what in a kind's body may be written in more than one way.
func (l *loader) bodyForms(d *decode.Decoder) {
	transform.AddForms(d)
	d.Forms[nodesType] = func(n *yaml.Node, _ spec.Rules) (expr.Value, bool) { return readNodes(d, n) }
	d.Forms[filesType] = func(n *yaml.Node, _ spec.Rules) (expr.Value, bool) { return readFiles(d, n) }
}

// readBody reads what is under the kind key.
func (l *loader) readBody(d *decode.Decoder, s *step) {
	info := s.info()
	s.known = info.new()
	s.body = l.withDefaults(document.Unalias(s.body), string(s.Kind))
	if isA[*spec.Clean](s) {
		if l.alone && document.Lookup(s.body, "pool") != nil {
			s.body = document.Without(s.body, "pool", "capacity", "resources", "runtime")
		}
		s.body = transform.WriteOut(l.src, s.body)
	}
	defer d.EnterScope(info.scope)()
	l.bodyForms(d)
	defer childForms(d)()
	v := d.Decode(s.body, reflect.TypeOf(s.known).Elem(), spec.Rules{})
	if v == nil {
		v = expr.Mapping{}
	}
	s.spec = v
	if isA[*spec.Approval](s) {
		d.DeclaredAsText(expr.Under(v, "fields"), document.Lookup(s.body, "fields"))
	}
	if err := spec.Fill(s.known, expr.Known(v)); err != nil {
		l.src.Errorf(s.key, "type", "", "%s", err)
	}
	spec.SetDefaults(reflect.ValueOf(s.known))
}

func hasLaterKind(n *yaml.Node) bool {
	return slices.ContainsFunc(laterKinds, func(k string) bool { return document.Lookup(n, k) != nil })
}

var (
	gateType   = reflect.TypeFor[[]spec.Gate]()
	needsType  = reflect.TypeFor[map[string]spec.Need]()
	cacheType  = reflect.TypeFor[spec.Cache]()
	repeatType = reflect.TypeFor[spec.Repeat]()
	matrixType = reflect.TypeFor[spec.Matrix]()
	queryType  = reflect.TypeFor[spec.StageQuery]()
	boolType   = reflect.TypeFor[bool]()
	filesType  = reflect.TypeFor[spec.FileList]()
)

// readCache reads true, false or {max_age, version}.
func readCache(d *decode.Decoder, n *yaml.Node, r spec.Rules) expr.Value {
	if n.Kind == yaml.ScalarNode {
		v := d.Decode(n, boolType, r)
		if v == nil {
			return nil
		}
		return expr.MappingOf("enabled", v)
	}
	v, ok := d.Structure(n, cacheType, nil).(expr.Mapping)
	if !ok {
		return nil
	}
	v.Add("enabled", expr.Literal{Value: true})
	return v
}

// readGates reads a gate: one expression, one {check: ...}, or a block list of either.
func readGates(d *decode.Decoder, n *yaml.Node, r spec.Rules) expr.Value {
	defer d.EnterScope(expr.ScopeGate)()
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		if n.Style&yaml.FlowStyle != 0 && slices.ContainsFunc(n.Content, func(item *yaml.Node) bool { return item.Kind == yaml.ScalarNode && item.Style == 0 }) {
			d.Source.Errorf(n, "flow-list", "write one `- condition` per line", "in [ ] a comma inside a call would split the condition")
			return nil
		}
		items = n.Content
	}
	var out expr.List
	for _, item := range items {
		if document.Unalias(item).Kind == yaml.ScalarNode {
			if v, leave, ok := d.Enter(item); ok {
				if check := d.Expression(v, spec.Rules{Bool: true}); check != nil {
					out = append(out, expr.MappingOf("check", check))
				}
				leave()
			}
			continue
		}
		if item.Kind == yaml.MappingNode && len(item.Content) == 2 && strings.Contains(item.Content[0].Value, " ") {
			d.Source.Errorf(item, "yaml", "quote the condition", "YAML reads the condition as a key and its value, because of the `: ` in it")
			continue
		}
		if v := d.Decode(item, reflect.TypeFor[spec.Gate](), r); v != nil {
			out = append(out, v)
		}
	}
	return out
}

// readNeeds reads the short form of needs: a list, each `passed`.
func readNeeds(d *decode.Decoder, n *yaml.Node) (expr.Value, bool) {
	items := n.Content
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str" && strings.Contains(n.Value, ","):
		d.Source.Errorf(n, "type", "write ["+n.Value+"]", "expected a list, not %s", document.NodeKind(n))
		return nil, true
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str":
		items = []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode:
		return nil, false
	}
	var out expr.Mapping
	for _, item := range items {
		if item = document.Unalias(item); item.Kind != yaml.ScalarNode {
			hint := "write a list, [a, b], or a mapping, {a: passed, b: failed}"
			d.Source.Errorf(item, "type", hint, "expected the id of a step, not %s", document.NodeKind(item))
			continue
		}
		if slices.Contains(out.Keys, item.Value) {
			d.Source.Errorf(item, "duplicate", "remove one of them", "`%s` is listed twice", item.Value)
			continue
		}
		out.Add(item.Value, expr.Literal{Value: string(spec.NeedPassed)})
	}
	return out, true
}

// readFiles reads `none`. A list without items has always meant what no list means.
func readFiles(d *decode.Decoder, n *yaml.Node) (expr.Value, bool) {
	switch {
	case n.Kind == yaml.SequenceNode && len(n.Content) == 0:
		d.Source.Warnf(n, "files", "write `files: none` for none, or remove it", "an empty list stands for all files")
		return nil, true
	case n.Kind == yaml.ScalarNode && n.Value == "none":
		return expr.List{}, true
	}
	return nil, false
}

// readNodes reads the short form of nodes: a number.
func readNodes(d *decode.Decoder, n *yaml.Node) (expr.Value, bool) {
	if n.Kind != yaml.ScalarNode {
		return nil, false
	}
	v := d.Decode(n, reflect.TypeFor[int](), spec.Rules{Min: new(float64(1))})
	if v == nil {
		return nil, true
	}
	nodes := expr.MappingOf("min", v)
	nodes.Add("max", v)
	return nodes, true
}
