package dsl

import (
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Program is a pipeline that was checked whole and is ready to be walked. It is safe for concurrent use.
type Program struct {
	pipeline *spec.Pipeline
	env      *spec.Environment
	ts       *typeSystem
	steps    []*step
	byID     map[string]*step
	graph    []spec.Node
	outputs  entries
	params   map[string]spec.Param
	// concurrency has the group, which may read params.
	concurrency entries
	// requirements are the requirements files of steps and pools, each with the files that it includes.
	requirements map[string][]string
	// hashKeys are those of the children, by the steps that run them.
	hashKeys map[string]hashKeys
	// childFiles are the workspace files that steps which run children depend on, where these are others than all.
	childFiles map[string][]string
}

// Compile loads and checks a pipeline against its environment: everything at once, findings sorted by place. A nil env.Source means
// DefaultEnvironment; without a workspace files are not looked for. The program is nil when any finding is an error.
func Compile(pipeline document.File, env document.File, ws document.Workspace) (*Program, document.Diagnostics) {
	return compileRoot(pipeline, env, ws, false)
}

// compileRoot compiles a document that is a pipeline, or a block that stands for one.
func compileRoot(pipeline, env document.File, ws document.Workspace, block bool) (*Program, document.Diagnostics) {
	var diags document.Diagnostics
	environment := spec.DefaultEnvironment()
	if env.Source != nil {
		src := document.New(env)
		environment = loadEnvironment(src, env.Source)
		diags = append(diags, src.Findings...)
	}
	src := document.New(pipeline)
	l := &loader{src: src, block: block}
	f := newFamily(pipeline.Name, environment, ws)
	var program *Program
	if root := src.Parse(pipeline.Source); root != nil {
		if l.root = root; block {
			l.root = blockPipeline(root, pipeline.Name)
		}
		if l.read() {
			program = f.compile(l, 0).program
		}
	}
	diags = append(append(diags, src.Findings...), f.diags...)
	diags.Sort()
	diags = slices.Compact(diags) // a default is read for each step that takes it
	if diags.HasErrors() {
		return nil, diags
	}
	if err := f.writeOut(); err != nil {
		src.Errorf(l.root, "limit", "write the values out", "%s", err)
		return nil, src.Findings
	}
	return program, diags
}

// Pipeline returns the document's known part.
func (p *Program) Pipeline() *spec.Pipeline { return p.pipeline }

// Environment returns the environment the pipeline was checked against.
func (p *Program) Environment() *spec.Environment { return p.env }

// Graph returns the steps in topological order, ties in the order of the document.
func (p *Program) Graph() []spec.Node { return p.graph }

// Needs returns the steps that a step waits for, which are all that its expressions may read of its own section.
func (p *Program) Needs(id string) map[string]spec.Need {
	if s := p.byID[id]; s != nil {
		return s.needs
	}
	return nil
}

// checker goes over a loaded document.
type checker struct {
	*loader
	env        *spec.Environment
	ws         document.Workspace
	ts         *typeSystem
	base       *cel.Env
	vars       map[string]*cel.Type
	afterBase  *cel.Env // of on_failure and finally
	afterVars  map[string]*cel.Type
	envs       map[string]*cel.Env // by the signature of their variables
	usedParams map[string]bool
	tried      int // combinations of matrices
	shapes     int // of rows
	counts     map[*step]map[string]*cleanCounts
	cleanings  map[*step]*cleaning
	// requirements: as in Program.
	requirements map[string][]string
	// Of child pipelines: what all share, how deep this one is, how many generations are below it, and what came of it.
	family             *family
	children           map[*step]*compiledChild // of those that are files
	compiled           map[*step]*compiledChild // of those that could be compiled, files or not
	groups             map[string]string        // as in compiledChild, without this pipeline's own
	generation, height int
	program            *Program
}

func (c *checker) check() *Program {
	c.ts, c.envs, c.counts = newTypeSystem(), map[string]*cel.Env{}, map[*step]map[string]*cleanCounts{}
	c.cleanings, c.requirements = map[*step]*cleaning{}, map[string][]string{}
	c.declare()
	for _, s := range c.steps {
		c.compileStep(s)
	}
	for _, e := range c.exprs {
		c.compile(e, nil)
	}
	for _, s := range c.steps {
		c.checkEnvelope(s)
		if s.body.Kind == yaml.MappingNode {
			kindByName(string(s.Kind)).check(c, s)
		}
	}
	c.addEdges()
	graph := c.sortGraph()
	if graph != nil {
		c.checkGates()
	}
	c.checkParams()
	c.checkTriggers()
	c.checkConcurrency()
	c.checkNotify()
	c.checkCosts()
	c.d.reportMisspelt()
	return &Program{
		pipeline: &c.pipeline, env: c.env, ts: c.ts, steps: c.steps, byID: c.byID, graph: graph, outputs: c.outputs, params: c.pipeline.Params,
		concurrency: c.concurrency, requirements: c.requirements, hashKeys: c.childHashKeys(),
		childFiles: c.childFiles(),
	}
}

// declare defines the types of the names that every expression sees.
func (c *checker) declare() {
	steps := &objectType{name: "steps", code: "step", what: "a step of this pipeline", fields: map[string]*cel.Type{}}
	for _, s := range c.steps {
		steps.fields[s.ID] = c.ts.define(&objectType{
			name: "steps." + s.ID, what: "an output of `" + s.ID + "`", fields: kindByName(string(s.Kind)).outputs(c.ts, s.ID, s.known), optional: optionalOutputs(s.known),
			zeros: zeroCounts(s.known),
		})
		if s.listed() {
			steps.fields[s.ID] = cel.ListType(c.instanceType(s))
		}
	}
	for _, id := range c.unreadable {
		steps.fields[id] = cel.DynType // what is wrong with the step was reported; those that read it are not to blame
	}
	stepsType := c.ts.define(steps)
	serving := &objectType{name: "serving", code: "target", what: "a target of this environment", fields: map[string]*cel.Type{}}
	earlier := cel.OptionalType(c.ts.define(&objectType{name: "earlier run", what: "a part of an earlier run", fields: map[string]*cel.Type{"steps": stepsType}}))
	if c.env != nil {
		for name := range c.env.Targets {
			serving.fields[name] = earlier
		}
	}
	main, after := c.runTypes()
	c.vars = map[string]*cel.Type{
		"params": c.paramsType(), "steps": stepsType, "serving": c.ts.define(serving), "last": earlier, "run": main,
		"datasets": cel.MapType(cel.StringType, objectNamed("dataset")), "models": cel.MapType(cel.StringType, objectNamed("model")),
	}
	c.base = mustEnv(c.ts, c.vars)
	c.afterVars = maps.Clone(c.vars)
	c.afterVars["run"] = after
	c.afterBase = mustEnv(c.ts, c.afterVars)
	c.compileChildren()
	for _, s := range c.steps {
		c.typeFan(s)
	}
}

// mustEnv makes an environment of names that are fixed.
func mustEnv(ts *typeSystem, vars map[string]*cel.Type) *cel.Env {
	env, err := newEnv(ts, vars)
	if err != nil {
		panic(fmt.Sprintf("dsl: %v", err))
	}
	return env
}

func (c *checker) paramsType() *cel.Type {
	params := &objectType{name: "params", code: "param", what: "a parameter of this pipeline", fields: map[string]*cel.Type{}, optional: map[string]bool{}}
	for name, p := range c.pipeline.Params {
		t := paramType(p)
		if slices.Contains(c.untyped, name) {
			t = cel.DynType
		}
		if t != nil {
			params.fields[name], params.optional[name] = t, p.Optional()
		}
	}
	return c.ts.define(params)
}

// runTypes are the facts of the run: those the main steps see, and those that on_failure and finally see.
func (c *checker) runTypes() (main, after *cel.Type) {
	run := &objectType{name: "run", code: "name", what: "a fact of the run", fields: map[string]*cel.Type{
		"id": cel.StringType, "attempt": cel.IntType, "started_at": cel.TimestampType, "scheduled_at": cel.TimestampType,
		"trigger": c.ts.define(triggerType()),
		"cost":    c.ts.define(&objectType{name: "cost", code: "name", what: "a cost of the run", fields: map[string]*cel.Type{"usd": cel.DoubleType}}),
	}}
	ended := *run
	ended.name, ended.fields = endedRun, maps.Clone(run.fields)
	ended.fields["status"] = cel.StringType
	ended.fields["failed"] = cel.ListType(c.ts.structType(reflect.TypeFor[spec.FailedStep]()))
	return c.ts.define(run), c.ts.define(&ended)
}

// endedRun is the type of `run` where the main steps have ended.
const endedRun = "ended run"

// compileStep checks the expressions of a step.
func (c *checker) compileStep(s *step) {
	if s.Kind == spec.KindClean {
		c.typeRows(s)
	}
	for _, e := range s.exprs {
		c.compile(e, s)
	}
	for _, name := range c.ts.lookup("steps." + s.ID).fieldNames() {
		_, taken := c.vars[name]
		if _, ofInstance := s.instance[name]; taken || ofInstance || name == "inputs" {
			c.src.Errorf(s.key, "reserved", "call it something else", "`%s` is a name of the language and cannot be an output of `%s`", name, s.ID)
		}
	}
}

// compile checks an expression of a step, or of the pipeline when s is nil. One that was tried is left alone.
func (c *checker) compile(e *expression, s *step) {
	if e.tried {
		return
	}
	if e.scope == scopeRow || e.scope == scopeStage || e.scope == scopeValue || e.scope == scopeParams {
		c.compileFree(e)
		return
	}
	extra := map[string]*cel.Type{}
	if s != nil && (e.scope != scopeOnce || s.fan == spec.FanNone) {
		maps.Copy(extra, s.instance)
		if inputs := c.inputsType(s); inputs != nil {
			extra["inputs"] = inputs
		}
		if e.scope == scopeGate || e.scope == scopeUntil {
			maps.Copy(extra, c.ts.lookup("steps."+s.ID).asNames())
			c.anyOutputs(e, s, extra)
		}
	}
	base, baseVars := c.base, c.vars
	if s != nil && s.section != spec.SectionMain {
		base, baseVars = c.afterBase, c.afterVars
	}
	env, vars := c.envWith(base, baseVars, extra)
	e.compile(c.src, c.ts, env, vars)
	c.use(e)
	c.checkCounts(e, s)
}

// anyOutputs lets a gate read any output of a step whose outputs are not known.
func (c *checker) anyOutputs(e *expression, s *step, extra map[string]*cel.Type) {
	if c.outputsOf(s).rest == nil {
		return
	}
	for _, r := range e.parsed(c.base) {
		if name := r.path[0].name; extra[name] == nil && c.vars[name] == nil {
			extra[name] = cel.DynType
		}
	}
}

// compileFree checks an expression that sees nothing of the pipeline but params: over rows, a stage's counts or a trigger's value.
func (c *checker) compileFree(e *expression) {
	ts, vars := namesAlone(e.scope, c.ts, c.vars["params"])
	key := fmt.Sprint("free ", e.scope)
	if c.envs[key] == nil {
		c.envs[key] = mustEnv(ts, vars)
	}
	e.compile(c.src, ts, c.envs[key], vars)
	c.use(e)
}

// use notes the parameters an expression reads, and reports the secret ones it must not.
func (c *checker) use(e *expression) {
	for _, r := range e.refs {
		for _, name := range r.paramsRead(c.pipeline.Params) {
			c.useParam(e, r, name)
		}
	}
}

// paramsRead are the parameters that an expression reads.
func (e *expression) paramsRead(declared map[string]spec.Param) (all []string) {
	for _, r := range e.refs {
		all = append(all, r.paramsRead(declared)...)
	}
	return all
}

// paramsRead are the parameters that a reference reads: all of them where it does not name one.
func (r reference) paramsRead(declared map[string]spec.Param) []string {
	switch {
	case r.path[0].name != "params":
		return nil
	case len(r.path) > 1:
		return []string{r.path[1].name}
	}
	return slices.Sorted(maps.Keys(declared))
}

func (c *checker) useParam(e *expression, r reference, name string) {
	c.usedParams[name] = true
	if c.pipeline.Params[name].Secret && e.scope != scopeSecret {
		e.reportReference(c.src, r, "secret", "write `secrets: {VARIABLE: \"${params."+name+"}\"}`; the step's program reads $VARIABLE",
			"`"+name+"` is a secret parameter, and may be read under `secrets` only")
	}
}

// inputsType is the object behind `inputs` of a step, or nil when it takes none.
func (c *checker) inputsType(s *step) *cel.Type {
	body, _ := s.spec.(entries)
	inputs, _ := body.get("inputs").(entries)
	if len(inputs.keys) == 0 {
		return nil
	}
	if c.ts.lookup("input") == nil {
		c.ts.define(&objectType{name: "input", code: "output", what: "a property of an input", fields: map[string]*cel.Type{
			"type": cel.StringType, "digest": cel.StringType, "bytes": cel.DoubleType, "files": cel.DoubleType, "path": cel.StringType,
		}})
	}
	keys := slices.Sorted(slices.Values(inputs.keys))
	name := "inputs(" + strings.Join(keys, ",") + ")"
	o := &objectType{name: name, code: "input", what: "an input of this step", fields: map[string]*cel.Type{}}
	for _, k := range keys {
		o.fields[k] = objectNamed("input")
	}
	return c.ts.define(o)
}

// envWith returns an environment with extra names; environments are kept, since steps often share them.
func (c *checker) envWith(base *cel.Env, baseVars, extra map[string]*cel.Type) (*cel.Env, map[string]*cel.Type) {
	if len(extra) == 0 {
		return base, baseVars
	}
	vars := maps.Clone(extra)
	fresh := maps.Clone(extra)
	signature := []string{baseVars["run"].TypeName()}
	for name, t := range extra {
		signature = append(signature, name+":"+t.String())
	}
	for name, t := range baseVars {
		vars[name] = t
		delete(fresh, name) // an output of that name was reported
	}
	slices.Sort(signature[1:])
	key := strings.Join(signature, " ")
	if c.envs[key] == nil {
		env, err := extend(base, fresh)
		if err != nil {
			return base, baseVars
		}
		c.envs[key] = env
	}
	return c.envs[key], vars
}
