package pipelines_test

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/pipelines"
)

// The child gets no secret of the process that starts it, but for the keys of buckets that it reads.
func TestChildEnviron(t *testing.T) {
	web := httptest.NewServer(http.NotFoundHandler())
	t.Cleanup(web.Close)
	input := write(t, map[string]string{"in": "{}\n"})
	secrets := []string{
		"TEMPORAL_API_KEY", "TEMPORAL_TLS_CLIENT_KEY_DATA", "TEMPORAL_GRPC_META_AUTHORIZATION", "VAULT_TOKEN", "SLUICE_CODEC_KEYS",
		"SLUICE_TEMPORAL_TOKEN", "SMTP_PASSWORD", "WHATEVER",
	}
	t.Setenv("AWS_SECRET_ACCESS_KEY", "value of a key")
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(web.URL, "http://"))
	t.Setenv("LC_TIME", "C")
	for _, name := range secrets {
		t.Setenv(name, "value of a secret")
	}
	for name, test := range map[string]struct {
		path string
		keys bool
	}{
		"folder": {input + "/*", false},
		"bucket": {"gs://acme/in/*.jsonl?anonymous=true", true},
	} {
		t.Run(name, func(t *testing.T) {
			exe := childWith(t)
			_, err := pipelines.Run(t.Context(), exe, job(t.TempDir(), chain(t, test.path, fromJSON)), nil)
			if (err != nil) != test.keys { // there is no such bucket
				t.Fatal(err)
			}
			text, err := os.ReadFile(filepath.Join(filepath.Dir(exe), environFile))
			if err != nil {
				t.Fatal(err)
			}
			env := "\n" + string(text) + "\n"
			if strings.Contains(env, "value of a secret") {
				t.Errorf("the child has secrets:%s", env)
			}
			for _, want := range []string{"PATH", "HOME", "LC_TIME"} {
				if !strings.Contains(env, "\n"+want+"=") {
					t.Errorf("the child has no %s:%s", want, env)
				}
			}
			if got := strings.Contains(env, "value of a key"); got != test.keys {
				t.Errorf("the child has the keys of buckets: %t, want %t", got, test.keys)
			}
		})
	}
}
