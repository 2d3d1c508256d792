package servingtest

import (
	"context"
	"net/url"
	"strconv"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/store"
)

// Harness is a target to test, empty when the suite gets it.
type Harness struct {
	Target *gateway.Target
	// Loaded lists the releases for which something runs; nil where nothing does beside the gateway.
	Loaded func() []string
	// Restart ends what serves and starts it again on the same store and address.
	Restart func(t *testing.T)
}

// Ports returns where a server listens, for one that comes in its place.
func Ports(t *testing.T, server *gateway.Server) gateway.Ports {
	t.Helper()
	port := func(at string) int {
		address, err := url.Parse(at)
		if err != nil {
			t.Fatal(err)
		}
		n, err := strconv.Atoi(address.Port())
		if err != nil {
			t.Fatal(err)
		}
		return n
	}
	return gateway.Ports{Model: port(server.URL()), Control: port(server.ControlURL())}
}

// Open is the harness of a target whose gateway this process starts, and starts again on the same ports.
func Open(t *testing.T, s *store.Store, serve func(ports gateway.Ports) *gateway.Server) Harness {
	t.Helper()
	server := serve(gateway.Ports{})
	ports := Ports(t, server)
	t.Cleanup(func() { Stop(t, server) })
	return Harness{
		Target: gateway.NewTarget(s, Name, server.URL(), server.ControlURL()),
		Restart: func(t *testing.T) {
			t.Helper()
			Stop(t, server)
			server = serve(ports)
		},
	}
}

// Stop ends a gateway.
func Stop(t testing.TB, server *gateway.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stopWithin)
	defer cancel()
	if err := server.Close(ctx); err != nil {
		t.Error(err)
	}
}

const stopWithin = 10 * time.Second

// NewStore is a store that ends with the test.
func NewStore(t testing.TB) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// Until waits until something holds.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for range poll.Every(ctx, 5*time.Millisecond) {
		if holds() {
			return
		}
	}
	t.Fatalf("not in time: %s", what)
}
