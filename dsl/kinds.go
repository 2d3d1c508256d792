package dsl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"

	"github.com/sluiceml/sluice/dsl/spec"
)

// kindInfo is one line in the list of kinds: all that the language knows of it beside its spec struct.
type kindInfo struct {
	kind  spec.Kind
	new   func() spec.Spec
	scope scope // of expressions in the body that stand without ${}
	// outputs are the fields of the step's outputs in expressions.
	outputs func(ts *typeSystem, id string, spec spec.Spec) map[string]*cel.Type
	// check reports what types alone do not say.
	check func(c *checker, s *step)
}

// kinds are all that this version has. They are listed in init, since the checks of some look kinds up.
var kinds []kindInfo

func init() {
	kinds = []kindInfo{
		kindOf(spec.KindClean, scopeRow, cleanOutputs, checkClean),
		kindOf(spec.KindTrain, scopePlain, trainOutputs, checkTrain),
		kindOf(spec.KindEvaluate, scopePlain, evaluateOutputs, checkEvaluate),
		kindOf(spec.KindCompile, scopePlain, compileOutputs, checkCompile),
		kindOf(spec.KindRollout, scopeStage, rolloutOutputs, checkRollout),
		kindOf(spec.KindRun, scopePlain, runOutputs, checkRun),
		kindOf(spec.KindApproval, scopePlain, approvalOutputs, checkApproval),
		kindOf(spec.KindPipeline, scopePlain, childPipelineOutputs, checkChildPipeline),
	}
}

// kindOf is the line of a kind whose spec is an S.
func kindOf[S any, P interface {
	*S
	spec.Spec
}](kind spec.Kind, expressions scope, outputs func(*typeSystem, string, P) map[string]*cel.Type, check func(*checker, *step, P)) kindInfo {
	return kindInfo{
		kind: kind, scope: expressions,
		new:     func() spec.Spec { return P(new(S)) },
		outputs: func(ts *typeSystem, id string, spec spec.Spec) map[string]*cel.Type { return outputs(ts, id, spec.(P)) },
		check:   func(c *checker, s *step) { check(c, s, s.known.(P)) },
	}
}

// laterKinds and notYetKeys are named in the design and refused by name until they work.
var (
	laterKinds = []string{"tune"}
	notYetKeys = map[reflect.Type][]string{
		reflect.TypeFor[spec.Target](): {"triton"},
	}
)

func kindByName(name string) *kindInfo {
	if i := slices.IndexFunc(kinds, func(k kindInfo) bool { return string(k.kind) == name }); i >= 0 {
		return &kinds[i]
	}
	return nil
}

// Kinds are all that this version has.
func Kinds() []spec.Kind {
	all := make([]spec.Kind, len(kinds))
	for i, k := range kinds {
		all[i] = k.kind
	}
	return all
}

func kindNames() []string {
	names := make([]string, len(kinds))
	for i, k := range kinds {
		names[i] = string(k.kind)
	}
	return names
}

// DecodeSpec reads a resolved spec, as Resolve returns it.
func DecodeSpec(kind spec.Kind, raw json.RawMessage) (spec.Spec, error) {
	info := kindByName(string(kind))
	if info == nil {
		return nil, fmt.Errorf("unknown kind %q", kind)
	}
	sp := info.new()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(sp); err != nil {
		return nil, fmt.Errorf("spec of a %s step: %w", kind, err)
	}
	spec.SetDefaults(reflect.ValueOf(sp))
	return sp, nil
}

// declaredOutputs adds what a command declares to the outputs of its kind.
func declaredOutputs(fields map[string]*cel.Type, outputs map[string]spec.OutputDecl) map[string]*cel.Type {
	for name, decl := range outputs {
		switch decl.Type {
		case "string":
			fields[name] = cel.StringType
		case "int":
			fields[name] = cel.IntType
		case "double":
			fields[name] = cel.DoubleType
		case "bool":
			fields[name] = cel.BoolType
		case "dataset", "model", "checkpoint":
			fields[name] = objectNamed(decl.Type)
		}
	}
	return fields
}

// metricsType is an object of the declared metrics: any other name is an error before anything is paid for.
func metricsType(ts *typeSystem, id string, metrics []string) *cel.Type {
	o := &objectType{name: "steps." + id + ".metrics", code: "metric", what: "a metric of `" + id + "`", fields: map[string]*cel.Type{}}
	for _, m := range metrics {
		o.fields[m] = cel.DoubleType
	}
	return ts.define(o)
}
