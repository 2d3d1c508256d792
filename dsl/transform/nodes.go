package transform

import (
	"iter"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

// transformNodes are the nodes of all transforms of a clean step, each group before those inside it, with what the graph sees of them.
func transformNodes(body *yaml.Node) ([]*yaml.Node, []wiring) {
	chain, extra := memberNodes(body)
	return wire(document.TextAt(body, "type"), chain, extra, func(n *yaml.Node) (w wiring, chain, extra []*yaml.Node) {
		w = readWiring(n)
		if w.group() {
			chain, extra = memberNodes(n)
		}
		return w, chain, extra
	})
}

// memberNodes are those of the transforms in a clean step or a group, and of those beside its chain.
func memberNodes(body *yaml.Node) (chain, extra []*yaml.Node) {
	for _, key := range []string{"source", "transforms", "sink", "extra_transforms"} {
		at := document.Lookup(body, key)
		if strings.HasSuffix(key, "transforms") && at != nil && at.Kind != yaml.SequenceNode {
			at = nil // reported where it stands
		}
		found := document.Items(at)
		if key == "extra_transforms" {
			return chain, found
		}
		chain = append(chain, found...)
	}
	return chain, nil
}

// readWiring reads what the graph sees of a transform.
func readWiring(n *yaml.Node) (w wiring) {
	w.typ, w.name = document.TextAt(n, "type"), document.TextAt(n, "name")
	for name, at := range inputNodes(n) {
		w.inputs = append(w.inputs, at.Value)
		if name != "" {
			w.inputNames = append(w.inputNames, name)
		}
	}
	for name, at := range outputNodes(n) {
		w.outputs = append(w.outputs, groupOutput{name, at.Value})
	}
	if at := document.Lookup(n, "config"); at != nil {
		_ = at.Decode(&w.config) // what has another form was reported where it stands
	}
	return w
}

// inputNodes are the names that a transform has under `input`, by what it calls them if it does.
func inputNodes(transform *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		at := document.Lookup(transform, "input")
		for name, n := range document.Entries(at) {
			if !yield(name.Value, n) {
				return
			}
		}
		if at == nil || at.Kind == yaml.MappingNode {
			return
		}
		for _, n := range document.Items(at) {
			if !yield("", n) {
				return
			}
		}
	}
}

// outputNodes are what a group has under `output`, by the names that others know them by.
func outputNodes(group *yaml.Node) iter.Seq2[string, *yaml.Node] {
	return func(yield func(string, *yaml.Node) bool) {
		at := document.Lookup(group, "output")
		if at != nil && at.Kind == yaml.ScalarNode {
			yield("", at)
		}
		for name, n := range document.Entries(at) {
			if !yield(name.Value, n) {
				return
			}
		}
	}
}

// graphErrorNode is where an error is written.
func graphErrorNode(transform *yaml.Node, e graphError) *yaml.Node {
	nth := 0
	for _, n := range inputNodes(transform) {
		if nth == e.input {
			return n
		}
		nth++
	}
	if e.output != "" {
		if at := outputNode(transform, e.output); at != nil {
			return at
		}
	}
	return document.Lookup(transform, "type")
}

// outputNode is where a transform names an output.
func outputNode(transform *yaml.Node, output string) *yaml.Node {
	config := document.Lookup(transform, "config")
	named := []*yaml.Node{document.Lookup(config, "unknown_output"), document.Lookup(config, "error_handling", "output")}
	if list := document.Lookup(config, "outputs"); list != nil {
		named = append(named, list.Content...)
	}
	for name, n := range outputNodes(transform) {
		if name == output {
			return n
		}
		named = append(named, n)
	}
	for _, n := range named {
		if n = document.Unalias(n); n != nil && n.Value == output {
			return n
		}
	}
	return nil
}

// Types of groups of transforms: in a chain each takes the rows of the one before, in a composite each says whose it takes.
const (
	chainGroup     = "chain"
	compositeGroup = "composite"
)

// isGroup reports whether a type is one of a group of transforms.
func isGroup(typ string) bool { return typ == chainGroup || typ == compositeGroup }

// groupKeys are those that only a group has.
var groupKeys = []string{"source", "transforms", "sink", "extra_transforms", "output"}

// checkSingle reports the keys of a transform that only a group of them has.
func checkSingle(r document.Reporter, transform *yaml.Node, typ string) {
	for key := range keysOf(transform, groupKeys...) {
		r.Errorf(key, "unknown-key", "write `type: chain` or `type: composite` for a group", "`%s` is a key of a group of transforms, not of `%s`", key.Value, typ)
	}
}

// checkGroup reports the keys that a group does not have, and one that has no transforms.
func checkGroup(r document.Reporter, group *yaml.Node, typ string) {
	for key := range keysOf(group, "config") {
		r.Errorf(key, "unknown-key", "write a config for each transform inside it", "a %s has no `config`", typ)
	}
	if typ == compositeGroup {
		noChain(r, group)
	}
	if chain, extra := memberNodes(group); len(chain)+len(extra) == 0 {
		r.Errorf(group, "required", "write `transforms: [...]`", "there are no transforms in this %s", typ)
	}
}

// inputNames are what the transforms inside a group call what it takes rows from; nil when it does not name its inputs.
func inputNames(group *yaml.Node) []string {
	at := document.Lookup(group, "input")
	if at == nil || at.Kind != yaml.MappingNode {
		return nil
	}
	names := []string{}
	for name := range inputNodes(group) {
		names = append(names, name)
	}
	return names
}

// keysOf yields those keys of a mapping that are among some.
func keysOf(n *yaml.Node, names ...string) func(yield func(*yaml.Node) bool) {
	return func(yield func(*yaml.Node) bool) {
		for key := range document.Entries(n) {
			if slices.Contains(names, key.Value) && !yield(key) {
				return
			}
		}
	}
}

// noChain reports the keys of a composite that only a chain has.
func noChain(r document.Reporter, composite *yaml.Node) {
	for key := range keysOf(composite, "source", "sink", "extra_transforms") {
		r.Errorf(key, "chain", "write it under `transforms`", "`%s` is only allowed in a chain, not in a composite", key.Value)
	}
}
