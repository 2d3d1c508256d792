package transform

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/inputpath"
	"github.com/sluiceml/sluice/dsl/spec"
)

// Cleaning is a clean step as it stands in a document: the graph that its transforms make, or what is wrong with it.
type Cleaning struct {
	*graph
	body   *yaml.Node
	nodes  []*yaml.Node
	counts Counts // once they were asked for
}

// ReadCleaning resolves the graph of a clean step's transforms.
func ReadCleaning(body *yaml.Node) *Cleaning {
	nodes, all := transformNodes(body)
	return &Cleaning{graph: resolveGraph(all), body: body, nodes: nodes}
}

// Check demands transforms that are right each by itself, and a graph in which all rows go from files to files.
func (g *Cleaning) Check(r document.Reporter, in StepFacts) {
	list := document.Lookup(g.body, "transforms")
	if list == nil {
		r.Errorf(g.body, "required", "write `read`, `transforms` and `write`, or `transforms` alone", "`transforms` is missing")
	}
	if list == nil || list.Kind != yaml.SequenceNode {
		return
	}
	if len(list.Content) == 0 {
		r.Errorf(list, "chain", "begin with a ReadFrom... and end with a WriteTo...", "there are no transforms")
		return
	}
	names := map[string]int{}
	for i, n := range g.nodes {
		typ := document.Lookup(n, "type")
		if typ == nil {
			continue
		}
		checkConfig(r, in, typ.Value, document.Lookup(n, "config"))
		label, at := g.all[i].label(), cmp.Or(document.Lookup(n, "name"), typ)
		if line, twice := names[label]; twice {
			r.Errorf(at, "duplicate", "give it a unique `name`: rows are counted under it", "the transform on line %d is already named `%s`", line, label)
			continue
		}
		names[label] = at.Line
	}
	g.checkGraph(r)
}

// checkConfig checks the config of a transform: what is of its type, and what transforms have in common.
func checkConfig(r document.Reporter, in StepFacts, typ string, config *yaml.Node) {
	if t, ok := Config(typ).(Checker); ok {
		t.Check(r, in, config)
	}
	checkErrorHandling(r, document.Lookup(config, "error_handling"))
	if IsReader(typ) {
		checkPatterns(r, document.Lookup(config, "path"))
	}
}

// checkGraph reports what is wrong with the graph.
func (g *Cleaning) checkGraph(r document.Reporter) {
	if typ := document.Lookup(g.body, "type"); typ != nil && typ.Value == compositeGroup {
		noChain(r, g.body)
	}
	if len(g.all) > maxTransforms {
		r.Errorf(g.body, "limit", "", "%s", errTransforms)
	}
	for _, e := range g.errors {
		r.Errorf(graphErrorNode(g.nodes[e.at], e), e.code, e.hint, "%s", e.message)
	}
}

// ReadsVariables reports whether a clean step has a transform that reads the step's variables under `env` or `secrets`.
func ReadsVariables(body *yaml.Node, key string) bool {
	all, _ := transformNodes(body)
	return slices.ContainsFunc(all, func(n *yaml.Node) bool {
		typ := document.Lookup(n, "type")
		return typ != nil && (Is[Exec](typ.Value) || Is[MaskPII](typ.Value) && key == "secrets" && document.Lookup(n, "config", "key") != nil)
	})
}

// InPlace are the patterns of the files that a resolved cleaning reads where they are, not in its inputs, sorted. It is an error if a path
// leaves the folder of an input: what is there is not kept with the run.
func InPlace(sp *spec.Clean) ([]string, error) {
	var all []string
	list, wired := wireSpec(sp)
	for i, n := range list {
		var config struct{ Path, Against spec.Paths }
		if !IsReader(n.Type) && !Is[Decontaminate](n.Type) || len(n.Config) == 0 {
			continue
		}
		if err := json.Unmarshal(n.Config, &config); err != nil {
			return nil, fmt.Errorf("transform %s: %w", wired[i].label(), err)
		}
		for _, pattern := range slices.Concat(config.Path, config.Against) {
			switch {
			case !inputpath.IsIn(pattern):
				all = append(all, pattern)
			case !inputpath.Within(pattern):
				return nil, fmt.Errorf("transform %s: the path %q leaves the folder of its input", wired[i].label(), pattern)
			}
		}
	}
	slices.Sort(all)
	return slices.Compact(all), nil
}
