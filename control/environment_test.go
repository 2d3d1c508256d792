package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/connect/state"
)

// TestSettleStore: the first environment that names a store settles where a state folder's runs are kept; one that names another is told
// where to go.
func TestSettleStore(t *testing.T) {
	t.Setenv(state.StoreVariable, "")
	one, other := "file://"+t.TempDir(), "file://"+t.TempDir()
	pipeline := pipelineIn(t, map[string]string{
		"one.yaml":    "sluice: environment/v1\nname: one\nstore: {url: \"" + one + "\"}\n",
		"other.yaml":  "sluice: environment/v1\nname: other\nstore: {url: \"" + other + "\"}\n",
		"none.yaml":   "sluice: environment/v1\nname: none\n",
		"broken.yaml": "sluice: environment/v1\nname: broken\nstore: {url: \"s3://acme?endpoint=http://127.0.0.1:1\"}\n",
	})
	request := func(env string) *SubmitRequest {
		if env == "" {
			return &SubmitRequest{PipelineFile: pipeline}
		}
		return &SubmitRequest{PipelineFile: pipeline, EnvFile: filepath.Join(filepath.Dir(pipeline), env)}
	}
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "hidden")
	t.Setenv("AWS_MAX_ATTEMPTS", "1")
	stateDir := filepath.Join(t.TempDir(), "state")
	own := "file://" + filepath.Join(stateDir, "store")
	for _, step := range []struct{ env, variable, fails, then string }{
		{"none.yaml", "", "", own},
		{"broken.yaml", "", "no response from http://127.0.0.1:1", own},
		{"one.yaml", other, "unset SLUICE_STORE, or set SLUICE_STORE=" + one, own},
		{"other.yaml", other, "", own},
		{"one.yaml", "", "", one},
		{"one.yaml", "", "", one},
		{"", "", "", one},
		{"none.yaml", "", "", one},
		{"other.yaml", "", "selects the store " + other + ", but the runs of the state folder " + stateDir + " are kept in " + one, one},
	} {
		t.Setenv(state.StoreVariable, step.variable)
		err := SettleStore(t.Context(), stateDir, request(step.env))
		if (err != nil) != (step.fails != "") || err != nil && !strings.Contains(err.Error(), step.fails) {
			t.Errorf("%s with %q: %v, want %q", step.env, step.variable, err, step.fails)
		}
		t.Setenv(state.StoreVariable, "")
		if got, err := state.StoreURL(stateDir); got != step.then || err != nil {
			t.Errorf("after %s runs are kept in %s, %v, want %s", step.env, got, err, step.then)
		}
	}

	used := t.TempDir()
	if err := os.Mkdir(filepath.Join(used, "store"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := SettleStore(t.Context(), used, request("one.yaml")); err == nil || !strings.Contains(err.Error(), "--state "+used+"-NAME") {
		t.Errorf("a state folder with runs of its own: %v", err)
	}
}
