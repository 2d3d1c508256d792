package dsl

import (
	"encoding/json"
	"reflect"
	"slices"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/dsl/transform"
)

func cleanOutputs(ts *expr.TypeSystem, _ string, _ *spec.Clean) expr.ObjectType {
	t := reflect.TypeFor[spec.CleanOutput]()
	return expr.ObjectType{
		Fields: ts.StructFields(t), Optional: expr.OptionalFields(t),
		Zeros: map[string]json.RawMessage{"rules": json.RawMessage(`{"dropped":0}`), "reasons": json.RawMessage("0")},
	}
}

// checkClean demands a graph in which all rows go from files to files.
func checkClean(c *checker, s *step, _ *spec.Clean) {
	facts := transform.StepFacts{Workspace: c.ws}
	for variable := range document.Entries(s.node, "secrets") {
		facts.Secrets = append(facts.Secrets, variable.Value)
	}
	slices.Sort(facts.Secrets)
	c.graphOf(s).Check(c.src, facts)
}

// graphOf resolves the graph of a clean step's transforms, once.
func (c *checker) graphOf(s *step) *transform.Cleaning {
	known, ok := c.cleanings[s]
	if !ok {
		known = transform.ReadCleaning(s.body)
		c.cleanings[s] = known
	}
	return known
}
