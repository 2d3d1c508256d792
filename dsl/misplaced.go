package dsl

import (
	"reflect"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
)

var (
	pipelineType    = reflect.TypeFor[spec.Pipeline]()
	environmentType = reflect.TypeFor[spec.Environment]()
	envelopeType    = reflect.TypeFor[spec.Envelope]()
)

// kindOfType is the kind whose spec is a t, or nil.
func kindOfType(t reflect.Type) *kindInfo {
	return kindWhere(func(k kindInfo) bool { return reflect.TypeOf(k.new()).Elem() == t })
}

// explainKey says where a key belongs that stands in a mapping whose struct lacks it: a key of the step within the kind, one of the kind
// beside it, one of the steps or of the environment at the top.
func (l *loader) explainKey(t reflect.Type, n, key *yaml.Node) (hint, meant string) {
	word := key.Value
	if hint := l.d.OtherLevel(t, n, word, reflect.TypeFor[spec.Trigger](), reflect.TypeFor[spec.Notification]()); hint != "" {
		return hint, ""
	}
	switch kind := kindOfType(t); {
	case t == pipelineType && decode.HasKey(envelopeType, word):
		return "write `defaults: {step: {" + word + ": ...}}` for all steps, or write it at each step", ""
	case t == pipelineType && decode.HasKey(environmentType, word):
		return "this is a key of the environment, which is another file: sluice run PIPELINE -e ENVIRONMENT", ""
	case t == pipelineType && decode.HasKey(reflect.TypeFor[spec.Train](), word) && decode.HasKey(reflect.TypeFor[spec.Run](), word) && word != "inputs":
		return "write it under the kind key of a step, or for all of a kind as `defaults: {run: {" + word + ": ...}}`", ""
	case t == pipelineType && (strings.HasPrefix(word, "x-") || strings.HasPrefix(word, ".")):
		return "there is no place for values that are only used elsewhere: write the value, with its anchor, at its first use, or under `defaults`", ""
	case t == envelopeType:
		return l.explainStepKey(n, key)
	case t == reflect.TypeFor[spec.Variant]() && decode.HasKey(reflect.TypeFor[spec.ONNXVariant](), word):
		return "write it under `onnx: {" + word + ": ...}`", "onnx"
	case kind == nil:
		return transform.ExplainKey(t, n, key)
	case word == "metrics" && t == reflect.TypeFor[spec.Run]():
		return "write `evaluate` in place of `run`, which has no metrics; or declare what is measured under `outputs`", ""
	case word == "script" && decode.HasKey(t, "command"):
		return "only `run` has it: write `command: [python3, script.py]`, or [sh, -c, \"...\"] for a shell", "command"
	case decode.HasKey(envelopeType, word):
		return "write it one level up, beside `" + string(kind.kind) + "`", ""
	case decode.HasKey(t, "pool") && decode.HasKey(reflect.TypeFor[spec.Train](), word):
		return "this is a key of `train`; those of `" + string(kind.kind) + "` run beside the worker, or on one node of a `pool`", ""
	case decode.HasKey(reflect.TypeFor[spec.Train](), word) && kind.programs == programsNone && word != "inputs":
		return "`" + string(kind.kind) + "` starts no program: write another step, of the kind `run`", ""
	case decode.HasKey(reflect.TypeFor[spec.Train](), word) && decode.HasKey(t, "command"):
		return "this is a key of `train`, whose programs run on the nodes of a pool; those of `" + string(kind.kind) + "` run beside the worker", ""
	}
	return "", ""
}

// explainStepKey explains a key that is none of a step's own.
func (l *loader) explainStepKey(n, key *yaml.Node) (hint, meant string) {
	word := key.Value
	at := document.Child(n, word)
	if word == "kind" || word == "type" {
		if at != nil && kindByName(at.Value) != nil {
			return "write `" + at.Value + ": {...}`: the kind is a key of its own", at.Value
		}
	}
	inDefaults := n == document.Lookup(l.defaults, "step")
	var holder string
	for _, k := range kinds {
		name := string(k.kind)
		if !decode.HasKey(reflect.TypeOf(k.new()).Elem(), word) {
			continue
		}
		if body := document.Lookup(n, name); body != nil {
			l.d.NoteMeant(body, word) // it is not missing there
			return "write it one level down, under `" + name + "`", ""
		}
		named := slices.ContainsFunc([]string{"kind", "type"}, func(k string) bool { at := document.Lookup(n, k); return at != nil && at.Value == name })
		if holder == "" || k.programs == programsOnWorker || named {
			holder = name
		}
		if named {
			break
		}
	}
	switch {
	case inDefaults && holder != "":
		return "it is a key of a kind: write `defaults: {" + holder + ": {" + word + ": ...}}`", ""
	case decode.HasKey(reflect.TypeFor[spec.Gate](), word):
		return "this is a key of a condition: write the gate as a block list of `- {check: ..., " + word + ": ...}`", ""
	case holder != "" && !slices.ContainsFunc(kindNames(), func(k string) bool { return document.Lookup(n, k) != nil }):
		return "write it one level down, under `" + holder + "`", holder
	}
	return "", ""
}
