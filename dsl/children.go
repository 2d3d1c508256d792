package dsl

import (
	"fmt"
	"maps"
	"path"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

// Bounds on children of children.
const (
	maxGenerations = 8
	maxChildren    = 100 // of one compilation
)

var childOutputsType = reflect.TypeFor[spec.ChildOutputs]()

// family is what a pipeline and its children share while they are compiled.
type family struct {
	env  *spec.Environment
	ws   document.Workspace
	base string // of the files' names in findings
	// accepted: as in document.File.
	accepted bool
	files    map[string]*compiledChild
	count    int
	diags    document.Diagnostics // of the children that are files
	// inline are the children written in place.
	inline []inlineChild
}

type inlineChild struct {
	step *step
	root *yaml.Node
}

// writeOut makes documents of the children written in place, once nothing is wrong with them. Together they are bounded.
func (f *family) writeOut() error {
	left := document.MaxPlain
	for _, child := range f.inline {
		child.step.childDocument = document.Plain(child.root, &left)
	}
	if left < 0 {
		return fmt.Errorf("the aliases in child pipelines expand to more than %d values", document.MaxPlain)
	}
	return nil
}

// compiledChild is a pipeline that a step runs.
type compiledChild struct {
	name    string // as people know it
	open    bool   // it is being compiled
	broken  bool   // its own findings are errors
	height  int    // generations below it
	longest int    // see longestName
	params  map[string]spec.Param
	outputs map[string]*cel.Type
	ts      *expr.TypeSystem
	effects effects
	// unpriced is a training in it of which nobody can tell what it costs, if there is one.
	unpriced unpriced
	hashKeys hashKeys
	waits    spec.Duration     // how long a step of it, or of its children, may take
	files    []string          // of the workspace that its steps name, and those of its children
	groups   map[string]member // constant concurrency groups of it and its children
	orders   orders            // in which runs of it and its children take groups
}

// compile checks a pipeline that was loaded, at some generation below the root.
func (f *family) compile(l *loader, generation int) *checker {
	c := &checker{
		loader: l, env: f.env, ws: f.ws, family: f, generation: generation,
		usedParams: map[string]bool{}, published: map[[2]string]bool{}, children: map[*step]*compiledChild{}, compiled: map[*step]*compiledChild{}, groups: map[string]member{}, orders: orders{},
	}
	c.program = c.check()
	c.src.DropFollowing(c.root)
	return c
}

func newFamily(root document.File, env *spec.Environment, ws document.Workspace) *family {
	return &family{env: env, ws: ws, base: path.Dir(root.Name), accepted: root.Accepted, files: map[string]*compiledChild{}}
}

// compileChildren finds out what the child pipelines hand on. Those written in place wait for the types of their params, which may be
// outputs of others; what waits in a circle is reported as one by the graph.
func (c *checker) compileChildren() {
	var waiting []*step
	for _, s := range c.steps {
		switch spec, ok := s.known.(*spec.ChildPipeline); {
		case !ok || s.body.Kind != yaml.MappingNode:
		case document.Lookup(s.body, "steps") != nil && document.Lookup(s.body, "file") != nil:
			c.setOutputs(s, nil) // told of
		case document.Lookup(s.body, "steps") == nil:
			c.setOutputs(s, c.compileFile(s, spec))
		case len(waiting) == maxChildren:
			c.src.Errorf(s.key, "limit", "run one child with `foreach`", "there are more than %d child pipelines", maxChildren)
			c.setOutputs(s, nil)
			return
		default:
			waiting = append(waiting, s)
			c.setOutputs(s, nil) // until it is compiled
		}
	}
	read := map[*step][]*step{}
	for len(waiting) > 0 {
		next := max(0, slices.IndexFunc(waiting, func(s *step) bool { return !c.waitsFor(s, waiting, read) }))
		s := waiting[next]
		waiting = slices.Delete(waiting, next, next+1)
		c.setOutputs(s, c.compileInline(s))
	}
}

// waitsFor reports whether the expressions of a step lead to any of some other steps.
func (c *checker) waitsFor(s *step, others []*step, read map[*step][]*step) bool {
	before := upstream(s, func(at *step) []*step {
		if _, ok := read[at]; !ok {
			read[at] = c.stepsRead(at)
		}
		return read[at]
	})
	return slices.ContainsFunc(others, func(other *step) bool { return other != s && before[other] })
}

// stepsRead lists the steps that the expressions of a step name, before they are compiled.
func (c *checker) stepsRead(s *step) []*step {
	var all []*step
	for _, e := range s.exprs {
		for _, r := range e.ReferencesIn(c.base) {
			if of := c.byID[r.Step()]; of != nil {
				all = append(all, of)
			}
		}
	}
	return all
}

func (c *checker) outputsOf(s *step) *expr.ObjectType { return c.ts.Lookup("steps." + s.ID) }

// setOutputs notes what a child hands on as the outputs of its step, and of each of its instances. Of a nil child nothing is known, and
// anything may be read.
func (c *checker) setOutputs(s *step, ch *compiledChild) {
	for _, o := range []*expr.ObjectType{c.outputsOf(s), c.ts.Lookup(expr.InstanceOf + s.ID)} {
		if o == nil {
			continue
		}
		o.Rest = nil
		if ch == nil {
			o.Rest = cel.DynType
			continue
		}
		if o.Optional == nil {
			o.Optional = map[string]bool{}
		}
		for name, t := range ch.outputs {
			t = c.ts.Adopt(t, ch.ts, s.ID)
			if expr.IsOptional(t) {
				t, o.Optional[name] = t.Parameters()[0], true
			}
			o.Fields[name] = t
		}
	}
	if ch != nil {
		c.compiled[s] = ch
		c.height = max(c.height, ch.height+1)
		c.checkGroups(s, ch)
	}
}

// compileFile compiles the child that a step names; nil when nothing can be said of it.
func (c *checker) compileFile(s *step, spec *spec.ChildPipeline) *compiledChild {
	at := document.Lookup(s.body, "file")
	if at == nil || spec.File == "" || c.ws == nil {
		return nil
	}
	c.checkFile(s, spec.File, "file")
	name := path.Clean(spec.File)
	if !document.IsInside(spec.File) || !c.ws.Exists(name) {
		return nil // reported
	}
	ch := c.family.files[name]
	if ch == nil {
		if !c.mayHaveChild(at) {
			return nil
		}
		data, err := c.ws.ReadFile(name)
		if err != nil {
			c.src.Errorf(at, "missing-file", "", "%q cannot be read: %s", spec.File, err)
			return nil
		}
		ch = c.family.compileFile(name, data, c.generation+1)
	}
	switch {
	case ch.open:
		c.src.Errorf(at, "cycle", "a pipeline cannot be its own child", "%q starts itself again through this step", spec.File)
		return nil
	case !c.mayBeDeep(at, ch.height):
		return nil
	}
	c.children[s] = ch
	given := expr.Under(s.spec, "params")
	given.MarkSecrets(func(param string, _ *expr.Expression) bool { return ch.params[param].Secret })
	if ch.broken {
		return nil
	}
	return ch
}

// mayBeDeep reports a child with so many generations below it that there are too many.
func (c *checker) mayBeDeep(at *yaml.Node, below int) bool {
	if c.generation+1+below <= maxGenerations {
		return true
	}
	c.src.Errorf(at, "limit", "merge two of the pipelines", "child pipelines are nested more than %d deep", maxGenerations)
	return false
}

// mayHaveChild counts a child, and reports that there are too many.
func (c *checker) mayHaveChild(at *yaml.Node) bool {
	if !c.mayBeDeep(at, 0) {
		return false
	}
	c.family.count++
	if c.family.count == maxChildren+1 {
		c.src.Errorf(at, "limit", "run one child with `foreach`", "there are more than %d child pipelines", maxChildren)
	}
	return c.family.count <= maxChildren
}

// compileFile compiles a child that is a file. Its findings are told under its own name.
func (f *family) compileFile(name string, data []byte, generation int) *compiledChild {
	ch := &compiledChild{name: name, open: true}
	f.files[name] = ch
	src := document.New(document.File{Name: path.Join(f.base, name), Source: data, Accepted: f.accepted})
	l := &loader{src: src}
	if l.load(data) {
		f.compile(l, generation).describe(ch)
	}
	ch.open, ch.broken = false, src.Findings.HasErrors()
	f.diags = append(f.diags, src.Findings...)
	return ch
}

// describe takes from a checked pipeline what its parent asks of it.
func (c *checker) describe(ch *compiledChild) {
	ch.ts, ch.params, ch.height, ch.groups, ch.orders = c.ts, c.pipeline.Params, c.height, c.groups, c.orders
	ch.waits, ch.longest = c.longestWait(), c.longestName()
	ch.effects, ch.unpriced, ch.hashKeys, ch.files = c.effects(), c.unpricedStep(), c.hashKeys(), c.namedFiles()
	if group := c.constantGroup(); group != "" {
		ch.groups[group] = member{ch.name, c.pipeline.Concurrency.OnConflict == spec.OnConflictQueue || ch.groups[group].waits}
		for order, names := range ch.orders {
			if order[0] == group && names[0] == "" {
				ch.orders[order] = [2]string{ch.name, names[1]}
			}
		}
	}
	ch.outputs = make(map[string]*cel.Type, len(c.outputs.Keys))
	for i, name := range c.outputs.Keys {
		ch.outputs[name] = expr.TypeOf(c.outputs.Values[i])
	}
}

// compileInline compiles a child written in place; nil when nothing can be said of it.
func (c *checker) compileInline(s *step) *compiledChild {
	steps := document.Lookup(s.body, "steps")
	given := c.compileGiven(s)
	if !c.mayHaveChild(steps) {
		return nil
	}
	root := c.inlineDocument(s, steps, given)
	l := &loader{src: c.src, root: root, inline: true}
	if !l.read() {
		return nil
	}
	l.untyped = s.childUntyped
	for _, name := range l.untyped {
		l.pipeline.Params[name] = spec.Param{Type: "string"}
	}
	inner := c.family.compile(l, c.generation+1)
	ch := &compiledChild{name: "`" + s.ID + "`"}
	inner.describe(ch)
	c.family.inline = append(c.family.inline, inlineChild{s, root})
	return ch
}

// compileGiven compiles the params of a child written in place ahead of everything else, and returns them.
func (c *checker) compileGiven(s *step) expr.Mapping {
	c.typeFan(s)
	given := expr.Under(s.spec, "params")
	given.MarkSecrets(func(_ string, e *expr.Expression) bool {
		return slices.ContainsFunc(e.ReferencesIn(c.base), func(r expr.Reference) bool {
			return len(r.Path) == 2 && r.Path[0].Name == "params" && c.pipeline.Params[r.Path[1].Name].Secret
		})
	})
	for _, e := range expr.Inside(given) {
		c.compile(e, s)
	}
	return given
}

// inlineDocument is the pipeline that stands in place of a step. What was written keeps its place, so that findings point to it.
func (c *checker) inlineDocument(s *step, steps *yaml.Node, given expr.Mapping) *yaml.Node {
	text := func(value string) *yaml.Node { return document.NewScalar(s.key, value) }
	params := document.NewMapping(s.key)
	for key, n := range document.Entries(s.body, "params") {
		v := given.Get(key.Value)
		if v == nil {
			continue // reported
		}
		p, ok := c.paramOf(key, n, expr.TypeOf(v))
		if !ok {
			s.childUntyped = append(s.childUntyped, key.Value)
		}
		if e, ok := v.(expr.Computed); ok {
			p.Secret = e.Expr.Scope == expr.ScopeSecret
		}
		params.Content = append(params.Content, key, declaration(key, p))
	}
	root := document.NewMapping(s.key,
		text("sluice"), text("pipeline/v1"), text("name"), text(childName(c.pipeline.Name, s.ID)),
		text("params"), params, document.KeyNode(s.body, "steps"), steps)
	if outputs := document.Lookup(s.body, "outputs"); outputs != nil {
		root.Content = append(root.Content, document.KeyNode(s.body, "outputs"), outputs)
	}
	return root
}

// childName is the name under which the runs of a child written in place are kept.
func childName(parent, id string) string {
	const most = 63
	id = id[:min(len(id), most-2)]
	return parent[:min(len(parent), most-1-len(id))] + "." + id
}

// paramOf is the parameter for a value that is handed to steps written in place; false when its type is not known.
func (c *checker) paramOf(key, n *yaml.Node, t *cel.Type) (spec.Param, bool) {
	p, ok := expr.ParamOf(t)
	switch {
	case ok:
		return p, true
	case t.Kind() == types.DynKind: // its expression was reported, or reads a child that is not known
	case expr.IsOptional(t):
		c.src.Errorf(n, "type", "end it with `.orValue(...)`", "`%s` may be absent, but a parameter needs a value", key.Value)
	default:
		c.src.Errorf(n, "type", "pass its fields one by one", "%s cannot be passed to a child pipeline", spec.Article(expr.TypeName(t)))
	}
	return spec.Param{Type: "string"}, false
}

// checkGiven compares what a step gives with what its child takes.
func (c *checker) checkGiven(s *step, ch *compiledChild) {
	given := expr.Under(s.spec, "params")
	missing := slices.DeleteFunc(slices.Sorted(maps.Keys(ch.params)), func(name string) bool {
		return document.Lookup(s.body, "params", name) != nil || !mustBeGiven(ch.params[name])
	})
	for key, n := range document.Entries(s.body, "params") {
		decl, ok := ch.params[key.Value]
		c.d.ValuesAsText(given, key.Value, document.Lookup(s.body, "params"), decl.Type, decl.Items)
		v := given.Get(key.Value)
		switch {
		case !ok && len(missing) == 1: // which is the one that is meant
			c.src.Errorf(key, "param", "write `"+missing[0]+"`, which it needs", "`%s` is not a parameter of %s", key.Value, ch.name)
			missing = nil
		case !ok:
			c.src.Errorf(key, "param", suggest.Hint(key.Value, slices.Collect(maps.Keys(ch.params))), "`%s` is not a parameter of %s", key.Value, ch.name)
		case v == nil || slices.ContainsFunc(expr.Inside(v), func(e *expr.Expression) bool { return !e.OK }): // reported
		case expr.IsKnown(v) && !expr.IsArtifact(decl.Type):
			c.checkParamValue(n, key.Value, decl, expr.Known(v))
		default:
			if t := expr.TypeOf(v); !takes(decl, t) {
				c.src.Errorf(n, "type", "", "this is %s, but the parameter `%s` of %s is %s", spec.Article(expr.TypeName(t)), key.Value, ch.name, spec.Article(decl.Type))
			}
		}
	}
	for _, name := range missing {
		c.src.Errorf(s.kindKey(), "required", "write `params: {"+name+": ...}`", "%s needs the parameter `%s` (%s)", ch.name, name, ch.params[name].Type)
	}
}
