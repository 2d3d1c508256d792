package dsl

import (
	"maps"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/environment"
	"github.com/sluiceml/sluice/internal/suggest"
)

// checkSecret reports a secret that the environment does not have; n is where it is named.
func (c *checker) checkSecret(n *yaml.Node, name string) {
	if c.env == nil || n.Kind != yaml.ScalarNode {
		return
	}
	if _, ok := c.env.Secrets[name]; !ok {
		environment.MissingSecret(c.src, n, c.env, name)
	}
}

// checkWho reports names that are neither people of the environment nor a user, and warns if nobody is among them; n is the list of them.
func (c *checker) checkWho(n *yaml.Node) {
	if c.env == nil || n == nil || n.Kind != yaml.SequenceNode {
		return
	}
	isKnown := func(item *yaml.Node) bool { return c.env.People[document.Unalias(item).Value].OIDC == "" }
	if len(n.Content) > 0 && !slices.ContainsFunc(n.Content, isKnown) {
		c.src.Warnf(n.Content[0], "person", "add a user, as user:NAME, or a group that lists `users`", "nobody could decide: this version does not know who is in an `oidc` group")
	}
	for _, item := range n.Content {
		item = document.Unalias(item)
		if item.Kind != yaml.ScalarNode || strings.Contains(item.Value, "${") {
			continue
		}
		user, isUser := strings.CutPrefix(item.Value, "user:")
		_, known := c.env.People[item.Value]
		switch {
		case isUser && user == "":
			c.src.Errorf(item, "person", "write user:NAME", "no such person or group")
		case !isUser && !known:
			hint := suggest.Hint(item.Value, slices.Collect(maps.Keys(c.env.People)))
			if _, isGroup := c.env.People["group:"+item.Value]; isGroup {
				hint = "write group:" + item.Value
			} else if !strings.Contains(item.Value, ":") {
				hint = "for a user write user:" + strings.TrimPrefix(item.Value, "@")
			} else if len(c.env.People) == 0 {
				hint = "write user:NAME, or add `people: {\"" + item.Value + "\": {users: [NAME]}}` to it"
			}
			c.src.Errorf(item, "person", hint, "the environment `%s` has no people `%s`", c.env.Name, item.Value)
		}
	}
}
