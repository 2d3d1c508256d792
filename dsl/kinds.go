package dsl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/google/cel-go/cel"
)

// kindSpec is what the language asks of a kind's spec struct.
type kindSpec interface {
	Spec
	// outputTypes are the fields of the step's outputs in expressions.
	outputTypes(ts *typeSystem, id string) map[string]*cel.Type
	// check reports what types alone do not say.
	check(c *checker, s *step)
}

// kindInfo is one line in the list of kinds.
type kindInfo struct {
	kind  Kind
	new   func() kindSpec
	scope scope // of expressions in the body that stand without ${}
}

// kinds are all that this version has.
var kinds = []kindInfo{
	{KindClean, func() kindSpec { return new(Clean) }, scopeRow},
	{KindTrain, func() kindSpec { return new(Train) }, scopePlain},
	{KindEvaluate, func() kindSpec { return new(Evaluate) }, scopePlain},
	{KindCompile, func() kindSpec { return new(CompileModel) }, scopePlain},
	{KindRollout, func() kindSpec { return new(Rollout) }, scopeStage},
	{KindRun, func() kindSpec { return new(Run) }, scopePlain},
	{KindApproval, func() kindSpec { return new(Approval) }, scopePlain},
	{KindPipeline, func() kindSpec { return new(ChildPipeline) }, scopePlain},
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
