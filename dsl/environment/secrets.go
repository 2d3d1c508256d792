package environment

import (
	"maps"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/address"
	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/shell"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/nearest"
)

// MissingSecret reports the name of a secret that the environment does not have.
func MissingSecret(src *document.Source, n *yaml.Node, env *spec.Environment, name string) {
	hint := nearest.Hint(name, slices.Collect(maps.Keys(env.Secrets)))
	if len(env.Secrets) == 0 {
		hint = "add it there: `secrets: {" + name + ": {env: VARIABLE}}`"
	}
	src.Errorf(n, "secret", hint, "the environment `%s` has no secret `%s`", env.Name, name)
}

// vaultKey is a key of a secret in Vault's KV version 2.
var vaultKey = regexp.MustCompile(`^[^/#\s]+(/[^/#\s]+)+#[^#\s]+$`)

// checkSecrets reports what types alone do not say of an environment's secrets, people and mail server.
func checkSecrets(src *document.Source, root *yaml.Node, env *spec.Environment) {
	for key, n := range document.Entries(root, "secrets") {
		kind := decode.ExactlyOne[spec.SecretSource](src, key, n, "a secret")
		at := document.Lookup(n, kind)
		switch {
		case kind == "" || at.Kind != yaml.ScalarNode:
		case at.Value == "":
			src.Errorf(at, "required", "", "`%s` of the secret `%s` is empty", kind, key.Value)
		case kind == "env" && !shell.IsVariable(at.Value):
			src.Errorf(at, "name", "use letters, digits and `_`, not beginning with a digit", "%q is not a valid name for an environment variable", at.Value)
		case kind == "vault" && !vaultKey.MatchString(at.Value):
			src.Errorf(at, "vault", "write mount/path#key, such as kv/ml/warehouse#dsn", "%q does not name a key in Vault", at.Value)
		}
	}
	if n := document.Lookup(root, "vault"); n != nil && n.Kind == yaml.MappingNode {
		if at := document.Lookup(n, "address"); at != nil && at.Kind == yaml.ScalarNode && !address.IsWeb(at.Value) {
			src.Errorf(at, "url", "write http://HOST or https://HOST", "%q is not an address", at.Value)
		}
		if document.Lookup(n, "auth") != nil {
			decode.ExactlyOne[spec.VaultAuth](src, document.KeyNode(n, "auth"), document.Lookup(n, "auth"), "`auth`")
		}
	}
	for key, n := range document.Entries(root, "people") {
		if strings.HasPrefix(key.Value, "user:") {
			src.Errorf(key, "person", "write group:NAME", "`%s` is a user, whom `who` can list directly", key.Value)
		}
		decode.ExactlyOne[spec.Person](src, key, n, "a name for a group")
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
		MissingSecret(src, n, env, n.Value)
	}
}

func checkSMTP(src *document.Source, n *yaml.Node, env *spec.Environment) {
	if n == nil || n.Kind != yaml.MappingNode {
		return
	}
	if at := document.Lookup(n, "from"); at != nil && at.Kind == yaml.ScalarNode && !address.IsMail(at.Value) {
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
