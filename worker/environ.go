package worker

import (
	"fmt"
	"os"
	"strconv"
	"strings"

	"go.temporal.io/sdk/contrib/envconfig"

	"github.com/sluiceml/sluice/training/protocol"
)

// agentEnviron is the environment of an agent on another machine: the config, and how this process reaches Temporal where the config has no
// token for it. What this machine has in files (a profile, certificates, keys) is in the environment then.
func agentEnviron(c protocol.AgentConfig) ([]string, error) {
	if c.Token != "" {
		return c.Environ(nil), nil
	}
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{})
	if err != nil {
		return nil, fmt.Errorf("read Temporal's client configuration (TEMPORAL_* variables and profile file): %w", err)
	}
	variables, err := variablesOf(profile)
	if err != nil {
		return nil, err
	}
	return c.Environ(variables), nil
}

// variablesOf says in variables all that a profile says.
func variablesOf(p envconfig.ClientConfigProfile) ([]string, error) {
	var found []string
	add := func(name, value string) {
		if value != "" {
			found = append(found, "TEMPORAL_"+name+"="+value)
		}
	}
	add("API_KEY", p.APIKey)
	add("CLIENT_AUTHORITY", p.Authority)
	for key, value := range p.GRPCMeta {
		add("GRPC_META_"+strings.ToUpper(strings.ReplaceAll(key, "-", "_")), value)
	}
	if p.TLS == nil {
		return found, nil
	}
	add("TLS", strconv.FormatBool(!p.TLS.Disabled))
	add("TLS_SERVER_NAME", p.TLS.ServerName)
	if p.TLS.DisableHostVerification {
		add("TLS_DISABLE_HOST_VERIFICATION", "true")
	}
	for _, pem := range []struct {
		name, path string
		data       []byte
	}{
		{"TLS_CLIENT_CERT_DATA", p.TLS.ClientCertPath, p.TLS.ClientCertData},
		{"TLS_CLIENT_KEY_DATA", p.TLS.ClientKeyPath, p.TLS.ClientKeyData},
		{"TLS_SERVER_CA_CERT_DATA", p.TLS.ServerCACertPath, p.TLS.ServerCACertData},
	} {
		if pem.path != "" {
			var err error
			if pem.data, err = os.ReadFile(pem.path); err != nil {
				return nil, fmt.Errorf("what Temporal's client configuration names: %w", err)
			}
		}
		add(pem.name, string(pem.data))
	}
	return found, nil
}
