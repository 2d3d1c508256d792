package transform

import (
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
)

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
		r.Errorf(key, "unknown-key", "write `type: chain` or `type: composite` for a group", "`%s` is a key of a group of transforms, and not of `%s`", key.Value, typ)
	}
}

// checkGroup reports the keys that a group does not have, and one that has no transforms.
func checkGroup(r document.Reporter, group *yaml.Node, typ string) {
	for key := range keysOf(group, "config") {
		r.Errorf(key, "unknown-key", "write the configs of the transforms inside it", "a %s has no `config`", typ)
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
		for i := 0; i+1 < len(n.Content); i += 2 {
			if key := n.Content[i]; slices.Contains(names, key.Value) && !yield(key) {
				return
			}
		}
	}
}

// noChain reports the keys of a composite that only a chain has.
func noChain(r document.Reporter, composite *yaml.Node) {
	for key := range keysOf(composite, "source", "sink", "extra_transforms") {
		r.Errorf(key, "chain", "write it under `transforms`", "`%s` belongs to a chain, and a composite has none", key.Value)
	}
}
