package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/serving/embedded"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/store"
)

// targetsFile remembers which embedded targets the state folder serves, so that a holder that restarts serves them again before any
// run asks for it.
const targetsFile = "targets.json"

// closeTimeout is how long requests under way may take when a process ends.
const closeTimeout = 5 * time.Second

// Gateways are the embedded targets this process serves, each on a port of its own on loopback.
type Gateways struct {
	store *store.Store
	state string
	log   *slog.Logger

	mu     sync.Mutex
	served map[string]*gateway.Server
	ports  map[string]int // as the environments gave them
}

// NewGateways serves nothing yet.
func NewGateways(s *store.Store, state string, log *slog.Logger) *Gateways {
	return &Gateways{store: s, state: state, log: log, served: map[string]*gateway.Server{}, ports: map[string]int{}}
}

// Serve serves a target, if it is not served already, and returns where. An environment that names another port moves it there.
func (g *Gateways) Serve(ctx context.Context, target string, spec dsl.EmbeddedTarget) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	old := g.served[target]
	if old != nil && g.ports[target] == spec.Port {
		return old.URL(), nil
	}
	if err := g.start(ctx, target, spec.Port); err != nil {
		return "", err
	}
	if old != nil {
		ctx, cancel := context.WithTimeout(ctx, closeTimeout)
		defer cancel()
		if err := old.Close(ctx); err != nil {
			g.log.Warn("the target's old port", "target", target, "url", old.URL(), "error", err)
		}
	}
	return g.served[target].URL(), g.remember()
}

// start listens and serves; the caller holds the lock.
func (g *Gateways) start(ctx context.Context, target string, port int) error {
	dir := filepath.Join(g.state, "gateway", target, strconv.Itoa(port))
	s, err := embedded.Serve(ctx, g.store, target, port, dir, g.log)
	if err == nil {
		g.served[target], g.ports[target] = s, port
	}
	return err
}

// Addresses returns the URL of every target served, by name.
func (g *Gateways) Addresses() map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[string]string, len(g.served))
	for target, s := range g.served {
		all[target] = s.URL()
	}
	return all
}

// remember writes targetsFile; the caller holds the lock.
func (g *Gateways) remember() error {
	raw, err := json.Marshal(g.ports)
	if err != nil {
		return err
	}
	path := filepath.Join(g.state, targetsFile)
	f, err := os.OpenFile(path+".new", os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err == nil {
		_, err = f.Write(raw)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return fmt.Errorf("remember the targets: %w", err)
	}
	return nil
}

// Restore serves what was served when the state folder was last held, as far as it can: the error tells of every target that it
// could not serve, such as one whose port is taken meanwhile.
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
	maps.Copy(g.ports, ports) // also of those that cannot be served now
	var errs []error
	for _, target := range slices.Sorted(maps.Keys(ports)) {
		errs = append(errs, g.start(ctx, target, ports[target]))
	}
	return errors.Join(errs...)
}

// Close ends every gateway; requests under way are answered first, for a few seconds.
func (g *Gateways) Close() error {
	g.mu.Lock()
	defer g.mu.Unlock()
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	var errs []error
	for _, s := range g.served {
		errs = append(errs, s.Close(ctx))
	}
	clear(g.served)
	return errors.Join(errs...)
}
