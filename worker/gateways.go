package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx"
	"github.com/sluiceml/sluice/store"
)

// targetsFile remembers which embedded targets the state folder serves, so that a holder that restarts serves them again before any
// run asks for it.
const targetsFile = "targets.json"

// Gateways are the embedded targets this process serves, each on a port of its own on loopback.
type Gateways struct {
	store *store.Store
	state string
	log   *slog.Logger

	mu     sync.Mutex
	served map[string]*served
}

// served is one target's gateway and its listener.
type served struct {
	gateway *gateway.Gateway
	server  *http.Server
	port    int
}

// NewGateways serves nothing yet.
func NewGateways(s *store.Store, state string, log *slog.Logger) *Gateways {
	return &Gateways{store: s, state: state, log: log, served: map[string]*served{}}
}

// Serve serves a target, if it is not served already, and returns where.
func (g *Gateways) Serve(ctx context.Context, target string, spec dsl.EmbeddedTarget) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if s := g.served[target]; s != nil {
		return url(s.port), nil
	}
	if err := g.start(ctx, target, spec.Port); err != nil {
		return "", err
	}
	return url(g.served[target].port), g.remember()
}

// start listens and serves; the caller holds the lock.
func (g *Gateways) start(ctx context.Context, target string, port int) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", "127.0.0.1:"+strconv.Itoa(port))
	if err != nil {
		return fmt.Errorf("serve target %s: port %d cannot be listened on: %w: free it, or give the target another `port` in the environment",
			target, port, err)
	}
	gate, err := gateway.New(gateway.Options{
		Store: g.store, Target: target, Load: loadONNX, Logger: g.log,
		Dir: filepath.Join(g.state, "gateway", target),
	})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	s := &served{
		gateway: gate, server: &http.Server{Handler: gate, ReadHeaderTimeout: 10 * time.Second},
		port: listener.Addr().(*net.TCPAddr).Port,
	}
	g.served[target] = s
	go func() {
		if err := s.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			g.log.Error("a gateway has stopped", "target", target, "error", err)
		}
	}()
	return nil
}

// loadONNX is the gateways' loader: a model artifact is a folder with one ONNX file.
func loadONNX(_ context.Context, dir string) (gateway.Upstream, error) {
	file, err := onnx.ModelFile(dir)
	if err != nil {
		return nil, err
	}
	return onnx.Open(file, onnx.Options{})
}

func url(port int) string { return "http://127.0.0.1:" + strconv.Itoa(port) }

// Addresses returns the URL of every target served, by name.
func (g *Gateways) Addresses() map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[string]string, len(g.served))
	for target, s := range g.served {
		all[target] = url(s.port)
	}
	return all
}

// remember writes targetsFile; the caller holds the lock.
func (g *Gateways) remember() error {
	ports := make(map[string]int, len(g.served))
	for target, s := range g.served {
		ports[target] = s.port
	}
	raw, err := json.Marshal(ports)
	if err != nil {
		return err
	}
	path := filepath.Join(g.state, targetsFile)
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		return fmt.Errorf("remember the targets: %w", err)
	}
	return os.Rename(path+".new", path)
}

// Restore serves what was served when the state folder was last held. A port that is taken meanwhile is logged and does not keep
// Sluice from starting: a run that needs the target says so itself.
func (g *Gateways) Restore(ctx context.Context) error {
	raw, err := os.ReadFile(filepath.Join(g.state, targetsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	} else if err != nil {
		return fmt.Errorf("read the targets: %w", err)
	}
	var ports map[string]int
	if err := json.Unmarshal(raw, &ports); err != nil {
		return fmt.Errorf("read the targets: %s: %w", targetsFile, err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, target := range slices.Sorted(maps.Keys(ports)) {
		if err := g.start(ctx, target, ports[target]); err != nil {
			g.log.Error("a target is not served", "target", target, "error", err)
		}
	}
	return nil
}

// Close ends every gateway; requests under way are answered first, for a few seconds.
func (g *Gateways) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Second)
	defer cancel()
	var errs []error
	for _, s := range g.served {
		if err := s.server.Shutdown(ctx); err != nil {
			errs = append(errs, s.server.Close())
		}
		errs = append(errs, s.gateway.Close())
	}
	g.served = map[string]*served{}
	return errors.Join(errs...)
}
