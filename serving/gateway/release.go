package gateway

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
)

// ReleaseState is where a release is on its way to memory.
type ReleaseState string

// The states of a release.
const (
	Loading ReleaseState = "loading"
	Ready   ReleaseState = "ready"
	Failed  ReleaseState = "failed"
)

// warmUps is how many inferences a model makes before it gets traffic.
const warmUps = 5

// release is a model version the gateway knows. Fields are guarded by Gateway.mu, but upstream's methods are called without it by
// those who hold inflight.
type release struct {
	routing.Release
	state    ReleaseState
	err      error
	failedAt time.Time
	loaded   bool // upstream is set, and the release not yet admitted
	upstream Upstream
	inflight sync.WaitGroup
}

// unload waits for the inferences under way and closes the model. The release must be out of the gateway's reach.
func (r *release) unload() error {
	r.inflight.Wait()
	if r.upstream == nil {
		return nil
	}
	if err := r.upstream.Close(); err != nil {
		return fmt.Errorf("unload release %s: %w", r.Version, err)
	}
	return nil
}

// load brings a release's model to memory, in the background.
func (g *Gateway) load(ctx context.Context, r *release) {
	start := time.Now()
	upstream, err := g.fetch(ctx, r.Release)
	g.mu.Lock()
	if err != nil {
		g.fail(r, err)
	} else {
		r.upstream, r.loaded = upstream, true
	}
	g.mu.Unlock()
	if err == nil {
		g.log.Info("model loaded", "release", r.Version, "model", r.Model.Digest, "seconds", time.Since(start).Seconds())
	}
	g.Poke()
}

func (g *Gateway) fail(r *release, err error) {
	r.state, r.err, r.failedAt = Failed, err, time.Now()
	g.log.Error("a release cannot be served", "release", r.Version, "model", r.Model.Digest, "error", err)
}

func (g *Gateway) fetch(ctx context.Context, r routing.Release) (Upstream, error) {
	dir, err := os.MkdirTemp(g.opts.Dir, "model-")
	if err != nil {
		return nil, fmt.Errorf("load release %s: %w", r.Version, err)
	}
	defer func() {
		if err := os.RemoveAll(dir); err != nil {
			g.log.Warn("a temporary folder stays behind until the next start", "error", err)
		}
	}()
	model := filepath.Join(dir, "model")
	if err := g.opts.Store.Fetch(ctx, r.Model, model); err != nil {
		return nil, fmt.Errorf("load release %s: %w", r.Version, err)
	}
	upstream, err := g.opts.Load(ctx, model)
	if err != nil {
		return nil, fmt.Errorf("load release %s: %w", r.Version, err)
	}
	g.warmUp(ctx, r.Version, upstream)
	return upstream, nil
}

// warmUp makes a few inferences, so that the first users do not pay for what a model does once. A model may refuse the made-up
// inputs; it is then as cold as it was.
func (g *Gateway) warmUp(ctx context.Context, version string, upstream Upstream) {
	ctx, cancel := context.WithTimeout(ctx, g.opts.Timeout)
	defer cancel()
	inputs := make([]oip.Tensor, len(upstream.Inputs()))
	for i, meta := range upstream.Inputs() {
		tensor, err := oip.Zero(meta)
		if err != nil {
			g.log.Info("no warm-up", "release", version, "error", err)
			return
		}
		inputs[i] = tensor
	}
	for range warmUps {
		if _, err := upstream.Infer(ctx, inputs); err != nil {
			g.log.Info("no warm-up", "release", version, "error", err)
			return
		}
	}
}

// reconcile starts and drops releases as the document says, and switches to its newest revision once what that needs has settled.
func (g *Gateway) reconcile(ctx context.Context) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, wanted := range g.doc.Releases {
		r, ok := g.releases[wanted.Version]
		if ok && (r.state != Failed || time.Since(r.failedAt) < retryLoad) {
			continue
		}
		r = &release{Release: wanted, state: Loading}
		g.releases[wanted.Version] = r
		g.background.Go(func() { g.load(ctx, r) })
	}
	for _, r := range g.releases {
		if r.loaded {
			g.admit(r)
		}
	}
	g.switchTable()
	for version, r := range g.releases {
		if _, wanted := g.doc.Release(version); !wanted && r.state != Loading && !g.table.uses(r) {
			delete(g.releases, version)
			g.background.Go(func() {
				if err := r.unload(); err != nil {
					g.log.Error("a model stays in memory", "release", version, "error", err)
				}
			})
		}
	}
}

// admit makes a loaded release ready, unless clients of the release that serves could not use it: a request that fits one release
// must fit all, or mistakes of a candidate would look like mistakes of the clients.
func (g *Gateway) admit(r *release) {
	serving, _ := g.doc.Serving()
	reference := g.releases[serving.Version]
	if reference != nil && reference != r && reference.state != Failed {
		if reference.upstream == nil {
			return // it is loading; there is nothing to compare with yet
		}
		if err := compatible(reference.upstream, r.upstream); err != nil {
			if closeErr := r.upstream.Close(); closeErr != nil {
				err = errors.Join(err, closeErr)
			}
			r.upstream, r.loaded = nil, false
			g.fail(r, fmt.Errorf("release %s cannot take the place of release %s: %w", r.Version, reference.Version, err))
			return
		}
	}
	r.state, r.err, r.loaded = Ready, nil, false
}

// compatible reports why clients of one model could not use another.
func compatible(old, candidate Upstream) error {
	for _, want := range old.Outputs() {
		if !slices.ContainsFunc(candidate.Outputs(), func(o oip.TensorMetadata) bool { return o.Name == want.Name && o.Datatype == want.Datatype }) {
			return fmt.Errorf("it has no output %q of type %s", want.Name, want.Datatype)
		}
	}
	for _, have := range candidate.Inputs() {
		i := slices.IndexFunc(old.Inputs(), func(o oip.TensorMetadata) bool { return o.Name == have.Name })
		if i < 0 {
			return fmt.Errorf("it wants an input %q, which requests do not have", have.Name)
		}
		if want := old.Inputs()[i]; want.Datatype != have.Datatype || !accepts(have.Shape, want.Shape) {
			return fmt.Errorf("its input %q is %s %v, requests have %s %v", have.Name, have.Datatype, have.Shape, want.Datatype, want.Shape)
		}
	}
	if len(candidate.Inputs()) != len(old.Inputs()) {
		return fmt.Errorf("it has %d inputs, requests have %d", len(candidate.Inputs()), len(old.Inputs()))
	}
	return nil
}

// accepts reports whether every tensor of shape given is one of shape wanted; -1 is any size.
func accepts(wanted, given []int64) bool {
	return slices.EqualFunc(wanted, given, func(w, g int64) bool { return w == -1 || w == g })
}
