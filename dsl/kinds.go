package dsl

import (
	"slices"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// kindInfo is one line in the table of kinds: everything that the language knows about a kind besides its spec struct.
type kindInfo struct {
	kind  spec.Kind
	new   func() any // a pointer to its spec struct
	scope expr.Scope // of expressions in the body that stand without ${}
	// outputs describes the step's outputs in expressions: their types, those that may be absent although the step passed, and those that count.
	outputs func(ts *expr.TypeSystem, id string, spec any) expr.ObjectType
	// check reports mistakes beyond wrong types.
	check func(c *checker, s *step)
	// caching says whether outputs of an earlier run may stand in for those of a step.
	caching func(s *step) caching
	// programs says where the user's programs run, which read the step's variables.
	programs programs
	// verdict says how a step decides on a model that another step made.
	verdict verdict
}

// caching says whether outputs of an earlier run may stand in for those of a step.
type caching int

const (
	cacheByDefault caching = iota + 1
	cacheOnRequest         // only where the step says so: it depends on what no cache key knows, or has effects that may be wanted again
	cacheNever             // what it does is not in its outputs
)

// always is the caching of a kind all of whose steps have the same.
func (c caching) always(*step) caching { return c }

// programs says where the user's programs run.
type programs int

const (
	programsNone         programs = iota + 1 // none, though Sluice itself may run on a node of a pool that the step names
	programsOnWorker                         // the step's command runs beside the worker, or on a node of a pool that the step names
	programsOnPool                           // the step's command runs on the nodes of a pool
	programsInTransforms                     // some transforms run programs or read variables
)

// verdict says how a step decides on a model that another step made.
type verdict int

const (
	verdictNone     verdict = iota + 1
	verdictByGate           // by a gate, if it has one: it may have measured the model
	verdictByPerson         // the step itself is the decision
)

// kinds are all that this version has. They are listed in init, since the checks of some look kinds up.
var kinds []kindInfo

func init() {
	kinds = []kindInfo{
		kindOf(spec.KindClean, expr.ScopeRow, cleanOutputs, checkClean, cacheByDefault.always, programsInTransforms, verdictNone),
		kindOf(spec.KindTrain, expr.ScopePlain, trainOutputs, checkTrain, cacheByDefault.always, programsOnPool, verdictNone),
		kindOf(spec.KindEvaluate, expr.ScopePlain, evaluateOutputs, checkEvaluate, cacheByDefault.always, programsOnWorker, verdictByGate),
		kindOf(spec.KindCompile, expr.ScopePlain, compileOutputs, checkCompile, cacheByDefault.always, programsNone, verdictNone),
		kindOf(spec.KindRollout, expr.ScopeStage, rolloutOutputs, checkRollout, cacheNever.always, programsNone, verdictNone),
		kindOf(spec.KindRun, expr.ScopePlain, runOutputs, checkRun, runCaching, programsOnWorker, verdictByGate),
		kindOf(spec.KindApproval, expr.ScopePlain, approvalOutputs, checkApproval, cacheNever.always, programsNone, verdictByPerson),
		kindOf(spec.KindPipeline, expr.ScopePlain, childPipelineOutputs, checkChildPipeline, cacheOnRequest.always, programsNone, verdictByGate),
	}
}

// kindOf is the line of a kind whose spec is an S.
func kindOf[S any](kind spec.Kind, expressions expr.Scope, outputs func(*expr.TypeSystem, string, *S) expr.ObjectType, check func(*checker, *step, *S),
	caching func(*step) caching, programs programs, verdict verdict,
) kindInfo {
	return kindInfo{
		kind: kind, scope: expressions,
		new:     func() any { return new(S) },
		outputs: func(ts *expr.TypeSystem, id string, spec any) expr.ObjectType { return outputs(ts, id, spec.(*S)) },
		check:   func(c *checker, s *step) { check(c, s, s.known.(*S)) },
		caching: caching, programs: programs, verdict: verdict,
	}
}

// laterKinds are planned kinds, which are rejected by name until they are supported.
var laterKinds = []string{"tune"}

func kindByName(name string) *kindInfo {
	return kindWhere(func(k kindInfo) bool { return string(k.kind) == name })
}

func kindWhere(isIt func(kindInfo) bool) *kindInfo {
	if i := slices.IndexFunc(kinds, isIt); i >= 0 {
		return &kinds[i]
	}
	return nil
}

// info is the line of the step's kind.
func (s *step) info() *kindInfo { return kindByName(string(s.Kind)) }

// kindKey is the key of the step's kind.
func (s *step) kindKey() *yaml.Node { return document.KeyNode(s.node, string(s.Kind)) }

// isA reports whether a step's spec is an S.
func isA[S any](s *step) bool {
	_, ok := s.known.(S)
	return ok
}

func kindNames() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k.kind)
	}
	return names
}

// declaredOutputs adds what a command declares to the outputs of its kind.
func declaredOutputs(fields map[string]*cel.Type, outputs map[string]spec.OutputDecl) map[string]*cel.Type {
	for name, decl := range outputs {
		if t := expr.ParamType(spec.Param{Type: decl.Type}); t != nil {
			fields[name] = t
		}
	}
	return fields
}

// metricsType is an object of the declared metrics: any other name is an error before anything is paid for.
func metricsType(ts *expr.TypeSystem, id string, metrics []string) *cel.Type {
	o := &expr.ObjectType{Name: "steps." + id + ".metrics", Code: "metric", What: "a metric of `" + id + "`", Fields: map[string]*cel.Type{}}
	for _, m := range metrics {
		o.Fields[m] = cel.DoubleType
	}
	return ts.Define(o)
}
