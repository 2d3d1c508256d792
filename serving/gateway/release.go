package gateway

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/sluiceml/sluice/serving/batch"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
)

// The states of a release.
const (
	Loading = routing.Loading
	Ready   = routing.Ready
	Failed  = routing.Failed
)

// release is a model version the gateway knows. Fields are guarded by Gateway.mu, but upstream's methods are called without it by
// those who hold inflight.
type release struct {
	routing.Release
	state    routing.LoadState
	err      error
	failedAt time.Time
	waiting  string             // for what, while it is being opened
	stop     context.CancelFunc // ends the opening; nil when none is under way
	opened   bool               // upstream is set, and the release not yet admitted
	upstream Upstream
	inflight sync.WaitGroup

	counting sync.Mutex
	counts   batch.Stats // of an upstream that does not count itself
}

// stats are what the release has been asked; the caller knows that it was ready.
func (r *release) stats() batch.Stats {
	if model, ok := r.upstream.(counted); ok {
		return model.Stats()
	}
	r.counting.Lock()
	defer r.counting.Unlock()
	s := r.counts
	s.Sizes = maps.Clone(s.Sizes)
	return s
}

// infer asks the release. Requests that are mistakes of the client count as little as those that a model here refuses.
func (r *release) infer(ctx context.Context, inputs []oip.Tensor) (outputs []oip.Tensor, took time.Duration, err error) {
	began := time.Now()
	outputs, err = inferFinite(ctx, r.upstream, inputs)
	took = time.Since(began)
	if _, ok := r.upstream.(counted); !ok && (err == nil || outcomeOf(oip.ErrorStatus(err)) != clientError) {
		r.counting.Lock()
		defer r.counting.Unlock()
		r.counts.One(began, took, err)
	}
	return outputs, took, err
}

// close waits for the inferences under way and lets go of the upstream. The release must be out of the gateway's reach.
func (r *release) close() error {
	r.inflight.Wait()
	if r.upstream == nil {
		return nil
	}
	if err := r.upstream.Close(); err != nil {
		return fmt.Errorf("unload release %s: %w", r.Version, err)
	}
	return nil
}

// open makes a release ready in the background; the caller holds the lock. A release that failed stays so until it is ready after all,
// so that nothing waits for it meanwhile. It is opened as the document now wants it, which may be otherwise than when it failed.
func (g *Gateway) open(ctx context.Context, r *release, wanted routing.Release) {
	r.Release = wanted
	unproven := g.unproven(wanted)
	ctx, r.stop = context.WithCancel(ctx)
	g.background.Go(func() {
		start := time.Now()
		upstream, err := g.opts.Open(ctx, wanted, func(what string) {
			g.mu.Lock()
			defer g.mu.Unlock()
			r.waiting = what
		})
		if err == nil {
			err = g.warmUp(ctx, wanted, unproven, upstream)
		}
		if err == nil {
			g.log.Info("a release is ready", "release", wanted.Version, "model", wanted.Model.Digest, "seconds", time.Since(start).Seconds())
		}
		g.mu.Lock()
		defer g.mu.Unlock()
		r.stop()
		r.stop, r.waiting = nil, ""
		if err != nil {
			g.fail(r, fmt.Errorf("load release %s: %w", r.Version, err))
		} else {
			r.upstream, r.opened = upstream, true
		}
		g.Poke()
	})
}

// unproven reports whether a release is a rollout's that gets no requests yet, so that it can be refused and nobody misses it. The caller
// holds the lock.
func (g *Gateway) unproven(r routing.Release) bool {
	isShadow := g.doc.Shadow != nil && g.doc.Shadow.Version == r.Version
	return g.doc.Candidate == r.Version && r.Weight == 0 && !isShadow
}

func (g *Gateway) fail(r *release, err error) {
	r.state, r.err, r.failedAt = Failed, err, time.Now()
	if _, wanted := g.doc.Release(r.Version); wanted {
		g.log.Error("a release could not be loaded", "release", r.Version, "model", r.Model.Digest, "error", err)
	}
}

// reconcile opens and drops releases as the document says, and switches to its newest revision once what that needs has settled.
func (g *Gateway) reconcile(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, wanted := range g.doc.Releases {
		r, known := g.releases[wanted.Version]
		if !known {
			r = &release{Release: wanted, state: Loading}
			g.releases[wanted.Version] = r
		}
		if !known || r.state == Failed && r.stop == nil && !r.opened && time.Since(r.failedAt) >= retryAfter {
			g.open(ctx, r, wanted)
		}
	}
	for _, r := range g.releases {
		if r.opened {
			g.admit(r)
		}
	}
	g.switchTable()
	g.dropReleases()
	g.sweep(ctx)
}

// dropReleases lets go of what the document no longer names and no request can reach.
func (g *Gateway) dropReleases() {
	for version, r := range g.releases {
		_, wanted := g.doc.Release(version)
		switch {
		case wanted || g.table.uses(r):
		case r.stop != nil:
			r.stop() // and dropped when it has ended
		default:
			delete(g.releases, version)
			g.sweeper.leaving++
			g.background.Go(func() {
				if err := r.close(); err != nil {
					g.log.Error("a release stays in memory", "release", version, "error", err)
				}
				g.mu.Lock()
				defer g.mu.Unlock()
				g.sweeper.leaving--
				g.Poke()
			})
		}
	}
}

// admit makes a loaded release ready, unless clients of the serving release could not use it: a request that fits one release must fit all,
// or mistakes of a candidate would look like mistakes of the clients.
func (g *Gateway) admit(r *release) {
	serving, _ := g.doc.Serving()
	reference := g.releases[serving.Version]
	if reference != nil && reference != r && reference.state != Failed {
		if reference.upstream == nil {
			return // it is being opened; there is nothing to compare with yet
		}
		if err := compatible(reference.upstream, r.upstream); err != nil {
			if closeErr := r.upstream.Close(); closeErr != nil {
				err = errors.Join(err, closeErr)
			}
			r.upstream, r.opened = nil, false
			g.fail(r, fmt.Errorf("release %s cannot take the place of release %s: %w", r.Version, reference.Version, err))
			return
		}
	}
	r.state, r.err, r.opened = Ready, nil, false
}

// compatible reports why clients of one model could not use another, as far as both describe themselves.
func compatible(old, candidate Upstream) error {
	if len(old.Inputs()) == 0 || len(candidate.Inputs()) == 0 {
		return nil
	}
	for _, want := range old.Outputs() {
		if !slices.ContainsFunc(candidate.Outputs(), func(o oip.TensorMetadata) bool { return o.Name == want.Name && o.Datatype == want.Datatype }) {
			return fmt.Errorf("it has no output %q of type %s", want.Name, want.Datatype)
		}
	}
	for _, have := range candidate.Inputs() {
		i := slices.IndexFunc(old.Inputs(), func(o oip.TensorMetadata) bool { return o.Name == have.Name })
		if i < 0 {
			return fmt.Errorf("it needs an input %q, which requests do not have", have.Name)
		}
		if want := old.Inputs()[i]; want.Datatype != have.Datatype || !accepts(have.Shape, want.Shape) {
			return fmt.Errorf("its input %q is %s %v, but requests have %s %v", have.Name, have.Datatype, have.Shape, want.Datatype, want.Shape)
		}
	}
	if len(candidate.Inputs()) != len(old.Inputs()) {
		return fmt.Errorf("it has %d inputs, but requests have %d", len(candidate.Inputs()), len(old.Inputs()))
	}
	return nil
}

// accepts reports whether every tensor of shape given is one of shape wanted; -1 is any size.
func accepts(wanted, given []int64) bool {
	return slices.EqualFunc(wanted, given, func(w, g int64) bool { return w == -1 || w == g })
}
