package worker

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/training/protocol"
)

func TestAgentEnviron(t *testing.T) {
	dir := t.TempDir()
	certificate := "-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n"
	for name, content := range map[string]string{
		"client.pem":  certificate,
		"config.toml": "[profile.prod]\napi_key = \"k1\"\n[profile.prod.tls]\nclient_cert_path = \"" + filepath.Join(dir, "client.pem") + "\"\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(dir, "config.toml"))
	t.Setenv("TEMPORAL_PROFILE", "prod")
	t.Setenv("TEMPORAL_TLS_SERVER_NAME", "temporal.acme")
	t.Setenv("TEMPORAL_GRPC_META_TEAM", "ml")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "of the worker")

	environ, err := agentEnviron(protocol.AgentConfig{Address: "temporal:7233"})
	if err != nil {
		t.Fatal(err)
	}
	got := slices.DeleteFunc(slices.Clone(environ), func(kv string) bool { return strings.HasPrefix(kv, "SLUICE_") })
	slices.Sort(got)
	want := []string{
		"TEMPORAL_API_KEY=k1", "TEMPORAL_GRPC_META_TEAM=ml", "TEMPORAL_TLS=true", "TEMPORAL_TLS_CLIENT_CERT_DATA=" + certificate,
		"TEMPORAL_TLS_SERVER_NAME=temporal.acme",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("what is not Sluice's (-want +got):\n%s", diff)
	}
	if !slices.Contains(environ, "SLUICE_TEMPORAL_ADDRESS=temporal:7233") {
		t.Errorf("the config is missing in %q", environ)
	}

	environ, err = agentEnviron(protocol.AgentConfig{Token: "t1"})
	if err != nil || slices.ContainsFunc(environ, func(kv string) bool { return !strings.HasPrefix(kv, "SLUICE_") }) {
		t.Errorf("with a token: %q, %v, want the config alone", environ, err)
	}
}
