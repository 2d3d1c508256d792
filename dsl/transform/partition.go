package transform

import (
	"github.com/google/cel-go/common/types"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Partition divides the rows among its outputs, which other transforms take as NAME.OUTPUT. It has no other output.
type Partition struct {
	// By is a CEL expression over the row, which returns the name of its output, or a bool or an int that is converted to a name.
	By spec.Expr `json:"by"`
	// Outputs by name.
	Outputs []string `json:"outputs" dsl:"literal"`
	// UnknownOutput is the output for rows for which `by` is null or names no existing output. Default: they are rejected.
	UnknownOutput string `json:"unknown_output,omitempty" dsl:"literal"`
	// Language of the expression: cel.
	Language string `json:"language,omitempty" dsl:"enum=cel"`
	ErrorKeys
}

// Check demands outputs with names of their own.
func (Partition) Check(r document.Reporter, _ StepFacts, config *yaml.Node) {
	outputs := document.Lookup(config, "outputs")
	checkNotEmpty(r, outputs)
	document.CheckTwice(r, outputs)
	names := []*yaml.Node{document.Lookup(config, "unknown_output")}
	if outputs != nil && outputs.Kind == yaml.SequenceNode {
		names = append(names, outputs.Content...)
	}
	rejected := document.Lookup(config, "error_handling", "output")
	for _, n := range names {
		if n = document.Unalias(n); n == nil {
			continue
		}
		checkPlainName(r, n, "an output")
		if rejected != nil && n.Value == rejected.Value {
			r.Errorf(rejected, "duplicate", "give the rejected rows an output of their own", "the output `%s` is already used on line %d", n.Value, n.Line)
		}
	}
}

// checkBool reports outputs that no row gets, because `by` is true or false.
func (Partition) checkBool(r document.Reporter, config *yaml.Node, computed ExprTypes) {
	by := document.Lookup(config, "by")
	if t := computed[by]; by == nil || t == nil || t.Kind() != types.BoolKind {
		return
	}
	for n := range document.Scalars(document.Lookup(config, "outputs")) {
		if n.Value != "true" && n.Value != "false" {
			r.Errorf(n, "type", "write `by: CONDITION ? \""+n.Value+"\" : \"other\"`, or name the outputs \"true\" and \"false\"",
				"no row gets the output `%s`: `by` is a bool, which names `true` or `false`", n.Value)
		}
	}
}

// Flatten merges the rows of its inputs. A transform whose `input` is a list does the same.
type Flatten struct{}
