package environment

import (
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
)

// ipAddress is what can be the address of an interface: IPv4, IPv6 or localhost. Whether the machine has it is found when it is used.
var ipAddress = regexp.MustCompile(`^(` + octet + `(\.` + octet + `){3}|[0-9a-fA-F]*:[0-9a-fA-F:.]*|localhost)$`)

const octet = `(25[0-5]|2[0-4][0-9]|1?[0-9]{1,2})`

// checkGateway reports a gateway that is open to others without `open: true`, and settings that cannot be used.
func checkGateway(src *document.Source, body *yaml.Node, g spec.TargetGateway, env *spec.Environment) {
	for _, listen := range []struct{ key, address string }{{"listen", g.Listen}, {"metrics_listen", g.MetricsListen}} {
		at := document.Lookup(body, listen.key)
		switch {
		case at == nil || at.Kind != yaml.ScalarNode:
		case !ipAddress.MatchString(listen.address):
			src.Errorf(at, "address", "write an IP address without a port, such as 0.0.0.0", "`%s` is %q", listen.key, listen.address)
		case !spec.IsLoopback(listen.address) && !g.Restricted() && !g.Open && isRead(body):
			src.Errorf(at, "open", "give the gateway `keys`, `jwt` or `tls: {client_ca: ...}`, or set `open: true` if that is meant",
				"everyone who reaches %s could use the gateway", listen.address)
		}
	}
	if at := document.Lookup(body, "open"); g.Open && g.Restricted() {
		src.Errorf(at, "open", "remove it, or the keys", "`open: true` has no effect: a caller without a key, a token or a certificate is refused")
	}
	if at := document.Lookup(body, "metrics_listen"); at != nil && !spec.IsLoopback(g.MetricsListen) && len(g.Keys)+len(g.JWT) > 0 && !allowsMetrics(g) && isRead(body) {
		src.Warnf(at, "open", "add `metrics` to an `allow`", "nobody may read the metrics at %s: no key and no token allows it", g.MetricsListen)
	}
	if g.TLS != nil {
		for key, file := range map[string]string{"certificate": g.TLS.Certificate, "key": g.TLS.Key, "client_ca": g.TLS.ClientCA} {
			absolute(src, document.Lookup(body, "tls", key), file)
		}
	}
	checkAccessLog(src, document.Lookup(body, "access_log"), g.AccessLog)
	named := map[string]bool{}
	for i, key := range g.Keys {
		checkAllow(src, document.Lookup(body, "keys", i, "allow"))
		at := document.Lookup(body, "keys", i, "secret")
		if at == nil || at.Kind != yaml.ScalarNode || key.Secret == "" {
			continue
		}
		if _, ok := env.Secrets[key.Secret]; !ok {
			MissingSecret(src, at, env, key.Secret)
		} else if named[key.Secret] {
			src.Errorf(at, "duplicate", "list all that it may do in one `allow`", "the secret `%s` is listed twice", key.Secret)
		}
		named[key.Secret] = true
	}
	for i, jwt := range g.JWT {
		checkAllow(src, document.Lookup(body, "jwt", i, "allow"))
		at := document.Lookup(body, "jwt", i, "jwks")
		switch {
		case !strings.Contains(jwt.JWKS, "://"):
			absolute(src, at, jwt.JWKS)
		case !IsWeb(jwt.JWKS) || !IsOwnOrEncrypted(jwt.JWKS):
			src.Errorf(at, "url", "use https, so that nobody can send other keys", "%q is not an address for keys", jwt.JWKS)
		}
	}
}

// allowsMetrics reports whether a key or a token may read the metrics.
func allowsMetrics(g spec.TargetGateway) bool {
	return slices.ContainsFunc(g.Keys, func(k spec.GatewayKey) bool { return slices.Contains(k.Allow, "metrics") }) ||
		slices.ContainsFunc(g.JWT, func(j spec.GatewayJWT) bool { return slices.Contains(j.Allow, "metrics") })
}

// isRead reports whether what decides who may ask could be read: else it was reported.
func isRead(gateway *yaml.Node) bool {
	open := document.Lookup(gateway, "open")
	for _, key := range []string{"keys", "jwt"} {
		if at := document.Lookup(gateway, key); at != nil && at.Kind != yaml.SequenceNode {
			return false
		}
	}
	return open == nil || open.Tag == "!!bool"
}

// checkAccessLog reports a path that is not absolute, or not a file's.
func checkAccessLog(src *document.Source, at *yaml.Node, file string) {
	switch _, name := path.Split(file); {
	case at == nil || at.Kind != yaml.ScalarNode || at.Tag == "!!null" || file == spec.StandardOutput:
	case name == "" || name == "." || name == ".." || file == "true" || file == "stdout":
		src.Errorf(at, "path", "write for example /var/log/sluice/shop.log, or \"-\" for the standard output of `sluice serve`", "%q is not the path of a file", file)
	default:
		absolute(src, at, file)
	}
}

// checkAllow reports a list of nothing, which would make a key or a token one that everybody refuses.
func checkAllow(src *document.Source, at *yaml.Node) {
	if at != nil && at.Kind == yaml.SequenceNode && len(at.Content) == 0 {
		src.Errorf(at, "required", "write for example `allow: infer`, or remove the entry", "`allow` is empty, so that nothing is allowed")
	}
}

// absolute reports a path that would depend on the folder in which a gateway starts.
func absolute(src *document.Source, at *yaml.Node, file string) {
	if at != nil && at.Kind == yaml.ScalarNode && file != "" && !path.IsAbs(file) {
		src.Errorf(at, "path", "a gateway may be started in any folder", "the path %q is not absolute", file)
	}
}
