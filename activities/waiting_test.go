package activities

import (
	"context"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
)

// TestSecretsWaitForVault: a Vault that is away is asked until it is back, beyond the tries that one request gets.
func TestSecretsWaitForVault(t *testing.T) {
	var left atomic.Int64 // how many requests are not answered
	left.Store(5)         // more than are made for one answer
	vault := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		if left.Add(-1) >= 0 {
			w.WriteHeader(http.StatusServiceUnavailable)
			return
		}
		if _, err := w.Write([]byte(`{"data": {"data": {"dsn": "postgres://"}}}`)); err != nil {
			t.Error(err)
		}
	}))
	defer vault.Close()
	token := filepath.Join(t.TempDir(), "token")
	if err := os.WriteFile(token, []byte("t"), 0o600); err != nil {
		t.Fatal(err)
	}
	place := &spec.Environment{
		Name: "test", Vault: spec.Vault{Address: vault.URL, Auth: spec.VaultAuth{TokenFile: token}},
		Secrets: map[string]spec.SecretSource{"warehouse": {Vault: "kv/ml#dsn"}},
	}
	env := flowtest.Activities()
	resolve := func(ctx context.Context) (string, error) {
		values, err := resolveSecrets(ctx, secret.NewResolver(), place, map[string]string{"DSN": "warehouse"})
		return values.ByVariable["DSN"], err
	}
	env.RegisterActivity(resolve)
	value, err := env.ExecuteActivity(resolve)
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := value.Get(&got); err != nil || got != "postgres://" {
		t.Errorf("the step got %q, %v", got, err)
	}
}
