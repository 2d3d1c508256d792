package dsl

import (
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"
)

// Pipeline is the checked document: what is known of it before a run starts.
type Pipeline struct {
	// Sluice is pipeline/v1: product, document and version in one key.
	Sluice string `json:"sluice" dsl:"literal,enum=pipeline/v1"`
	// Name of the pipeline: letters, digits, `-`, `_` and `.`. Runs of one name are one history: `last` is the newest accepted.
	Name string `json:"name" dsl:"literal"`
	// Params are set when a run starts, with `-p name=value`.
	Params map[string]Param `json:"params,omitempty" dsl:"literal,names"`
	// Outputs are what the run as a whole hands on.
	Outputs map[string]any `json:"outputs,omitempty" dsl:"names"`
	// Triggers start runs by themselves, by name.
	Triggers map[string]Trigger `json:"triggers,omitempty" dsl:"literal,names"`
	// Concurrency lets one run of a group go on at a time.
	Concurrency Concurrency `json:"concurrency,omitzero"`
	// Budget stops a run that costs more.
	Budget Budget `json:"budget,omitzero" dsl:"literal"`
	// Notify tells people or systems about runs, by name.
	Notify map[string]Notification `json:"notify,omitempty" dsl:"literal,names"`
	// Defaults are merged into every step, key by key: under `step` those every step may have, under a kind those of the kind. A
	// step's own key replaces the whole of it.
	Defaults Defaults `json:"defaults,omitzero" dsl:"literal"`
	// Steps by id. They run in the order their references and `needs` ask for; what is independent runs side by side.
	Steps Steps `json:"steps"`
	// OnFailure are steps that run after the others when one of them failed. They see `run.failed` and `run.status`.
	OnFailure Steps `json:"on_failure,omitempty"`
	// Finally are steps that run last, however the run went. They see `run.failed` and `run.status`.
	Finally Steps `json:"finally,omitempty"`
}

// Defaults holds keys of steps by where they go: `step`, or a kind.
type Defaults map[string]any

// Steps are a pipeline's steps in the order of the document; there they are a mapping by id.
type Steps []Step

// Step is one node of the graph: exactly one kind, and the envelope.
type Step struct {
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	Envelope
	// Line of the step in the document.
	Line int `json:"line"`
}

// Param declares a parameter of the pipeline.
type Param struct {
	// Type: string, int, double or bool.
	Type string `json:"type" dsl:"enum=string|int|double|bool"`
	// Default value. Without one the parameter must be given.
	Default any `json:"default,omitempty"`
	// Min and Max bound an int or a double.
	Min *float64 `json:"min,omitempty"`
	Max *float64 `json:"max,omitempty"`
}

func (p Param) celType() *cel.Type {
	return map[string]*cel.Type{"int": cel.IntType, "double": cel.DoubleType, "bool": cel.BoolType, "string": cel.StringType}[p.Type]
}

// step is a step with all that was read of it.
type step struct {
	Step
	key, node, body *yaml.Node // the id, the step's mapping, the mapping under the kind key
	spec            value      // of the kind
	known           kindSpec   // the literal part of spec
	env             value
	exprs           []*expression
	when            *expression
	gates           []*expression
	needs           map[string]Need // explicit and by reference
	index           int             // in the document
}

// loader reads a pipeline document.
type loader struct {
	src      *source
	pipeline Pipeline
	root     *yaml.Node
	outputs  entries
	exprs    []*expression // around the steps
	// concurrency has the group as it was written.
	concurrency entries
	d           *decoder
	steps       []*step
	byID        map[string]*step
	// unreadable are steps too broken to speak of.
	unreadable []string
}

var stepsType = reflect.TypeFor[Steps]()

// load reads the document's form. Nothing is said yet of what its names mean.
func (l *loader) load(data []byte) bool {
	l.root = l.src.parse(data)
	if l.root == nil {
		return false
	}
	d := newDecoder(l.src, false)
	l.d = d
	d.forms[stepsType] = func(n *yaml.Node, _ rules) (value, bool) {
		l.readSteps(d, n)
		return literal{nil}, true
	}
	startForms(d)
	v, ok := d.decode(l.root, reflect.TypeFor[Pipeline](), rules{}).(entries)
	if !ok {
		return false
	}
	l.exprs = d.exprs
	l.outputs, _ = v.get("outputs").(entries)
	l.concurrency, _ = v.get("concurrency").(entries)
	known := known(v).(map[string]any)
	known["outputs"] = l.writtenOutputs()
	if err := fill(&l.pipeline, known); err != nil {
		l.src.errorf(l.root, "type", "", "%s", err)
		return false
	}
	l.pipeline.completeStart()
	if name := lookup(l.root, "name"); name != nil && !isDocumentName(l.pipeline.Name) {
		l.src.errorf(name, "name", "letters, digits, `-`, `_` and `.`, beginning with a letter, at most 63", "%q is not a name of a pipeline", name.Value)
	}
	for _, s := range l.steps {
		l.pipeline.Steps = append(l.pipeline.Steps, s.Step)
	}
	return true
}

// writtenOutputs are the pipeline's outputs as they stand in the document.
func (l *loader) writtenOutputs() map[string]any {
	written := make(map[string]any, len(l.outputs.keys))
	for i, key := range l.outputs.keys {
		written[key] = known(l.outputs.values[i])
		if n := lookup(l.root, "outputs", key); written[key] == nil && n != nil {
			written[key] = n.Value
		}
	}
	return written
}

func isDocumentName(s string) bool {
	letter := func(c byte) bool { return c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' }
	if s == "" || len(s) > 63 || !letter(s[0]) {
		return false
	}
	for _, c := range []byte(s) {
		if !letter(c) && (c < '0' || c > '9') && !strings.ContainsRune("-_.", rune(c)) {
			return false
		}
	}
	return true
}

func (l *loader) readSteps(d *decoder, n *yaml.Node) {
	l.byID = map[string]*step{}
	if n.Kind != yaml.MappingNode || len(n.Content) == 0 {
		l.src.errorf(n, "type", "write `id: {run: {...}}`, one entry a step", "steps are a mapping from id to step, not %s", nodeKind(n))
		return
	}
	outer := d.exprs
	d.eachKey(n, func(key, val *yaml.Node) {
		if !d.checkName(key) {
			return
		}
		d.exprs = nil
		s := l.readStep(d, key, val)
		if s == nil {
			l.unreadable = append(l.unreadable, key.Value)
			return
		}
		s.index = len(l.steps)
		l.steps = append(l.steps, s)
		l.byID[s.ID] = s
	})
	d.exprs = outer
}

// readStep reads one step; nil when it is too broken to speak of further.
func (l *loader) readStep(d *decoder, key, val *yaml.Node) *step {
	n, leave, ok := d.enter(val)
	if !ok {
		return nil
	}
	defer leave()
	s := &step{Step: Step{ID: key.Value, Line: key.Line}, key: key, node: n}
	var kindKeys []*yaml.Node
	d.forms[gateType] = func(n *yaml.Node, r rules) (value, bool) { return readGates(d, n, r), true }
	d.forms[needsType] = func(n *yaml.Node, _ rules) (value, bool) { return readNeeds(d, n) }
	envelope, ok := d.structure(n, reflect.TypeFor[Envelope](), func(k, v *yaml.Node) bool {
		if k.Value == "on_fail" {
			l.src.errorf(k, "unknown-key", "write it beside a check: gate: [{check: ..., on_fail: stop}] as a block list", "`on_fail` belongs to a gate")
			return true
		}
		if info := kindByName(k.Value); info != nil {
			kindKeys = append(kindKeys, k)
			if len(kindKeys) == 1 {
				s.Kind, s.body = info.kind, v
			}
			return true
		}
		return l.strangeKey(n, k)
	}).(entries)
	if !ok {
		return nil
	}
	switch {
	case len(kindKeys) == 0 && !hasLaterKind(n) && !slices.ContainsFunc(d.meant[n], func(k string) bool { return kindByName(k) != nil }) && lookup(n, "<<") == nil:
		l.src.errorf(key, "kind", "give it one of "+strings.Join(kindNames(), ", "), "the step `%s` has no kind", s.ID)
		return nil
	case len(kindKeys) == 0:
		return nil
	case len(kindKeys) > 1:
		l.src.errorf(kindKeys[1], "kind", "make two steps of it", "a step has exactly one kind, and `%s` already has `%s`", s.ID, kindKeys[0].Value)
	}
	if err := fill(&s.Envelope, known(envelope)); err != nil {
		l.src.errorf(key, "type", "", "%s", err)
		return nil
	}
	setDefaults(reflect.ValueOf(&s.Envelope))
	if lookup(n, "retry", "max_backoff") == nil {
		s.Retry.MaxBackoff = max(s.Retry.MaxBackoff, s.Retry.Backoff)
	}
	s.env = envelope.get("env")
	l.readBody(d, s)
	s.exprs = d.exprs
	for _, e := range s.exprs {
		switch {
		case e.scope == scopeGate:
			s.gates = append(s.gates, e)
		case e.node == lookup(n, "when"):
			s.when = e
		}
	}
	return s
}

// readBody reads what is under the kind key.
func (l *loader) readBody(d *decoder, s *step) {
	info := kindByName(string(s.Kind))
	s.known = info.new()
	d.scope = info.scope
	defer func() { d.scope = scopePlain }()
	d.forms[transformType] = func(n *yaml.Node, _ rules) (value, bool) { return readTransform(d, n), true }
	d.forms[nodesType] = func(n *yaml.Node, _ rules) (value, bool) { return readNodes(d, n) }
	v := d.decode(s.body, reflect.TypeOf(s.known).Elem(), rules{})
	if v == nil {
		v = entries{}
	}
	s.spec = v
	s.body = behindAlias(s.body)
	if err := fill(s.known, known(v)); err != nil {
		l.src.errorf(s.key, "type", "", "%s", err)
	}
	setDefaults(reflect.ValueOf(s.known))
}

// strangeKey reports a key of a step that is neither of the envelope nor a kind.
func (l *loader) strangeKey(n, k *yaml.Node) bool {
	switch {
	case slices.Contains(laterKinds, k.Value):
		l.src.errorf(k, "not-yet", "", "the kind `%s` is not in this version yet", k.Value)
		return true
	case slices.Contains(notYetKeys[reflect.TypeFor[Envelope]()], k.Value) || foreignWords[k.Value] != "":
		return false // the decoder explains it
	}
	names := append(fieldNames(fieldsOf(reflect.TypeFor[Envelope]())), kindNames()...)
	hint := didYouMean(k.Value, names)
	l.d.meant[n] = append(l.d.meant[n], nearest(k.Value, names))
	if hint == "" {
		hint = "a step has one kind (" + strings.Join(kindNames(), ", ") + ") and the keys " + strings.Join(fieldNames(fieldsOf(reflect.TypeFor[Envelope]())), ", ")
	}
	l.src.errorf(k, "unknown-key", hint, "`%s` is neither a kind nor a key of a step", k.Value)
	return true
}

func hasLaterKind(n *yaml.Node) bool {
	return slices.ContainsFunc(laterKinds, func(k string) bool { return lookup(n, k) != nil })
}

var (
	gateType  = reflect.TypeFor[[]Gate]()
	needsType = reflect.TypeFor[map[string]Need]()
)

// readGates reads a gate: one expression, one {check: ...}, or a block list of either.
func readGates(d *decoder, n *yaml.Node, r rules) value {
	outer := d.scope
	d.scope = scopeGate
	defer func() { d.scope = outer }()
	items := []*yaml.Node{n}
	if n.Kind == yaml.SequenceNode {
		if n.Style&yaml.FlowStyle != 0 {
			d.src.errorf(n, "flow-list", "write one `- condition` a line", "in [ ] a comma inside a call would cut a condition in half")
			return nil
		}
		items = n.Content
	}
	var out list
	for _, item := range items {
		if item.Kind == yaml.ScalarNode {
			if v, _, ok := d.enter(item); ok {
				if check := d.expression(v, rules{boolean: true}); check != nil {
					out = append(out, entries{[]string{"check"}, []value{check}})
				}
				d.depth--
			}
			continue
		}
		if v := d.decode(item, reflect.TypeFor[Gate](), r); v != nil {
			out = append(out, v)
		}
	}
	return out
}

// readNeeds reads the short form of needs: a list, each `passed`.
func readNeeds(d *decoder, n *yaml.Node) (value, bool) {
	items := n.Content
	switch {
	case n.Kind == yaml.ScalarNode && n.Tag == "!!str":
		items = []*yaml.Node{n}
	case n.Kind != yaml.SequenceNode:
		return nil, false
	}
	var out entries
	for _, item := range items {
		if item.Kind != yaml.ScalarNode {
			d.src.errorf(item, "type", "", "a step's id is expected here, not %s", nodeKind(item))
			continue
		}
		if slices.Contains(out.keys, item.Value) {
			d.src.errorf(item, "duplicate", "remove one of them", "`%s` is in the list twice", item.Value)
			continue
		}
		out.keys, out.values = append(out.keys, item.Value), append(out.values, literal{string(NeedPassed)})
	}
	return out, true
}

// readNodes reads the short form of nodes: a number.
func readNodes(d *decoder, n *yaml.Node) (value, bool) {
	if n.Kind != yaml.ScalarNode {
		return nil, false
	}
	v := d.decode(n, reflect.TypeFor[int](), rules{min: new(float64(1))})
	if v == nil {
		return nil, true
	}
	return entries{[]string{"min", "max"}, []value{v, v}}, true
}

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
