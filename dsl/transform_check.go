package dsl

import "go.yaml.in/yaml/v3"

// checkNotEmpty reports a list that has nothing in it.
func (c *checker) checkNotEmpty(n *yaml.Node) {
	if n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		c.src.errorf(n, "required", "", "the list is empty")
	}
}

// checkTwice reports what is in a list of words twice.
func (c *checker) checkTwice(n *yaml.Node) {
	if n == nil || n.Kind != yaml.SequenceNode {
		return
	}
	seen := map[string]bool{}
	for _, item := range n.Content {
		if item.Kind == yaml.ScalarNode && seen[item.Value] {
			c.src.errorf(item, "duplicate", "remove one of them", "`%s` is in the list twice", item.Value)
		}
		seen[item.Value] = true
	}
}
