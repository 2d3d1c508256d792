package embedded

import (
	"context"
	"log/slog"
	"net/url"
	"strconv"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/servingtest"
	"github.com/sluiceml/sluice/store"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

func TestConformance(t *testing.T) {
	servingtest.Run(t, func(t *testing.T, s *store.Store) servingtest.Harness {
		server := serve(t, s, 0)
		address, err := url.Parse(server.URL())
		if err != nil {
			t.Fatal(err)
		}
		port, err := strconv.Atoi(address.Port())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { stop(t, server) })
		target := gateway.NewTarget(s, servingtest.Name, server.URL())
		t.Cleanup(target.Close)
		return servingtest.Harness{
			Target: target,
			Restart: func(t *testing.T) {
				stop(t, server)
				server = serve(t, s, port)
			},
		}
	})
}

func serve(t *testing.T, s *store.Store, port int) *gateway.Server {
	t.Helper()
	server, err := Serve(t.Context(), s, servingtest.Name, port, t.TempDir(), "", slog.New(slog.DiscardHandler))
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
