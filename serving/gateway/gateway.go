// Package gateway serves one target's models over the Open Inference Protocol: it splits traffic between releases as the target's
// routing document says, mirrors requests to a shadow release, and counts what came of them.
//
// The document is followed, never commanded: a gateway polls the store for the next revision (a poke makes it look at once), makes
// ready the releases a revision needs beside those that serve, and switches when they are. It reports to the store what it serves and
// counts (see package routing), and has a lease on what it has read: see lapsed. Where a release runs, in this process or on a
// server elsewhere, is the business of an Opener; Target is how others steer a gateway.
package gateway

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"reflect"
	"sync"
	"time"

	"github.com/google/uuid"
	"google.golang.org/grpc"

	"github.com/sluiceml/sluice/serving/access"
	"github.com/sluiceml/sluice/serving/door"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

const (
	pollEvery      = 500 * time.Millisecond // between looks for a new revision
	retryAfter     = 5 * time.Second        // after a release could not be made ready, or a sweep failed
	defaultTimeout = 30 * time.Second       // of one inference
)

// Upstream answers inference requests for one model. Its methods may be called concurrently; Close is called once, at the end.
type Upstream interface {
	// Inputs and Outputs describe the model; both are empty if the model has no description.
	Inputs() []oip.TensorMetadata
	Outputs() []oip.TensorMetadata
	// Infer returns all outputs, in the order of Outputs. Inputs that do not fit the description are an oip.Error with status 400, which
	// counts as the client's error; every other error counts as a failure of the release.
	Infer(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error)
	Close() error
}

// Opener loads what serves a release and returns it. While that takes long, it reports through waiting what it waits for. An error is the
// reason why the release cannot be served; the gateway tries again later. ctx ends when the release is no longer needed; the Upstream does
// not end with it.
type Opener func(ctx context.Context, r routing.Release, waiting func(what string)) (Upstream, error)

// Options configure a Gateway.
type Options struct {
	Store *store.Store
	// Target names the routing document, and the model in the protocol.
	Target string
	Open   Opener
	// Protocol of the target's clients. Default OIP. With another one, Open must return Forwarders.
	Protocol Protocol
	// Sweep, if set, removes the resources of dropped releases. It is called with a served document when the inferences of the releases
	// that the document does not name have ended, at least once for each; gateways elsewhere may already serve a newer document.
	Sweep func(ctx context.Context, doc routing.Document) error
	// LabelKey is the key that senders of labels need unless the door admits them; see LabelHeader. It is the key of Sluice's own clients,
	// which may also send inferences. If it is empty, labels are accepted from everybody wherever no key is needed.
	LabelKey string
	// Door decides who may send requests; nil admits everybody on this machine.
	Door *door.Door
	// Access is the log of the model's requests; nil for none. The caller closes it.
	Access *access.Log
	// Read, if set, is told of every document that the gateway follows. It must not wait.
	Read func(routing.Document)
	// URL is the address at which this machine reaches the model, for readers of its reports.
	URL string
	// Timeout of one inference; of an answer that is passed on, until it begins and between two parts of it. Default 30s.
	Timeout time.Duration
	Logger  *slog.Logger
}

// Gateway is the http.Handler that serves a target's model; Control is another one, for operators. Close ends both.
type Gateway struct {
	opts     Options
	epoch    string
	log      *slog.Logger
	handler  http.Handler
	counters *counters
	mirror   *mirror
	bodies   *bodies
	places   chan struct{} // of inferences under way
	// abandoned are those whose clients have left, and that a rollout learns from.
	abandoned chan struct{}
	poke      chan struct{}
	changed   chan struct{} // there is something to report at once
	grpc      *grpc.Server
	streams   streams

	cancel     context.CancelFunc
	background sync.WaitGroup
	mirroring  sync.WaitGroup
	lastWord   func()

	mu       sync.RWMutex
	doc      routing.Document
	draining bool      // no more requests are wanted
	followed bool      // doc was read at least once
	current  time.Time // when it was last known to be the newest
	moved    time.Time // when it last was another
	problem  error
	releases map[string]*release // by version
	table    *table              // what is served; nil until the first switch
	sweeper  sweeper
}

// New starts a gateway. The releases are loaded in the background: see State.
func New(opts Options) *Gateway {
	opts.Timeout, opts.Protocol = cmp.Or(opts.Timeout, defaultTimeout), cmp.Or(opts.Protocol, OIP)
	ctx, cancel := context.WithCancel(context.Background())
	g := &Gateway{
		opts:     opts,
		epoch:    uuid.NewString(),
		log:      opts.Logger.With("target", opts.Target),
		counters: newCounters(),
		bodies:   newBodies(),
		streams:  newStreams(),
		places:   make(chan struct{}, maxInFlight),

		abandoned: make(chan struct{}, maxInFlight),

		poke:     make(chan struct{}, 1),
		changed:  make(chan struct{}, 1),
		cancel:   cancel,
		releases: map[string]*release{},
	}
	g.mirror = newMirror(g.counters, opts.Timeout, g.log)
	g.mirroring.Go(func() { g.mirror.run(ctx) })
	g.grpc = newGRPC(g)
	if opts.Protocol == OIP {
		g.handler = g.logged(guarded(g.admitted(g.overGRPC(g.routes()), modelVerb)), modelVerb)
	} else {
		g.handler = g.logged(guarded(g.admitted(g.forwarding(), forwardVerb)), forwardVerb)
	}
	reporter := newReporter(g)
	g.background.Go(func() {
		reporter.report(ctx) // a rollout must know of it before it reads what the rollout changes
		g.background.Go(func() { reporter.run(ctx) })
		g.follow(ctx)
	})
	g.lastWord = reporter.close
	return g
}

// Close stops following the document and unloads the releases after the inferences in progress have ended.
func (g *Gateway) Close() error {
	g.streams.end()
	g.cancel()
	g.background.Wait()
	g.grpc.Stop()
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
	g.lastWord()
	return err
}

// Drain makes the gateway report that it is not ready, so that load balancers send their requests elsewhere. It still answers requests
// until Close.
func (g *Gateway) Drain() {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.draining = true
}

// Poke makes the gateway look for a new revision at once.
func (g *Gateway) Poke() { notify(g.poke) }

func notify(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default: // it is due already
	}
}

// ServeHTTP implements http.Handler.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) { g.handler.ServeHTTP(w, r) }

// follow is the one goroutine that changes what is served.
func (g *Gateway) follow(ctx context.Context) {
	ticker := time.Tick(pollEvery)
	var last State
	for {
		g.read(ctx)
		g.reconcile(ctx)
		if now := g.State(); !reflect.DeepEqual(now, last) {
			last = now
			notify(g.changed)
		}
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
	limit := readTimeout
	if !followed {
		limit = firstReadTimeout
	}
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began := time.Now()
	var err error
	before := doc.Revision
	if !followed {
		doc, err = routing.Current(ctx, g.opts.Store, g.opts.Target)
		followed = err == nil
	}
	for err == nil {
		began = time.Now()
		var next routing.Document
		if next, err = routing.At(ctx, g.opts.Store, g.opts.Target, doc.Revision+1); err == nil {
			doc = next
		}
	}
	isNewest := errors.Is(err, store.ErrNotFound)
	if isNewest || errors.Is(ctx.Err(), context.Canceled) {
		err = nil
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if err != nil && g.problem == nil {
		g.log.Error("the routing document cannot be read; the current routing stays in effect, during a rollout for as long as the lease", "error", err)
	}
	if isNewest {
		g.current = began
	}
	if doc.Revision != before {
		g.moved = began
		if g.opts.Read != nil {
			g.opts.Read(doc)
		}
	}
	g.doc, g.followed, g.problem = doc, followed, err
}
