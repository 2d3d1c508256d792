package dsl

import (
	"slices"

	"go.yaml.in/yaml/v3"
)

// readInputs reads the form of Beam YAML that names the inputs; there is no transform that tells them apart.
func readInputs(d *decoder, n *yaml.Node) (value, bool) {
	if n.Kind != yaml.MappingNode {
		return nil, false
	}
	out := list{}
	d.eachKey(n, func(_, val *yaml.Node) {
		if v := d.decode(val, stringType, rules{literal: true}); v != nil {
			out = append(out, v)
		}
	})
	return out, true
}

// transformNodes are the nodes of all transforms of a clean step, of which the first n are those of `transforms`.
func transformNodes(body *yaml.Node) (all []*yaml.Node, n int) {
	for i, key := range []string{"transforms", "extra_transforms"} {
		if list := lookup(body, key); list != nil && list.Kind == yaml.SequenceNode {
			all = append(all, list.Content...)
		}
		if i == 0 {
			n = len(all)
		}
	}
	for i := range all {
		all[i] = behindAlias(all[i])
	}
	return all, n
}

// transformGraph resolves the graph of a clean step's transforms, whose nodes it returns beside it.
func transformGraph(body *yaml.Node) ([]*yaml.Node, *graph) {
	nodes, n := transformNodes(body)
	typ := ""
	if at := lookup(body, "type"); at != nil {
		typ = at.Value
	}
	all := make([]wiring, len(nodes))
	for i, node := range nodes {
		all[i].place(typ, i, n)
		if at := lookup(node, "type"); at != nil && at.Kind == yaml.ScalarNode {
			all[i].typ = at.Value
		}
		if at := lookup(node, "name"); at != nil && at.Kind == yaml.ScalarNode {
			all[i].name = at.Value
		}
		for _, at := range inputNodes(node) {
			all[i].inputs = append(all[i].inputs, at.Value)
		}
		if at := lookup(node, "config"); at != nil {
			_ = at.Decode(&all[i].config) // what has another form was reported where it stands
		}
	}
	return nodes, resolveGraph(all)
}

// checkGraph reports what is wrong with the graph of a clean step's transforms.
func (c *checker) checkGraph(body *yaml.Node) {
	if at, typ := lookup(body, "extra_transforms"), lookup(body, "type"); at != nil && typ != nil && typ.Value == "composite" {
		c.src.errorf(at, "chain", "write them under `transforms`", "`extra_transforms` stand beside a chain, and a composite has none")
	}
	nodes, g := transformGraph(body)
	for _, e := range g.errors {
		c.src.errorf(graphErrorNode(nodes[e.at], e), e.code, e.hint, "%s", e.message)
	}
}

// inputNodes are the names that a transform has under `input`.
func inputNodes(transform *yaml.Node) []*yaml.Node {
	at := lookup(transform, "input")
	if at == nil {
		return nil
	}
	var names []*yaml.Node
	switch at.Kind {
	case yaml.SequenceNode:
		names = slices.Clone(at.Content)
	case yaml.MappingNode:
		for i := 1; i < len(at.Content); i += 2 {
			names = append(names, at.Content[i])
		}
	default:
		names = []*yaml.Node{at}
	}
	for i := range names {
		names[i] = behindAlias(names[i])
	}
	return names
}

// graphErrorNode is where an error is written.
func graphErrorNode(transform *yaml.Node, e graphError) *yaml.Node {
	if names := inputNodes(transform); e.input >= 0 && e.input < len(names) {
		return names[e.input]
	}
	if e.output != "" {
		if at := outputNode(lookup(transform, "config"), e.output); at != nil {
			return at
		}
	}
	return lookup(transform, "type")
}

// outputNode is where a config names an output.
func outputNode(config *yaml.Node, output string) *yaml.Node {
	named := []*yaml.Node{lookup(config, "unknown_output"), lookup(config, "error_handling", "output")}
	if list := lookup(config, "outputs"); list != nil {
		named = append(named, list.Content...)
	}
	for _, n := range named {
		if n = behindAlias(n); n != nil && n.Value == output {
			return n
		}
	}
	return nil
}
