package dsl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
)

// kindInfo is one line in the list of kinds: all that the language knows of it beside its spec struct.
type kindInfo struct {
	kind  Kind
	new   func() Spec
	scope scope // of expressions in the body that stand without ${}
	// outputs are the fields of the step's outputs in expressions.
	outputs func(ts *typeSystem, id string, spec Spec) map[string]*cel.Type
	// check reports what types alone do not say.
	check func(c *checker, s *step)
}

// kinds are all that this version has. They are listed in init, since the checks of some look kinds up.
var kinds []kindInfo

func init() {
	kinds = []kindInfo{
		kindOf(KindClean, scopeRow, cleanOutputs, checkClean),
		kindOf(KindTrain, scopePlain, trainOutputs, checkTrain),
		kindOf(KindEvaluate, scopePlain, evaluateOutputs, checkEvaluate),
		kindOf(KindCompile, scopePlain, compileOutputs, checkCompile),
		kindOf(KindRollout, scopeStage, rolloutOutputs, checkRollout),
		kindOf(KindRun, scopePlain, runOutputs, checkRun),
		kindOf(KindApproval, scopePlain, approvalOutputs, checkApproval),
		kindOf(KindPipeline, scopePlain, childPipelineOutputs, checkChildPipeline),
	}
}

// kindOf is the line of a kind whose spec is an S.
func kindOf[S any, P interface {
	*S
	Spec
}](kind Kind, expressions scope, outputs func(*typeSystem, string, P) map[string]*cel.Type, check func(*checker, *step, P)) kindInfo {
	return kindInfo{
		kind: kind, scope: expressions,
		new:     func() Spec { return P(new(S)) },
		outputs: func(ts *typeSystem, id string, spec Spec) map[string]*cel.Type { return outputs(ts, id, spec.(P)) },
		check:   func(c *checker, s *step) { check(c, s, s.known.(P)) },
	}
}

// laterKinds and notYetKeys are named in the design and refused by name until they work.
var (
	laterKinds = []string{"tune"}
	notYetKeys = map[reflect.Type][]string{
		reflect.TypeFor[Target](): {"triton"},
	}
)

func kindByName(name string) *kindInfo {
	if i := slices.IndexFunc(kinds, func(k kindInfo) bool { return string(k.kind) == name }); i >= 0 {
		return &kinds[i]
	}
	return nil
}

// Kinds are all that this version has.
func Kinds() []Kind {
	all := make([]Kind, len(kinds))
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
func DecodeSpec(kind Kind, raw json.RawMessage) (Spec, error) {
	info := kindByName(string(kind))
	if info == nil {
		return nil, fmt.Errorf("unknown kind %q", kind)
	}
	spec := info.new()
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.DisallowUnknownFields()
	if err := dec.Decode(spec); err != nil {
		return nil, fmt.Errorf("spec of a %s step: %w", kind, err)
	}
	setDefaults(reflect.ValueOf(spec))
	return spec, nil
}

// declaredOutputs adds what a command declares to the outputs of its kind.
func declaredOutputs(fields map[string]*cel.Type, outputs map[string]OutputDecl) map[string]*cel.Type {
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
