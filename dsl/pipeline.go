package dsl

import (
	"reflect"
	"regexp"
	"strconv"
	"strings"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// step is a step with all that was read of it.
type step struct {
	spec.Step
	section         spec.Section
	key, node, body *yaml.Node // the id, the step's mapping with its defaults, the mapping under the kind key
	own             *yaml.Node // the step's mapping as it is written
	spec            expr.Value // of the kind
	known           any        // the kind's spec struct with the literal part of spec
	env             expr.Value
	secrets         expr.Value
	summary         expr.Value
	exprs           []*expr.Expression
	when            *expr.Expression
	gates           []*expr.Expression
	fan             spec.Fan
	matrix          *matrix
	foreach, until  *expr.Expression
	instance        map[string]*cel.Type // the names an instance sees
	needs           map[string]spec.Need // explicit and by reference
	index           int                  // in the document
	childDocument   *yaml.Node           // of a child pipeline written in place
	childUntyped    []string             // those of its params whose types were not known when it was checked
}

// loader reads a pipeline document.
type loader struct {
	src      *document.Source
	pipeline spec.Pipeline
	root     *yaml.Node
	block    bool // the document is a block, and the root was made for it
	alone    bool // a cleaning of it is done by itself
	inline   bool // its steps stand in a step of another
	outputs  expr.Mapping
	exprs    []*expr.Expression // around the steps
	// concurrency has the group as it was written.
	concurrency expr.Mapping
	d           *decode.Decoder
	steps       []*step
	byID        map[string]*step
	defaults    *yaml.Node // the mapping of that name, or nil
	untyped     []string   // params whose types are not known yet
	// unreadable are steps too broken to speak of.
	unreadable []string
}

var (
	stepsType    = reflect.TypeFor[spec.Steps]()
	defaultsType = reflect.TypeFor[spec.Defaults]()
)

// section returns where the pipeline keeps the steps of a section.
func (l *loader) section(s spec.Section) *spec.Steps {
	switch s {
	case spec.SectionOnFailure:
		return &l.pipeline.OnFailure
	case spec.SectionFinally:
		return &l.pipeline.Finally
	case spec.SectionMain:
	}
	return &l.pipeline.Steps
}

// load reads the document's form. Nothing is said yet of what its names mean.
func (l *loader) load(data []byte) bool {
	l.root = l.src.Parse(data)
	return l.root != nil && l.read()
}

// read reads the document at root.
func (l *loader) read() bool {
	d := decode.New(l.src, false)
	d.Beside = map[reflect.Type][]string{envelopeType: kindNames()}
	if l.block {
		d.Beside[reflect.TypeFor[spec.Clean]()] = blockKeys
	}
	l.d, d.Explain = d, l.explainKey
	l.byID = map[string]*step{}
	l.defaults = document.Lookup(l.root, "defaults")
	d.Forms[stepsType] = func(n *yaml.Node, _ spec.Rules) (expr.Value, bool) {
		l.readSteps(d, n)
		return expr.Literal{Value: nil}, true
	}
	d.Forms[defaultsType] = func(n *yaml.Node, _ spec.Rules) (expr.Value, bool) {
		l.checkDefaults(n)
		return expr.Literal{Value: nil}, true
	}
	startForms(d)
	if decode.IsOther(l.src, l.root, "pipeline/v1", "give the environment with -e: sluice run PIPELINE -e ENVIRONMENT") {
		return false
	}
	if l.root.Kind == yaml.ScalarNode {
		d.Structure(l.root, reflect.TypeFor[spec.Pipeline](), nil) // says that it is no mapping, even of an expression
		return false
	}
	v, ok := d.Decode(l.root, reflect.TypeFor[spec.Pipeline](), spec.Rules{}).(expr.Mapping)
	if !ok {
		return false
	}
	l.readAsText(v)
	l.exprs = d.Expressions
	l.outputs, l.concurrency = expr.Under(v, "outputs"), expr.Under(v, "concurrency")
	known := expr.Known(v).(map[string]any)
	known["outputs"] = l.writtenOutputs()
	if err := spec.Fill(&l.pipeline, known); err != nil {
		l.src.Errorf(l.root, "type", "", "%s", err)
		return false
	}
	l.pipeline.CompleteStart()
	if name := document.Lookup(l.root, "name"); name != nil && l.pipeline.Name == name.Value && name.Tag != "!!null" && !documentName.MatchString(l.pipeline.Name) {
		hint := documentNameHint
		if near := strings.Join(strings.Fields(l.pipeline.Name), "-"); documentName.MatchString(near) {
			hint = "write " + near
		}
		l.src.Errorf(name, "name", hint, "%q is not a valid name for a pipeline", name.Value)
	}
	for _, s := range l.steps {
		section := l.section(s.section)
		*section = append(*section, s.Step)
	}
	return true
}

// readAsText reads what is given for parameters that are texts as it was written.
func (l *loader) readAsText(pipeline expr.Mapping) {
	params := expr.Under(pipeline, "params")
	l.d.DeclaredAsText(params, document.Lookup(l.root, "params"))
	triggers := expr.Under(pipeline, "triggers")
	for i, name := range triggers.Keys {
		given := expr.Under(triggers.Values[i], "params")
		for _, param := range given.Keys {
			typ, items := decode.DeclaredType(expr.Under(params, param))
			l.d.ValuesAsText(given, param, document.Lookup(l.root, "triggers", name, "params"), typ, items)
		}
	}
}

// writtenOutputs are the pipeline's outputs as they stand in the document.
func (l *loader) writtenOutputs() map[string]any {
	written := make(map[string]any, len(l.outputs.Keys))
	for i, key := range l.outputs.Keys {
		written[key] = expr.Known(l.outputs.Values[i])
		if n := document.Lookup(l.root, "outputs", key); written[key] == nil && n != nil {
			written[key] = n.Value
		}
	}
	return written
}

// documentName is what names pipelines and what they publish, and documentNameHint says so.
var documentName = regexp.MustCompile(`^[A-Za-z][A-Za-z0-9_.-]{0,62}$`)

const documentNameHint = "use letters, digits, `-`, `_` and `.`, beginning with a letter, at most 63"

func plural(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}
