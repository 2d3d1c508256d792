package environment

import (
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/decode"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/shell"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/suggest"
)

// MissingSecret reports the name of a secret that the environment does not have.
func MissingSecret(src *document.Source, n *yaml.Node, env *spec.Environment, name string) {
	hint := suggest.Hint(name, slices.Collect(maps.Keys(env.Secrets)))
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
		case kind == "" || at.Kind != yaml.ScalarNode || at.Tag == "!!null" || strings.Contains(at.Value, "${"):
		case at.Value == "":
			src.Errorf(at, "required", "", "`%s` of the secret `%s` is empty", kind, key.Value)
		case kind == "env" && !shell.IsVariable(at.Value):
			hint := "use letters, digits and `_`, not beginning with a digit"
			if near := strings.TrimPrefix(at.Value, "$"); shell.IsVariable(near) {
				hint = "write " + near
			}
			src.Errorf(at, "name", hint, "%q is not a valid name for an environment variable", at.Value)
		case kind == "file":
			noTilde(src, at)
		case kind == "vault" && !vaultKey.MatchString(at.Value):
			src.Errorf(at, "vault", "write mount/path#key, such as kv/ml/warehouse#dsn", "%q does not name a key in Vault", at.Value)
		case kind == "vault":
			if mount, path, _ := strings.Cut(at.Value, "/"); strings.HasPrefix(path, "data/") {
				src.Warnf(at, "vault", "write "+mount+"/"+strings.TrimPrefix(path, "data/"), "Sluice itself adds the `data/` of Vault's API to the path")
			}
		}
	}
	if n := document.Lookup(root, "vault"); n != nil && n.Kind == yaml.MappingNode {
		checkVault(src, n)
	}
	for key, n := range document.Entries(root, "people") {
		if strings.HasPrefix(key.Value, "user:") {
			src.Errorf(key, "person", "write group:NAME", "`%s` is a user, whom `who` can list directly", key.Value)
		}
		decode.ExactlyOne[spec.Person](src, key, n, "a name for a group")
		checkUsers(src, key.Value, document.Lookup(n, "users"))
	}
	checkSMTP(src, document.Lookup(root, "smtp"), env)
	for _, pool := range document.Entries(root, "pools") {
		for _, login := range document.Entries(pool, "ec2", "registries") {
			checkPassword(src, document.Lookup(login, "password_secret"), env)
		}
	}
}

// noTilde reports a path that only a shell would complete.
func noTilde(src *document.Source, at *yaml.Node) {
	if at != nil && at.Kind == yaml.ScalarNode && strings.HasPrefix(at.Value, "~") {
		src.Errorf(at, "path", "write the path from the root of the file system", "no shell reads %q, so `~` is not replaced by a home folder", at.Value)
	}
}

// apiPath is that of Vault's API, or of its pages.
var apiPath = regexp.MustCompile(`/(v1|ui)(/.*)?$`)

func checkVault(src *document.Source, n *yaml.Node) {
	switch at := document.Lookup(n, "address"); {
	case at == nil || at.Kind != yaml.ScalarNode:
	case !IsWeb(at.Value):
		src.Errorf(at, "url", "write http://HOST or https://HOST", "%q is not an address", at.Value)
	case apiPath.MatchString(at.Value):
		src.Warnf(at, "url", "write "+apiPath.ReplaceAllString(at.Value, ""), "/v1 and the path of a secret are added to the address of Vault")
	case !IsOwnOrEncrypted(at.Value):
		src.Errorf(at, "url", "use https", "a token for %q would not be encrypted, and is refused: http is only allowed on this machine", at.Value)
	}
	if auth := document.Lookup(n, "auth"); auth != nil {
		decode.ExactlyOne[spec.VaultAuth](src, document.KeyNode(n, "auth"), auth, "`auth`")
		noTilde(src, document.Lookup(auth, "token_file"))
	}
}

// checkUsers reports a group in which nobody is, or no user.
func checkUsers(src *document.Source, group string, n *yaml.Node) {
	if n != nil && n.Kind == yaml.SequenceNode && len(n.Content) == 0 {
		src.Warnf(n, "person", "write for example `users: [anna]`", "nobody is in `%s`, so nobody could decide", group)
	}
	for _, user := range document.Items(n) {
		switch name := strings.TrimPrefix(user.Value, "user:"); {
		case user.Kind != yaml.ScalarNode || user.Tag == "!!null":
		case strings.Contains(name, ","):
			src.Errorf(user, "person", "write ["+name+"]", "%q is not the name of a user", name)
		case name == "":
			src.Errorf(user, "person", "write the name of a user", "a user of `%s` has no name", group)
		case strings.HasPrefix(name, "group:"):
			src.Errorf(user, "person", "list its users here, or list both groups in `who`", "a group cannot be in another: `%s` is not a user", name)
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
	if at := document.Lookup(n, "from"); at != nil && at.Kind == yaml.ScalarNode && !IsMail(at.Value) {
		src.Errorf(at, "address", "write NAME@HOST", "%q is not an address", at.Value)
	}
	if at := document.Lookup(n, "host"); at != nil && notHost.MatchString(at.Value) {
		src.Errorf(at, "address", "write the name of the host, and its port as `port`", "%q is not the name of a host", at.Value)
	}
	checkMailTLS(src, n, env.SMTP)
	password := document.Lookup(n, "password_secret")
	if password == nil {
		if document.Lookup(n, "user") != nil && !decode.HasUnknownKey(n, reflect.TypeFor[spec.SMTP]()) {
			src.Warnf(document.KeyNode(n, "user"), "required", "add `password_secret: NAME`, or remove `user`", "`user` is set, but `password_secret` is not: the login would have no password")
		}
		return
	}
	checkPassword(src, password, env)
	if document.Lookup(n, "user") == nil {
		src.Errorf(document.KeyNode(n, "password_secret"), "required", "add `user: NAME`", "`password_secret` is set, but `user` is not")
	}
}

// notHost is what has more than the name or the address of a host.
var notHost = regexp.MustCompile(`[/@\s]|^[^:]*:\d*$`)

// checkMailTLS reports a login that would send a password unencrypted, and warns of a port at which the server expects something else.
func checkMailTLS(src *document.Source, n *yaml.Node, smtp spec.SMTP) {
	const submission, implicit, plain = 587, 465, 25
	own := smtp.Host == "localhost" || smtp.Host == "127.0.0.1" || smtp.Host == "::1"
	switch at := document.PlaceOf(n, "tls"); {
	case smtp.TLS == "none" && smtp.User != "" && smtp.Host != "" && !own:
		src.Errorf(at, "address", "write `tls: starttls`, or remove `user`", "a password is only sent to %q over TLS", smtp.Host)
	case smtp.TLS == "starttls" && smtp.Port == implicit:
		src.Warnf(document.PlaceOf(n, "port"), "port", "write `tls: tls`, or `port: 587`", "a server encrypts port 465 from the first byte, and `starttls` expects it to begin without")
	case smtp.TLS == "tls" && (smtp.Port == submission || smtp.Port == plain):
		src.Warnf(at, "port", "write `port: 465`, or `tls: starttls`", "a server does not encrypt port %d from the first byte", smtp.Port)
	}
}
