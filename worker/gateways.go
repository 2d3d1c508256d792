package worker

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/google/renameio/v2"

	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/serving/access"
	"github.com/sluiceml/sluice/serving/door"
	"github.com/sluiceml/sluice/serving/embedded"
	"github.com/sluiceml/sluice/serving/external"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/kserve"
	"github.com/sluiceml/sluice/serving/process"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/triton"
	"github.com/sluiceml/sluice/store"
)

// retryEvery spaces tries to serve a target that could not be served when the folder was taken over.
const retryEvery = 2 * time.Second

const (
	// closeTimeout is how long requests under way may take when a process ends.
	closeTimeout = 5 * time.Second
	// drainedTimeout is the same for one that was drained, as one behind a load balancer is.
	drainedTimeout = 20 * time.Second
)

// Address is where this machine reaches a target's gateway.
type Address struct {
	URL     string // of the model: http://127.0.0.1:8080
	Metrics string // for Prometheus: http://127.0.0.1:9464/metrics
	// LogsToStdout: the access log is the process's standard output.
	LogsToStdout bool
	control      string
}

func addressOf(s *gateway.Server) Address {
	return Address{URL: s.URL(), Metrics: s.MetricsURL(), control: s.ControlURL()}
}

// String says where, for people.
func (a Address) String() string { return a.URL + ", metrics at " + a.Metrics }

// Gateways are the targets this process serves, each on ports of its own.
type Gateways struct {
	store *store.Store
	state string
	log   *slog.Logger
	// host is where models are served whose target does not say where; empty for loopback.
	host    string
	secrets *secret.Resolver

	mu     sync.Mutex
	served map[string]*gateway.Server
	specs  map[string]spec.ServedTarget // as the environments gave them
	failed map[string]error             // of the targets that were served before, those that are not now
	fronts map[string]int64             // the revisions of the routing documents whose fronts are here
	// followed are the fronts of documents that targets last had, or were given others instead of (given); see hasFollowed.
	followed map[string]*spec.Front
	given    map[string]bool

	// alone: this is `sluice serve`, whose gateways are those that clients reach at a target's URL.
	alone   bool
	stdout  io.Writer // of access logs; nil for a process whose output is something else
	drained bool

	retrying sync.WaitGroup
	stop     context.CancelFunc // of retrying
}

// NewGateways serves nothing yet.
func NewGateways(s *store.Store, state string, log *slog.Logger) *Gateways {
	return &Gateways{
		store: s, state: state, log: log, secrets: secret.NewResolver(), stop: func() {},
		served: map[string]*gateway.Server{}, specs: map[string]spec.ServedTarget{}, failed: map[string]error{}, fronts: map[string]int64{},
		followed: map[string]*spec.Front{}, given: map[string]bool{},
	}
}

// NewGatewaysAlone is NewGateways for a process that is nothing else, with its standard output.
func NewGatewaysAlone(s *store.Store, state string, log *slog.Logger, stdout io.Writer) *Gateways {
	g := NewGateways(s, state, log)
	g.alone, g.stdout = true, stdout
	return g
}

// Serve serves a target, if it is not served so already, and returns where. An environment that says otherwise than before moves it; what
// it says that cannot be served leaves the target as it was.
func (g *Gateways) Serve(ctx context.Context, target string, spec spec.ServedTarget) (Address, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.given[target] = true
	return g.serve(ctx, target, spec)
}

// serve is Serve for a caller that holds the lock.
func (g *Gateways) serve(ctx context.Context, target string, spec spec.ServedTarget) (Address, error) {
	old, before := g.served[target], g.specs[target]
	if old != nil && before.Is(spec) {
		return addressOf(old), nil
	}
	if spec.Embedded != nil {
		if err := embedded.Check(*spec.Embedded); err != nil {
			return Address{}, fmt.Errorf("target %s: %w", target, err)
		}
	}
	inTheWay := old != nil && before.SharesPort(spec.Target)
	if inTheWay {
		g.end(ctx, target, old)
	}
	if err := g.start(ctx, target, spec, false); err != nil {
		if inTheWay {
			err = errors.Join(err, g.start(context.WithoutCancel(ctx), target, before, true)) // whoever asked may have left
		}
		return Address{}, err
	}
	if old != nil && !inTheWay {
		g.end(ctx, target, old)
	}
	return addressOf(g.served[target]), g.save()
}

// end closes a gateway in whose place another one comes; the caller holds the lock.
func (g *Gateways) end(ctx context.Context, target string, old *gateway.Server) {
	ctx, cancel := context.WithTimeout(ctx, closeTimeout)
	defer cancel()
	if err := old.Close(ctx); err != nil {
		g.log.Warn("the target's previous gateway", "target", target, "url", old.URL(), "error", err)
	}
	if g.served[target] == old {
		delete(g.served, target)
	}
}

// start listens and serves, each driver in one line; the caller holds the lock. A target that was served before, again, needs no access log.
func (g *Gateways) start(ctx context.Context, target string, spec spec.ServedTarget, again bool) error {
	labelKey, err := gateway.EnsureLabelKey(g.state)
	if err != nil {
		return fmt.Errorf("target %s: %w", target, err)
	}
	ports, err := g.ports(ctx, target, spec, again)
	if err != nil {
		return err
	}
	var s *gateway.Server
	dir := filepath.Join(g.state, "gateway", target, strconv.Itoa(ports.Model))
	switch {
	case spec.Embedded != nil:
		s, err = embedded.Serve(ctx, g.store, target, *spec.Embedded, ports, dir, filepath.Join(g.state, "trials"), labelKey, g.log)
	case spec.External != nil:
		s, err = external.Serve(ctx, g.store, target, *spec.External, ports, labelKey, g.log)
	case spec.Process != nil:
		s, err = process.Serve(ctx, g.store, target, *spec.Process, ports, dir, labelKey, g.log)
	case spec.Triton != nil:
		s, err = triton.Serve(ctx, g.store, target, *spec.Triton, ports, labelKey, g.log)
	case spec.KServe != nil:
		s, err = kserve.Serve(ctx, g.store, target, *spec.KServe, ports, labelKey, g.log)
	default:
		err = fmt.Errorf("target %s has no driver", target)
	}
	if err != nil {
		ports.Door.Close()
		ports.Access.Close()
		return err
	}
	g.served[target], g.specs[target] = s, spec
	delete(g.failed, target)
	return nil
}

// ports are where a target's gateway listens, with its door and its access log, which are open then.
func (g *Gateways) ports(ctx context.Context, target string, served spec.ServedTarget, again bool) (gateway.Ports, error) {
	front := served.Gateway
	if front.Listen == "" && g.host != "" {
		front.Listen, front.Open = g.host, true // --serve-listen says so
	}
	env := &spec.Environment{Name: "of target " + target, Secrets: served.Secrets, Vault: served.Vault}
	d, err := door.Open(ctx, door.Options{Target: target, Gateway: front, Logger: g.log, Secret: func(ctx context.Context, name string) (string, bool, error) {
		value, err := g.secrets.Value(ctx, env, name)
		return value, secret.Temporary(err), secret.Typed(err)
	}})
	if err != nil {
		return gateway.Ports{}, err
	}
	log, err := g.accessLog(target, front.AccessLog, again)
	if err != nil {
		d.Close()
		return gateway.Ports{}, fmt.Errorf("target %s: %w", target, err)
	}
	at := served.Front()
	return gateway.Ports{
		Host: front.Listen, Model: at.Port, MetricsHost: front.MetricsListen, Metrics: at.MetricsPort, Control: front.AdminPort, Door: d, Access: log,
		Read: func(doc routing.Document) { go g.follow(doc) },
	}, nil
}

// accessLog opens the access log of a target; nil for none. One that cannot be opened is no error again: a disk must not be an outage.
func (g *Gateways) accessLog(target, path string, again bool) (log *access.Log, err error) {
	switch {
	case path == "":
	case path != spec.StandardOutput:
		log, err = access.Open(path, g.log.With("target", target))
		if err != nil && again {
			g.log.Warn("the target is served without its access log, which is tried again with each request", "target", target, "error", err)
			log, err = access.OpenLater(path, g.log.With("target", target)), nil
		}
	case g.stdout != nil:
		log = access.New(g.stdout, g.log.With("target", target))
	default:
		g.log.Info("there is no access log: `-` is the standard output of `sluice serve`", "target", target)
	}
	return log, err
}

// Addresses returns where every target is served, by name.
func (g *Gateways) Addresses() map[string]Address {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := make(map[string]Address, len(g.served))
	for target, s := range g.served {
		at := addressOf(s)
		at.LogsToStdout = g.stdout != nil && g.specs[target].Gateway.AccessLog == spec.StandardOutput
		all[target] = at
	}
	return all
}

// savedTarget is what state.TargetsFile has of a target.
type savedTarget struct {
	spec.ServedTarget
	Followed *spec.Front `json:"followed,omitempty"`
}

// save writes state.TargetsFile, in which targets stay that this process does not serve; the caller holds the lock.
func (g *Gateways) save() error {
	all, err := g.saved()
	if err != nil {
		return err
	}
	for target, spec := range g.specs {
		all[target] = savedTarget{spec, cmp.Or(g.followed[target], all[target].Followed)}
	}
	raw, err := json.Marshal(all)
	if err != nil {
		return err
	}
	if err := renameio.WriteFile(filepath.Join(g.state, state.TargetsFile), raw, 0o600, renameio.WithTempDir(g.state)); err != nil {
		return fmt.Errorf("save the targets: %w", err)
	}
	return nil
}

// saved reads state.TargetsFile.
func (g *Gateways) saved() (map[string]savedTarget, error) {
	all := map[string]savedTarget{}
	raw, err := os.ReadFile(filepath.Join(g.state, state.TargetsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return all, nil
	} else if err != nil {
		return nil, fmt.Errorf("read the targets: %w", err)
	}
	if err := json.Unmarshal(raw, &all); err != nil {
		return nil, fmt.Errorf("read the targets: %s: %w", state.TargetsFile, err)
	}
	return all, nil
}

// Restore serves what was served when the state folder was last held, as far as it can: the error tells of every target that it
// could not serve, such as one whose port is taken meanwhile. Those are tried again until Close; see Troubles.
func (g *Gateways) Restore(ctx context.Context) error {
	all, err := g.saved()
	if err != nil {
		return err
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	for target, saved := range all {
		g.specs[target], g.followed[target] = saved.ServedTarget, saved.Followed
		if saved.URL() == "" || g.alone {
			g.failed[target] = nil
		}
	}
	err = g.startFailed(ctx)
	if err != nil {
		ctx, g.stop = context.WithCancel(context.WithoutCancel(ctx))
		g.retrying.Go(func() { g.retry(ctx) })
	}
	return err
}

// startFailed serves what is not served and should be; the error tells of every target that still is not. The caller holds the lock.
func (g *Gateways) startFailed(ctx context.Context) error {
	var errs []error
	for _, target := range slices.Sorted(maps.Keys(g.failed)) {
		if err := g.start(ctx, target, g.specs[target], true); err != nil {
			g.failed[target] = err
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// retry tries to serve what Restore could not, until all of it is served or Close.
func (g *Gateways) retry(ctx context.Context) {
	for range poll.Every(ctx, retryEvery) {
		g.mu.Lock()
		err := g.startFailed(ctx)
		g.mu.Unlock()
		if err == nil {
			return
		}
	}
}

// Serving says, by target, which releases answer requests: "release 2 (80%), release 3 (20%)". A target without is left out.
func (g *Gateways) Serving() map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	all := map[string]string{}
	for target, s := range g.served {
		var parts []string
		for _, r := range s.Gateway.State().Releases {
			switch {
			case r.State != gateway.Ready || r.Weight == 0:
			case r.Weight == 1:
				parts = append(parts, "release "+r.Version)
			default:
				parts = append(parts, "release "+r.Version+" ("+human.Percent(r.Weight)+")")
			}
		}
		if len(parts) > 0 {
			all[target] = strings.Join(parts, ", ")
		}
	}
	return all
}

// Troubles says, by target, why one that should be served is not, or not with all its releases.
func (g *Gateways) Troubles() map[string]string {
	g.mu.Lock()
	defer g.mu.Unlock()
	troubles := map[string]string{}
	for target, err := range g.failed {
		troubles[target] = strings.TrimLeft(strings.TrimPrefix(err.Error(), "target "+target), ": ") // which the map says
	}
	for target, s := range g.served {
		if err := s.Gateway.Trouble(); err != nil {
			troubles[target] = err.Error()
		}
	}
	return troubles
}

// Drain has load balancers send their requests elsewhere, and gives them a time to notice: all gateways say that they are not ready, and
// still answer what comes. It ends early with ctx. Close then waits longer for the requests under way.
func (g *Gateways) Drain(ctx context.Context, notice time.Duration) {
	g.mu.Lock()
	g.drained = true
	for _, s := range g.served {
		s.Gateway.Drain()
	}
	g.mu.Unlock()
	select {
	case <-ctx.Done():
	case <-time.After(notice):
	}
}

// Close ends every gateway; requests under way are answered first, for a few seconds.
func (g *Gateways) Close() error {
	g.stop()
	g.retrying.Wait()
	g.mu.Lock()
	defer g.mu.Unlock()
	timeout := closeTimeout
	if g.drained {
		timeout = drainedTimeout
	}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	errs := make([]error, len(g.served))
	var closing sync.WaitGroup
	for i, target := range slices.Sorted(maps.Keys(g.served)) {
		s := g.served[target]
		closing.Go(func() { errs[i] = s.Close(ctx) })
	}
	closing.Wait()
	clear(g.served)
	return errors.Join(errs...)
}
