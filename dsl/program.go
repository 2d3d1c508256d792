package dsl

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/environment"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
	"github.com/sluiceml/sluice/internal/artifact"
)

// Program is a pipeline that has been checked completely and is ready to run. It is safe for concurrent use.
type Program struct {
	pipeline *spec.Pipeline
	env      *spec.Environment
	ts       *expr.TypeSystem
	steps    []*step
	byID     map[string]*step
	graph    []spec.Node
	outputs  expr.Mapping
	// concurrency has the group, which may read params.
	concurrency expr.Mapping
	// requirements are the requirements files of steps and pools, each with the files that it includes.
	requirements map[string][]string
	// hashKeys are those of the children, by the steps that run them.
	hashKeys map[string]hashKeys
	// childFiles are the workspace files that steps which run children depend on, where these are others than all.
	childFiles map[string][]string
	// published are the keys that expressions read of `datasets` and `models`, each with that name.
	published map[[2]string]bool
	decoded   decoded
}

// Compile loads and checks a pipeline against its environment, and reports all findings at once, sorted by position. A nil env.Source means
// DefaultEnvironment; without a workspace, files are not checked. The program is nil if any finding is an error.
func Compile(pipeline document.File, env document.File, ws document.Workspace) (*Program, document.Diagnostics) {
	return compileRoot(pipeline, env, ws, &loader{})
}

// compileRoot compiles a document that is a pipeline, or a block that stands for one.
func compileRoot(pipeline, env document.File, ws document.Workspace, l *loader) (*Program, document.Diagnostics) {
	var diags document.Diagnostics
	e := spec.DefaultEnvironment()
	if env.Source != nil {
		src := document.New(env)
		e = environment.Load(src, env.Source)
		diags = append(diags, src.Findings...)
	}
	src := document.New(pipeline)
	l.src = src
	checked := e
	if l.alone && !l.block {
		checked = nil // only a cleaning runs: the environment need not define what other steps name
	}
	f := newFamily(pipeline, checked, ws)
	var program *Program
	if root := src.Parse(pipeline.Source); root != nil {
		if l.root = root; l.block {
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
	program.env = e
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

// Needs returns the steps that a step waits for, which are also all steps of its own section that its expressions can read.
func (p *Program) Needs(id string) map[string]spec.Need {
	if s := p.byID[id]; s != nil {
		return s.needs
	}
	return nil
}

// Listed returns the steps that the `foreach` or `matrix` of a step reads.
func (p *Program) Listed(id string) map[string]bool {
	s, listed := p.byID[id], map[string]bool{}
	for e, r := range s.references() {
		if id := r.Step(); e.Scope == expr.ScopeOnce && e != s.when && id != "" {
			listed[id] = true
		}
	}
	return listed
}

// Publishes returns the outputs that a step publishes, each with the name it is published under.
func (p *Program) Publishes(id string) map[string]string {
	if s := p.byID[id]; s != nil {
		return s.Publish
	}
	return nil
}

// Artifacts returns the outputs of a step, or of an instance, that other steps can use as inputs. Artifacts that an output only mentions,
// such as the checkpoints from which the generations of a training resumed, are not among them.
func (p *Program) Artifacts(id string, outputs json.RawMessage) []artifact.Ref {
	return p.ts.Artifacts(expr.ObjectNamed("steps."+id), outputs)
}

// checker goes over a loaded document.
type checker struct {
	*loader
	env        *spec.Environment
	ws         document.Workspace
	ts         *expr.TypeSystem
	base       *cel.Env
	vars       map[string]*cel.Type
	afterBase  *cel.Env // of on_failure and finally
	afterVars  map[string]*cel.Type
	envs       map[string]*cel.Env // by the signature of their variables
	usedParams map[string]bool
	published  map[[2]string]bool // of Program
	tried      int                // combinations of matrices
	shapes     int                // of rows
	cleanings  map[*step]*transform.Cleaning
	written    map[*step]transform.Shape // the rows of the datasets of cleanings
	// requirements: as in Program.
	requirements map[string][]string
	// Of child pipelines: what all share, how deep this one is, how many generations are below it, and what came of it.
	family             *family
	children           map[*step]*compiledChild // of those that are files
	compiled           map[*step]*compiledChild // of those that could be compiled, files or not
	groups             map[string]member        // as in compiledChild, without this pipeline's own
	orders             orders
	generation, height int
	program            *Program
}

func (c *checker) check() *Program {
	c.ts, c.envs = expr.NewTypeSystem(), map[string]*cel.Env{}
	c.cleanings, c.written, c.requirements = map[*step]*transform.Cleaning{}, map[*step]transform.Shape{}, map[string][]string{}
	c.declare()
	for _, s := range c.steps {
		c.compileStep(s)
	}
	for _, e := range c.exprs {
		c.compile(e, nil)
	}
	c.src.Judge(c.checkSteps)
	c.addEdges()
	graph := c.sortGraph()
	if graph != nil {
		c.src.Judge(c.checkGates)
	}
	c.src.Judge(c.checkDocument)
	c.d.ReportMisspelt()
	if !c.src.Findings.HasErrors() {
		c.src.Judge(c.checkWhole)
	}
	return &Program{
		pipeline: &c.pipeline, env: c.env, ts: c.ts, steps: c.steps, byID: c.byID, graph: graph, outputs: c.outputs,
		concurrency: c.concurrency, requirements: c.requirements, hashKeys: c.childHashKeys(),
		childFiles: c.childFiles(), published: c.published,
	}
}

func (c *checker) checkSteps() {
	for _, s := range c.steps {
		c.checkEnvelope(s)
		c.checkColumns(s)
		if s.body.Kind == yaml.MappingNode {
			s.info().check(c, s)
			c.checkScripts(s)
		}
	}
}

// checkDocument checks what stands around the steps.
func (c *checker) checkDocument() {
	c.checkPathTexts()
	c.checkParams()
	c.checkTriggers()
	c.checkConcurrency()
	c.checkKeep()
	c.checkNotify()
	c.checkCosts()
}

// checkWhole checks what is only worth telling of a document without errors.
func (c *checker) checkWhole() {
	c.checkClashes()
	c.checkUnasked()
	c.checkUnusedDefaults()
	c.checkUnread()
	c.checkMeasures()
}

// declare defines the types of the names that every expression sees.
func (c *checker) declare() {
	steps := &expr.ObjectType{Name: "steps", Code: "step", What: "a step of this pipeline", Fields: map[string]*cel.Type{}}
	for _, s := range c.steps {
		outputs := s.info().outputs(c.ts, s.ID, s.known)
		outputs.Name, outputs.What = "steps."+s.ID, "an output of `"+s.ID+"`"
		c.excuseOutputs(s, &outputs)
		steps.Fields[s.ID] = c.ts.Define(&outputs)
		if s.fan == spec.FanNone && c.excuseFan(s) != nil {
			steps.Fields[s.ID] = cel.DynType
		}
		if s.listed() {
			steps.Fields[s.ID] = cel.ListType(c.instanceType(s))
		}
	}
	for _, id := range c.unreadable {
		steps.Fields[id] = cel.DynType // what is wrong with the step was reported; those that read it are not to blame
	}
	if c.inline {
		steps.Hint = givenToChild + " beside `steps`: the steps of a child see nothing else of its parent"
	}
	stepsType := c.ts.Define(steps)
	serving := &expr.ObjectType{Name: "serving", Code: "target", What: "a target of this environment", Fields: map[string]*cel.Type{}}
	earlier := cel.OptionalType(c.ts.Define(&expr.ObjectType{Name: "earlier run", What: "a part of an earlier run", Hint: "write last.?steps.STEP.NAME", Fields: map[string]*cel.Type{"steps": stepsType}}))
	if c.env != nil {
		for name := range c.env.Targets {
			serving.Fields[name] = earlier
		}
	}
	main, after := c.runTypes()
	c.vars = map[string]*cel.Type{
		"params": c.paramsType(), "steps": stepsType, "serving": c.ts.Define(serving), "last": earlier, "run": main,
		"datasets": cel.MapType(cel.StringType, expr.ObjectNamed("dataset")), "models": cel.MapType(cel.StringType, expr.ObjectNamed("model")),
	}
	if c.alone {
		c.vars["serving"] = cel.DynType // the targets are unknown
	}
	c.base = expr.MustEnv(expr.ScopePlain, c.ts, c.vars)
	c.afterVars = maps.Clone(c.vars)
	c.afterVars["run"] = after
	c.afterBase = expr.MustEnv(expr.ScopePlain, c.ts, c.afterVars)
	c.compileChildren()
	for _, s := range c.steps {
		c.typeFan(s)
	}
}

// givenToChild begins the hint at a step of the parent that a child reads.
const givenToChild = "pass its value with `params`"

func (c *checker) paramsType() *cel.Type {
	params := &expr.ObjectType{Name: "params", Code: "param", What: "a parameter of this pipeline", Fields: map[string]*cel.Type{}, Optional: map[string]bool{}, Ranges: map[string]expr.Range{}}
	for name, p := range c.pipeline.Params {
		t := expr.ParamType(p)
		if slices.Contains(c.untyped, name) {
			t = cel.DynType
		}
		if t != nil {
			params.Fields[name], params.Optional[name] = t, p.Optional()
			params.Ranges[name] = expr.Range{Only: p.Values, Min: p.Min, Max: p.Max, Pattern: p.Pattern, Declared: true}
		}
	}
	if c.inline {
		params.Hint = "pass it with `params: {NAME: \"${...}\"}` beside `steps`, and read params.NAME: the steps of a child see nothing else of its parent"
	}
	c.excuseParams(params)
	return c.ts.Define(params)
}

// runTypes are the facts of the run: those the main steps see, and those that on_failure and finally see.
func (c *checker) runTypes() (main, after *cel.Type) {
	run := &expr.ObjectType{Name: "run", Code: "name", What: "a fact of the run", Fields: map[string]*cel.Type{
		"id": cel.StringType, "attempt": cel.IntType, "started_at": cel.TimestampType, "scheduled_at": cel.TimestampType,
		"trigger": c.ts.Define(c.triggerType()),
		"cost":    c.ts.Define(&expr.ObjectType{Name: "cost", Code: "name", What: "a cost of the run", Fields: map[string]*cel.Type{"usd": cel.DoubleType}, Ranges: map[string]expr.Range{"usd": {Min: new(float64)}}}),
	}}
	ended := *run
	ended.Name, ended.Fields = endedRun, maps.Clone(run.Fields)
	ended.Fields["status"] = cel.StringType
	ended.Ranges = map[string]expr.Range{"status": {Only: texts(spec.RunEnds())}}
	ended.Fields["failed"] = cel.ListType(c.ts.StructType(reflect.TypeFor[spec.FailedStep]()))
	c.ts.ObjectType(ended.Fields["failed"].Parameters()[0]).Ranges["step"] = expr.Range{Only: c.stepNames()}
	return c.ts.Define(run), c.ts.Define(&ended)
}

// endedRun is the type of `run` where the main steps have ended.
const endedRun = "ended run"

// compileStep checks the expressions of a step.
func (c *checker) compileStep(s *step) {
	if isA[*spec.Clean](s) {
		c.typeRows(s)
	}
	for _, e := range s.exprs {
		c.compile(e, s)
	}
	for _, name := range c.ts.Lookup("steps." + s.ID).FieldNames() {
		_, taken := c.vars[name]
		if name == "previous" && isA[*spec.Rollout](s) {
			continue // a rollout is not repeated, which is reported
		}
		at := s.key
		for _, section := range []string{"outputs", "fields"} {
			if document.Lookup(s.body, section, name) != nil {
				at = document.KeyNode(document.Lookup(s.body, section), name)
			}
		}
		if expr.IsReserved(name) {
			c.src.Errorf(at, "name", "give it another name, such as `"+name+"_`", "%q is a reserved word in CEL: a gate, which reads outputs by their names alone, could not read it", name)
		}
		if _, ofInstance := s.instance[name]; taken || ofInstance || name == "inputs" {
			c.src.Errorf(at, "reserved", "give it another name", "`%s` is a reserved name and cannot be an output of `%s`", name, s.ID)
		}
	}
}

// compile checks an expression of a step, or of the pipeline when s is nil. One that was tried is left alone.
func (c *checker) compile(e *expr.Expression, s *step) {
	if e.Tried {
		return
	}
	if e.Scope == expr.ScopeRow || e.Scope == expr.ScopeStage || e.Scope == expr.ScopeValue || e.Scope == expr.ScopeParams {
		c.compileFree(e)
		return
	}
	extra := map[string]*cel.Type{}
	if s != nil && (e.Scope != expr.ScopeOnce || s.fan == spec.FanNone) {
		maps.Copy(extra, s.instance)
		if inputs := c.inputsType(s); inputs != nil {
			extra["inputs"] = inputs
		}
		if e.Scope == expr.ScopeGate || e.Scope == expr.ScopeUntil {
			maps.Copy(extra, c.ts.Lookup("steps."+s.ID).AsNames())
			c.anyOutputs(e, s, extra)
		}
	}
	base, baseVars := c.base, c.vars
	if s != nil && s.section != spec.SectionMain {
		base, baseVars = c.afterBase, c.afterVars
	}
	c.tellPlace(e, s)
	env, vars := c.envWith(base, baseVars, extra)
	e.Compile(c.src, c.ts, env, vars)
	c.use(e)
	c.src.Judge(func() { c.checkCounts(e, s) })
}

// anyOutputs lets a gate read any output of a step whose outputs are not known.
func (c *checker) anyOutputs(e *expr.Expression, s *step, extra map[string]*cel.Type) {
	if c.outputsOf(s).Rest == nil {
		return
	}
	for _, r := range e.ReferencesIn(c.base) {
		if name := r.Path[0].Name; extra[name] == nil && c.vars[name] == nil {
			extra[name] = cel.DynType
		}
	}
}

// compileFree checks an expression that sees nothing of the pipeline but params: over rows, a stage's counts or a trigger's value.
func (c *checker) compileFree(e *expr.Expression) {
	ts, vars := expr.FreeNames(e.Scope, c.ts, c.vars["params"])
	key := fmt.Sprint("free ", e.Scope)
	if c.envs[key] == nil {
		c.envs[key] = expr.MustEnv(e.Scope, ts, vars)
	}
	e.Compile(c.src, ts, c.envs[key], vars)
	c.use(e)
}

// use notes the parameters an expression reads, and reports the secret ones it must not.
func (c *checker) use(e *expr.Expression) {
	for _, r := range e.Refs {
		if len(r.Path) > 1 && r.Path[0].Name == "run" && r.Path[1].Name == "attempt" {
			e.AddAtReference(c.src, document.SeverityWarning, r, "attempt", "remove it", "`run.attempt` is always 1: expressions are evaluated once for all attempts of a step")
		}
		c.usePublished(e, r)
		for _, name := range r.Params(c.pipeline.Params) {
			c.useParam(e, r, name)
		}
	}
}

func (c *checker) useParam(e *expr.Expression, r expr.Reference, name string) {
	c.usedParams[name] = true
	if c.pipeline.Params[name].Secret && e.Scope != expr.ScopeSecret {
		hint := "write `secrets: {VARIABLE: \"${params." + name + "}\"}`; the step's program reads $VARIABLE"
		if slices.ContainsFunc(c.steps, func(s *step) bool { return isA[*spec.ChildPipeline](s) && slices.Contains(s.exprs, e) }) {
			hint = "declare the parameter of the child with `secret: true`"
		}
		e.ReportReference(c.src, r, "secret", hint,
			"`"+name+"` is a secret parameter, which can only be read under `secrets`")
	}
}

// inputsType is the object behind `inputs` of a step, or nil when it takes none.
func (c *checker) inputsType(s *step) *cel.Type {
	if c.isBroken(s.body, "inputs", yaml.MappingNode) {
		return cel.DynType
	}
	given := &expr.ObjectType{Fields: map[string]*cel.Type{}}
	excuseKeys(given, s.body, "inputs")
	if len(given.Fields) == 0 {
		return nil
	}
	if c.ts.Lookup("input") == nil {
		c.ts.Define(&expr.ObjectType{Name: "input", Code: "output", What: "a property of an input", Fields: map[string]*cel.Type{
			"type": cel.StringType, "digest": cel.StringType, "bytes": cel.DoubleType, "files": cel.DoubleType, "path": cel.StringType,
		}})
	}
	keys := given.FieldNames()
	name := "inputs(" + strings.Join(keys, ",") + ")"
	o := &expr.ObjectType{Name: name, Code: "input", What: "an input of this step", Fields: map[string]*cel.Type{}}
	for _, k := range keys {
		o.Fields[k] = expr.ObjectNamed("input")
	}
	return c.ts.Define(o)
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
		env, err := expr.Extend(base, fresh)
		if err != nil {
			return base, baseVars
		}
		c.envs[key] = env
	}
	return c.envs[key], vars
}
