package spec

import "strings"

// TargetGateway is the front door of a target's gateways: where they listen, who may ask for what, and what is noted of it.
type TargetGateway struct {
	// Listen is the IP address at which the model is served. Default 127.0.0.1, or the address of `sluice worker --serve-listen`. One that
	// is not of loopback needs `keys`, `jwt` or `client_ca`, or `open`.
	Listen string `json:"listen,omitempty"`
	// Open lets everyone who reaches `listen` ask the model, without a key.
	Open bool `json:"open,omitempty"`
	// MetricsListen is the IP address of `metrics_port`. Default 127.0.0.1. At another one `metrics` must be allowed to who asks, or `open` set.
	MetricsListen string `json:"metrics_listen,omitempty"`
	// AdminPort is the port of the gateway's state and of the repository API, on loopback. Default: any free port.
	AdminPort int `json:"admin_port,omitempty" dsl:"min=1,max=65535"`
	// TLS encrypts the connections to the model, REST and gRPC, and to `metrics_listen`.
	TLS *GatewayTLS `json:"tls,omitempty"`
	// Keys are API keys: who sends one may do what it allows.
	Keys []GatewayKey `json:"keys,omitempty"`
	// JWT are rules for signed tokens, such as those of an identity provider or of Kubernetes. What the rules allow that a token meets adds up.
	JWT []GatewayJWT `json:"jwt,omitempty"`
	// AccessLog is the absolute path of a file to which a line of JSON is appended for each request, or "-" for the standard output of `sluice
	// serve`. Default: none.
	AccessLog string `json:"access_log,omitempty"`
}

// StandardOutput in the place of a file is that of `sluice serve`.
const StandardOutput = "-"

// GatewayTLS are files in PEM, by absolute paths. Renewed files are used by the next connections, without a restart.
type GatewayTLS struct {
	// Certificate of the gateway, with the intermediate ones after it.
	Certificate string `json:"certificate"`
	// Key of the certificate.
	Key string `json:"key"`
	// ClientCA are the certificates of authorities. With it, clients need a certificate of one of them for all but health checks.
	ClientCA string `json:"client_ca,omitempty"`
}

// GatewayKey is an API key, which clients send as `Authorization: Bearer KEY`.
type GatewayKey struct {
	// Secret names the secret of the environment with the key; 16 bytes or longer.
	Secret string `json:"secret"`
	// Allow is what who sends it may do: `infer` asks the model, also for its metadata; `label` sends labels along; `metrics` reads the
	// metrics; `admin` uses the repository API at the model's port.
	Allow []string `json:"allow" dsl:"single,enum=infer|label|metrics|admin"`
}

// GatewayJWT says what a token allows that is signed with RS256, ES256 or EdDSA by a key of the issuer.
type GatewayJWT struct {
	// Issuer is the token's claim `iss`.
	Issuer string `json:"issuer"`
	// Audience is in the token's claim `aud`.
	Audience string `json:"audience"`
	// JWKS has the issuer's public keys: an https URL, or the absolute path of a file.
	JWKS string `json:"jwks"`
	// Claims are further claims that the token must have: the value itself, one of a list, or one of the words of `scope` or `scp`.
	Claims map[string]string `json:"claims,omitempty"`
	// Allow is what who sends the token may do, as in `keys`.
	Allow []string `json:"allow" dsl:"single,enum=infer|label|metrics|admin"`
}

// IsLoopback reports whether an address is one that only this machine reaches; the empty one is.
func IsLoopback(address string) bool {
	return address == "" || address == "localhost" || address == "::1" || strings.HasPrefix(address, "127.") && strings.Trim(address, "0123456789.") == ""
}

// Restricted reports whether clients must prove who they are.
func (g TargetGateway) Restricted() bool {
	return len(g.Keys) > 0 || len(g.JWT) > 0 || g.TLS != nil && g.TLS.ClientCA != ""
}

// ServedTarget is a target with the sources of the secrets that it names, for those who serve it without its environment.
type ServedTarget struct {
	Target
	Secrets map[string]SecretSource `json:"secrets,omitempty"`
	Vault   Vault                   `json:"vault,omitzero"`
}

// Serve returns a target of the environment for those who serve it.
func (e *Environment) Serve(target string) ServedTarget {
	served := ServedTarget{Target: e.Targets[target]}
	for _, key := range served.Gateway.Keys {
		source, ok := e.Secrets[key.Secret]
		if !ok {
			continue // which is found when it is read
		}
		if served.Secrets == nil {
			served.Secrets = map[string]SecretSource{}
		}
		served.Secrets[key.Secret] = source
		if source.Vault != "" {
			served.Vault = e.Vault
		}
	}
	return served
}
