package gateway

import (
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/stats"
	"github.com/sluiceml/sluice/store"
)

func TestAGatewayThatIsNotThere(t *testing.T) {
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	target := NewTarget(s, "m", "http://127.0.0.1:1", "http://127.0.0.1:1")
	if _, err := target.Stats(t.Context()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("Stats = %v, want ErrUnavailable", err)
	}
}

// TestTargetsShareConnections: a rollout opens its target for each look.
func TestTargetsShareConnections(t *testing.T) {
	var connections atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { oip.WriteJSON(w, http.StatusOK, stats.Snapshot{}) }))
	server.Config.ConnState = func(_ net.Conn, state http.ConnState) {
		if state == http.StateNew {
			connections.Add(1)
		}
	}
	server.Start()
	defer server.Close()
	for range 3 {
		if _, err := NewTarget(nil, "m", server.URL, server.URL).Stats(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := connections.Load(); n != 1 {
		t.Errorf("%d connections for three looks, one after the other, want 1", n)
	}
}
