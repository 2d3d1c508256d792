package protocol

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestConfigTravelsInTheEnvironment(t *testing.T) {
	want := AgentConfig{
		Address: "127.0.0.1:7233", Namespace: "default", Token: "secret", CodecKeys: "/keys", Store: "file:///s", Queue: "node/r/s/g1/0-x",
		Dir: "/node", LogDir: "/logs", Host: "127.0.0.1", CPUs: 3, GPUs: []string{"GPU-a", "GPU-b"}, PythonEnv: "/venv", Requirements: "r.txt", GPUHelper: "/gpu",
		Cache: "/cache", CacheLimit: 50 << 30,
		Sluice: "/bin/sluice", ONNXRuntime: "/lib/onnx.so",
	}
	environ := want.Environ([]string{"HOME=/root", "TEMPORAL_API_KEY=k", "SLUICE_TEMPORAL_TOKEN=other", "PET_NNODES=2"})
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		t.Setenv(name, value)
		if strings.HasPrefix(kv, "TEMPORAL_") || strings.HasPrefix(kv, "PET_") {
			t.Errorf("the agent inherits %s", kv)
		}
	}
	if without := (AgentConfig{}).Environ([]string{"TEMPORAL_API_KEY=k"}); !slices.Contains(without, "TEMPORAL_API_KEY=k") {
		t.Errorf("an agent without a token cannot connect: %v", without)
	}
	got, err := AgentConfigFromEnv()
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("config (-want +got):\n%s", diff)
	}
	t.Setenv(QueueVariable, "")
	t.Setenv(envStore, "")
	if _, err := AgentConfigFromEnv(); err == nil || !strings.Contains(err.Error(), envStore+", "+QueueVariable) {
		t.Errorf("an environment without queue and store: %v, want both named", err)
	}
}
