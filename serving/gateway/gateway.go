// Package gateway serves one target's models over the Open Inference Protocol: it splits traffic between releases as the target's
// routing document says, mirrors requests to a shadow release, and counts what came of them.
//
// The document is followed, never commanded: a gateway polls the store for the next revision (a poke makes it look at once), makes
// ready the releases a revision needs beside those that serve, and switches when they are. Where a release runs, in this process or on a
// server elsewhere, is the business of an Opener; Target is how others steer a gateway.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

const (
	pollEvery      = 250 * time.Millisecond // between looks for a new revision
	retryAfter     = 5 * time.Second        // after a release could not be made ready, or a sweep failed
	defaultTimeout = 30 * time.Second       // of one inference
)

// Upstream answers inference requests for one model. Its methods may be called concurrently; Close is called once, last.
type Upstream interface {
	// Inputs and Outputs describe the model; both are empty for one that is not described.
	Inputs() []oip.TensorMetadata
	Outputs() []oip.TensorMetadata
	// Infer returns all outputs, in the order of Outputs. Inputs that do not fit the description are an oip.Error with status 400, which
	// is nobody's failure but the client's; every other error is the release's.
	Infer(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error)
	Close() error
}

// Opener makes ready what serves a release and returns it. While that takes long it says by waiting what it waits for. An error is a
// reason why the release cannot be served; the gateway tries again later. ctx ends when the release is no longer wanted, and not the
// Upstream with it.
type Opener func(ctx context.Context, r routing.Release, waiting func(what string)) (Upstream, error)

// Options configure a Gateway.
type Options struct {
	Store *store.Store
	// Target names the routing document, and the model in the protocol.
	Target string
	Open   Opener
	// Sweep, when set, removes what serves releases that were dropped. It is called with a document that is served, when the inferences
	// of those it does not name have ended, at least once for each; gateways elsewhere may serve a newer one already.
	Sweep func(ctx context.Context, doc routing.Document) error
	// LabelKey is what senders of labels must know; see LabelHeader. Empty: everybody's labels are taken.
	LabelKey string
	// Timeout of one inference. Default 30s.
	Timeout time.Duration
	Logger  *slog.Logger
}

// Gateway is the http.Handler that serves a target's model; Control is another, for who runs it. Close ends both.
type Gateway struct {
	opts     Options
	epoch    string
	log      *slog.Logger
	handler  http.Handler
	counters *counters
	mirror   *mirror
	bodies   *bodies
	places   chan struct{} // of inferences under way
	poke     chan struct{}

	cancel     context.CancelFunc
	background sync.WaitGroup
	mirroring  sync.WaitGroup

	mu       sync.RWMutex
	doc      routing.Document
	followed bool // doc was read at least once
	problem  error
	releases map[string]*release // by version
	table    *table              // what is served; nil until the first switch
	sweeper  sweeper
}

// New starts a gateway. The releases are made ready in the background: see State.
func New(opts Options) *Gateway {
	opts.Timeout = cmp.Or(opts.Timeout, defaultTimeout)
	ctx, cancel := context.WithCancel(context.Background())
	g := &Gateway{
		opts:     opts,
		epoch:    uuid.NewString(),
		log:      opts.Logger.With("target", opts.Target),
		counters: newCounters(),
		bodies:   newBodies(),
		places:   make(chan struct{}, maxInFlight),
		poke:     make(chan struct{}, 1),
		cancel:   cancel,
		releases: map[string]*release{},
	}
	g.mirror = newMirror(g.counters, opts.Timeout, g.log)
	g.mirroring.Go(func() { g.mirror.run(ctx) })
	g.handler = guarded(g.routes())
	g.background.Go(func() { g.follow(ctx) })
	return g
}

// Close stops following the document and lets go of the releases after the inferences under way have ended.
func (g *Gateway) Close() error {
	g.cancel()
	g.background.Wait()
	g.mu.Lock()
	releases := g.releases
	g.releases, g.table = map[string]*release{}, nil
	g.mu.Unlock()
	var err error
	for _, r := range releases {
		err = errors.Join(err, r.close())
	}
	g.mirror.close() // nothing can be queued any more: what is queued keeps its release from unloading
	g.mirroring.Wait()
	return err
}

// Poke makes the gateway look for a new revision at once.
func (g *Gateway) Poke() {
	select {
	case g.poke <- struct{}{}:
	default: // a look is due already
	}
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.handler.ServeHTTP(w, r) }

// follow is the one goroutine that changes what is served.
func (g *Gateway) follow(ctx context.Context) {
	ticker := time.Tick(pollEvery)
	for {
		g.read(ctx)
		g.reconcile(ctx)
		select {
		case <-ctx.Done():
			return
		case <-ticker:
		case <-g.poke:
		}
	}
}

// read moves doc to the newest revision. It never moves back: revisions are read one after the other.
func (g *Gateway) read(ctx context.Context) {
	g.mu.RLock()
	doc, followed := g.doc, g.followed
	g.mu.RUnlock()
	var err error
	if !followed {
		doc, err = routing.Current(ctx, g.opts.Store, g.opts.Target)
		followed = err == nil
	}
	for err == nil {
		var next routing.Document
		if next, err = routing.At(ctx, g.opts.Store, g.opts.Target, doc.Revision+1); err == nil {
			doc = next
		}
	}
	if errors.Is(err, store.ErrNotFound) || ctx.Err() != nil {
		err = nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && g.problem == nil {
		g.log.Error("the routing document cannot be read; the current routing stays in effect", "error", err)
	}
	g.doc, g.followed, g.problem = doc, followed, err
}
