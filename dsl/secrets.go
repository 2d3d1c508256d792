package dsl

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/nearest"
)

// checkSecret reports a secret that the environment does not have; n is where it is named.
func (c *checker) checkSecret(n *yaml.Node, name string) {
	if c.env == nil || n.Kind != yaml.ScalarNode {
		return
	}
	if _, ok := c.env.Secrets[name]; !ok {
		missingSecret(c.src, n, c.env, name)
	}
}

func missingSecret(src *document.Source, n *yaml.Node, env *spec.Environment, name string) {
	hint := nearest.Hint(name, slices.Collect(maps.Keys(env.Secrets)))
	if len(env.Secrets) == 0 {
		hint = "add it there: `secrets: {" + name + ": {env: VARIABLE}}`"
	}
	src.Errorf(n, "secret", hint, "the environment `%s` has no secret `%s`", env.Name, name)
}

// checkWho reports names that are neither people of the environment nor a user; n is the list of them.
func (c *checker) checkWho(n *yaml.Node) {
	if c.env == nil || n == nil || n.Kind != yaml.SequenceNode {
		return
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
			hint := nearest.Hint(item.Value, slices.Collect(maps.Keys(c.env.People)))
			if !strings.Contains(item.Value, ":") {
				hint = "for a user write user:" + item.Value
			} else if len(c.env.People) == 0 {
				hint = "write user:NAME, or add `people: {\"" + item.Value + "\": {users: [NAME]}}` to it"
			}
			c.src.Errorf(item, "person", hint, "the environment `%s` has no people `%s`", c.env.Name, item.Value)
		}
	}
}

// vaultKey is a key of a secret in Vault's KV version 2.
var vaultKey = regexp.MustCompile(`^[^/#\s]+(/[^/#\s]+)+#[^#\s]+$`)

// checkSecrets reports what types alone do not say of an environment's secrets, people and mail server.
func checkSecrets(src *document.Source, root *yaml.Node, env *spec.Environment) {
	for key, n := range document.Entries(root, "secrets") {
		kind := exactlyOne[spec.SecretSource](src, key, n, "a secret")
		at := document.Lookup(n, kind)
		switch {
		case kind == "" || at.Kind != yaml.ScalarNode:
		case at.Value == "":
			src.Errorf(at, "required", "", "`%s` of the secret `%s` is empty", kind, key.Value)
		case kind == "env" && !variable.MatchString(at.Value):
			src.Errorf(at, "name", "use letters, digits and `_`, not beginning with a digit", "%q is not a valid name for an environment variable", at.Value)
		case kind == "vault" && !vaultKey.MatchString(at.Value):
			src.Errorf(at, "vault", "write mount/path#key, such as kv/ml/warehouse#dsn", "%q does not name a key in Vault", at.Value)
		}
	}
	if n := document.Lookup(root, "vault"); n != nil && n.Kind == yaml.MappingNode {
		if at := document.Lookup(n, "address"); at != nil && at.Kind == yaml.ScalarNode && !isWebURL(at.Value) {
			src.Errorf(at, "url", "write http://HOST or https://HOST", "%q is not an address", at.Value)
		}
		if document.Lookup(n, "auth") != nil {
			exactlyOne[spec.VaultAuth](src, document.KeyNode(n, "auth"), document.Lookup(n, "auth"), "`auth`")
		}
	}
	for key, n := range document.Entries(root, "people") {
		if strings.HasPrefix(key.Value, "user:") {
			src.Errorf(key, "person", "write group:NAME", "`%s` is a user, whom `who` can list directly", key.Value)
		}
		exactlyOne[spec.Person](src, key, n, "a name for a group")
	}
	checkSMTP(src, document.Lookup(root, "smtp"), env)
	for _, pool := range document.Entries(root, "pools") {
		for _, login := range document.Entries(pool, "ec2", "registries") {
			checkPassword(src, document.Lookup(login, "password_secret"), env)
		}
	}
}

// checkPassword reports a password_secret, which may be nil, that the environment does not have.
func checkPassword(src *document.Source, n *yaml.Node, env *spec.Environment) {
	if n == nil || n.Kind != yaml.ScalarNode {
		return
	}
	if _, ok := env.Secrets[n.Value]; !ok {
		missingSecret(src, n, env, n.Value)
	}
}

func checkSMTP(src *document.Source, n *yaml.Node, env *spec.Environment) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	if at := document.Lookup(n, "from"); at != nil && at.Kind == yaml.ScalarNode && !mailAddress.MatchString(at.Value) {
		src.Errorf(at, "address", "write NAME@HOST", "%q is not an address", at.Value)
	}
	password := document.Lookup(n, "password_secret")
	if password == nil {
		return
	}
	checkPassword(src, password, env)
	if document.Lookup(n, "user") == nil {
		src.Errorf(document.KeyNode(n, "password_secret"), "required", "add `user: NAME`", "`password_secret` is set, but `user` is not")
	}
}

var variable = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
