package dsl

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// lookup returns the value at a path of keys (string) and indices (int), or nil. Aliases are what they stand for.
func lookup(n *yaml.Node, path ...any) *yaml.Node {
	n = behindAlias(n)
	for _, p := range path {
		if n == nil {
			return nil
		}
		n = behindAlias(child(n, p))
	}
	return n
}

func behindAlias(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// child returns one entry of a mapping or one item of a sequence, or nil.
func child(n *yaml.Node, p any) *yaml.Node {
	switch p := p.(type) {
	case string:
		for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
			if n.Content[i].Value == p {
				return n.Content[i+1]
			}
		}
	case int:
		if n.Kind == yaml.SequenceNode && p < len(n.Content) {
			return n.Content[p]
		}
	}
	return nil
}

// placeOf returns the value at a path, or the last one on the way that is there.
func placeOf(n *yaml.Node, path ...any) *yaml.Node {
	for i := range path {
		next := lookup(n, path[i])
		if next == nil {
			break
		}
		n = next
	}
	return n
}

// keyNode returns the key of an entry of a mapping, or the mapping itself when it has no such key.
func keyNode(n *yaml.Node, key string) *yaml.Node {
	n = behindAlias(n)
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i]
		}
	}
	return n
}

// maxPlain bounds what a document grows to when its aliases are written out.
const maxPlain = 200_000

// plain copies a tree for a document of its own: without comments, and aliases as what they stand for. It counts left down, and stops
// below 0.
func plain(n *yaml.Node, left *int) *yaml.Node {
	if *left--; *left < 0 {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	n = behindAlias(n)
	out := &yaml.Node{Kind: n.Kind, Style: n.Style & yaml.FlowStyle, Tag: n.Tag, Value: n.Value}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		out.Style = yaml.DoubleQuotedStyle // the form that holds any text
	}
	for _, item := range n.Content {
		out.Content = append(out.Content, plain(item, left))
	}
	return out
}

// nodeKind names what a value is, for messages.
func nodeKind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.Tag {
	case "!!null":
		return "nothing"
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return "the bool " + n.Value
	}
	if len(n.Value) > 40 {
		return "a text"
	}
	return strconv.Quote(n.Value)
}
