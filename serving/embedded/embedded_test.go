package embedded

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/plan"
	"github.com/sluiceml/sluice/serving/servingtest"
	"github.com/sluiceml/sluice/store"
)

func TestMain(m *testing.M) {
	if storeURL := os.Getenv(replicaVariable); storeURL != "" {
		os.Exit(replicaMain(storeURL))
	}
	goleak.VerifyTestMain(m)
}

// promise: docs/kserve.md#p-ks-same-rollout
// promise: docs/operations.md#p-dies-gateway
func TestConformance(t *testing.T) {
	servingtest.Run(t, func(t *testing.T, s *store.Store) servingtest.Harness {
		server := serve(t, s, gateway.Ports{})
		ports := servingtest.Ports(t, server)
		t.Cleanup(func() { stop(t, server) })
		target := gateway.NewTarget(s, servingtest.Name, server.URL(), server.ControlURL())
		return servingtest.Harness{
			Target: target,
			Restart: func(t *testing.T) {
				stop(t, server)
				server = serve(t, s, ports)
			},
		}
	})
}

// TestEngineIsRefused: a release that only a GPU can serve does not look like one that has lost its model.
//
// promise: docs/compile.md#p-embedded-no-engine
func TestEngineIsRefused(t *testing.T) {
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, plan.File), []byte("engine"), 0o600); err != nil {
		t.Fatal(err)
	}
	const want = "the model is a TensorRT engine, which only a server with a GPU can load"
	if _, err := load(t.Context(), dir); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%v, want %q", err, want)
	}
}

func serve(t *testing.T, s *store.Store, ports gateway.Ports) *gateway.Server {
	t.Helper()
	server, err := Serve(t.Context(), s, servingtest.Name, ports, t.TempDir(), "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	return server
}

func stop(t *testing.T, server *gateway.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := server.Close(ctx); err != nil {
		t.Error(err)
	}
}
