package document

import (
	"iter"
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// Lookup returns the value at a path of keys (string) and indices (int), or nil. Aliases are what they stand for.
func Lookup(n *yaml.Node, path ...any) *yaml.Node {
	n = Unalias(n)
	for _, p := range path {
		if n == nil {
			return nil
		}
		n = Unalias(Child(n, p))
	}
	return n
}

// TextAt is the text of the scalar at a path; empty where there is none.
func TextAt(n *yaml.Node, path ...any) string {
	if at := Lookup(n, path...); at != nil && at.Kind == yaml.ScalarNode {
		return at.Value
	}
	return ""
}

// Unalias returns what an alias stands for, and anything else as it is.
func Unalias(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// Child returns one entry of a mapping or one item of a sequence, or nil.
func Child(n *yaml.Node, p any) *yaml.Node {
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

// PlaceOf returns the value at a path, or the last one on the way that is there.
func PlaceOf(n *yaml.Node, path ...any) *yaml.Node {
	for i := range path {
		next := Lookup(n, path[i])
		if next == nil {
			break
		}
		n = next
	}
	return n
}

// KeyNode returns the key of an entry of a mapping, or the mapping itself when it has no such key.
func KeyNode(n *yaml.Node, key string) *yaml.Node {
	n = Unalias(n)
	for i := 0; n.Kind == yaml.MappingNode && i+1 < len(n.Content); i += 2 {
		if n.Content[i].Value == key {
			return n.Content[i]
		}
	}
	return n
}

// MaxPlain bounds what a document grows to when its aliases are written out.
const MaxPlain = 200_000

// Plain copies a tree for a document of its own: without comments, and aliases as what they stand for. It counts left down, and stops
// below 0.
func Plain(n *yaml.Node, left *int) *yaml.Node {
	if *left--; *left < 0 {
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null"}
	}
	n = Unalias(n)
	out := &yaml.Node{Kind: n.Kind, Style: n.Style & yaml.FlowStyle, Tag: n.Tag, Value: n.Value}
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		out.Style = yaml.DoubleQuotedStyle // the form that holds any text
	}
	for _, item := range n.Content {
		out.Content = append(out.Content, Plain(item, left))
	}
	return out
}

// NodeKind names what a value is, for messages.
func NodeKind(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a mapping"
	case yaml.SequenceNode:
		return "a list"
	}
	switch n.Tag {
	case "!!null":
		return "an empty value"
	case "!!int", "!!float":
		return "the number " + n.Value
	case "!!bool":
		return "the bool " + n.Value
	}
	if len(n.Value) > 40 {
		return "a string"
	}
	return strconv.Quote(n.Value)
}

// NewScalar makes a text that findings place where a node is.
func NewScalar(at *yaml.Node, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: value, Line: at.Line, Column: at.Column}
}

// NewMapping makes a mapping that findings place where a node is.
func NewMapping(at *yaml.Node, content ...*yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: content, Line: at.Line, Column: at.Column}
}

// Scalars yields the scalars at and below a node. It follows no alias, which may lead anywhere: what is behind one is not known.
func Scalars(n *yaml.Node) iter.Seq[*yaml.Node] {
	return func(yield func(*yaml.Node) bool) { visitScalars(n, yield) }
}

func visitScalars(n *yaml.Node, yield func(*yaml.Node) bool) bool {
	if n == nil {
		return true
	}
	if n.Kind == yaml.ScalarNode {
		return yield(n)
	}
	for _, child := range n.Content {
		if !visitScalars(child, yield) {
			return false
		}
	}
	return true
}

// Items are those of a list, with what aliases stand for; what is no list is the only item of one.
func Items(n *yaml.Node) []*yaml.Node {
	switch n = Unalias(n); {
	case n == nil:
		return nil
	case n.Kind != yaml.SequenceNode:
		return []*yaml.Node{n}
	}
	items := make([]*yaml.Node, len(n.Content))
	for i, item := range n.Content {
		items[i] = Unalias(item)
	}
	return items
}

// CheckTwice reports what is in a list of words twice.
func CheckTwice(r Reporter, list *yaml.Node) {
	seen := map[string]bool{}
	for _, item := range Items(list) {
		if item.Kind == yaml.ScalarNode && seen[item.Value] {
			r.Errorf(item, "duplicate", "remove one of them", "`%s` is listed twice", item.Value)
		}
		seen[item.Value] = true
	}
}

// Without is a mapping that lacks some of its keys. n stays as it is.
func Without(n *yaml.Node, keys ...string) *yaml.Node {
	rest := *n
	rest.Content = nil
	for key, value := range Entries(n) {
		if !slices.Contains(keys, key.Value) {
			rest.Content = append(rest.Content, key, value)
		}
	}
	return &rest
}

// Entries ranges over the entries of the mapping at a path, with what aliases stand for; where there is no mapping, over none.
func Entries(n *yaml.Node, path ...any) iter.Seq2[*yaml.Node, *yaml.Node] {
	return func(yield func(key, val *yaml.Node) bool) {
		m := Lookup(n, path...)
		for i := 0; m != nil && m.Kind == yaml.MappingNode && i+1 < len(m.Content); i += 2 {
			if !yield(m.Content[i], Unalias(m.Content[i+1])) {
				return
			}
		}
	}
}

// OnlyKeys reports whether all keys of a mapping are such.
func OnlyKeys(n *yaml.Node, such func(key string) bool) bool {
	for key := range Entries(n) {
		if !such(key.Value) {
			return false
		}
	}
	return true
}

// OnlyScalars reports whether all keys and values of a mapping, or items of a list, are scalars.
func OnlyScalars(n *yaml.Node) bool {
	return !slices.ContainsFunc(n.Content, func(item *yaml.Node) bool { return item.Kind != yaml.ScalarNode })
}
