package dsl

import (
	"regexp"

	"go.yaml.in/yaml/v3"
)

var plainName = regexp.MustCompile(`^[A-Za-z0-9_-]{1,100}$`)

// checkPlainName demands a name that can be one of a folder, and that stands after a dot.
func (c *checker) checkPlainName(n *yaml.Node, what string) {
	if n = behindAlias(n); n != nil && n.Kind == yaml.ScalarNode && !plainName.MatchString(n.Value) {
		c.src.errorf(n, "name", "use letters, digits, - and _", "%q cannot name %s", n.Value, what)
	}
}

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
