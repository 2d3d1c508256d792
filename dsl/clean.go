package dsl

import (
	"reflect"
	"slices"
	"strings"

	"github.com/google/cel-go/cel"
	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// cleanReads reports whether a clean step has a transform that reads the step's variables under `env` or `secrets`.
func cleanReads(s *step, key string) bool {
	all, _ := transformNodes(s.body)
	return slices.ContainsFunc(all, func(n *yaml.Node) bool {
		typ := document.Lookup(n, "type")
		return typ != nil && (typ.Value == "Exec" || typ.Value == "MaskPII" && key == "secrets" && document.Lookup(n, "config", "key") != nil)
	})
}

func cleanOutputs(ts *expr.TypeSystem, _ string, _ *spec.Clean) map[string]*cel.Type {
	return ts.StructFields(reflect.TypeFor[spec.CleanOutput]())
}

// checkClean demands a graph in which all rows go from files to files.
func checkClean(c *checker, s *step, _ *spec.Clean) {
	list := document.Lookup(s.body, "transforms")
	if list == nil {
		c.src.Errorf(s.body, "required", "write `read`, `transforms` and `write`, or `transforms` alone", "`transforms` is missing")
	}
	if list == nil || list.Kind != yaml.SequenceNode {
		return
	}
	if len(list.Content) == 0 {
		c.src.Errorf(list, "chain", "begin with a ReadFrom... and end with a WriteTo...", "there are no transforms")
		return
	}
	g := c.graphOf(s)
	facts, names := c.stepFacts(s), map[string]int{}
	for i, n := range g.nodes {
		typ := document.Lookup(n, "type")
		if typ == nil {
			continue
		}
		config := document.Lookup(n, "config")
		if t, ok := transformSpecs[typ.Value].(transformChecker); ok {
			t.Check(c.src, facts, config)
		}
		checkErrorHandling(c.src, document.Lookup(config, "error_handling"))
		if strings.HasPrefix(typ.Value, "ReadFrom") {
			checkPatterns(c.src, document.Lookup(config, "path"))
		}
		label, at := g.all[i].label(), typ
		if name := document.Lookup(n, "name"); name != nil {
			at = name
		}
		if line, twice := names[label]; twice {
			c.src.Errorf(at, "duplicate", "give it a `name` of its own: rows are counted under it", "a transform in line %d is already called `%s`", line, label)
			continue
		}
		names[label] = at.Line
	}
	c.checkGraph(s)
}

// stepFacts are those of a step that its transforms are checked with.
func (c *checker) stepFacts(s *step) StepFacts {
	facts := StepFacts{Workspace: c.ws}
	for variable := range document.Entries(s.node, "secrets") {
		facts.Secrets = append(facts.Secrets, variable.Value)
	}
	slices.Sort(facts.Secrets)
	return facts
}
