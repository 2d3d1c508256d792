// Package upstream is the server of a release, wherever it runs: it is asked in the protocol of its target, once it is healthy and while it
// stays so.
//
// A Model is one on a server elsewhere that speaks the Open Inference Protocol, version 2, over REST: NVIDIA Triton, OpenVINO Model Server,
// whatever KServe runs. Tensors travel as binary data where the server has the extension for them.
package upstream

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/oip"
)

const (
	lookEvery  = 200 * time.Millisecond // while a server starts
	checkEvery = 2 * time.Second        // afterwards
	checkLimit = 5 * time.Second        // of one look
	// misses is how many looks in a row must find a server ill: one may have been lost.
	misses     = 2
	retryAfter = 2 * time.Second // what clients are told while it is
)

// defaultHealth is the path of servers that are not asked for a model.
const defaultHealth = "/health"

// Options say how a server is asked.
type Options struct {
	URL      string
	Protocol gateway.Protocol
	// Model is the server's name of the model, with gateway.OIP.
	Model string
	// Health is the path that tells whether the server is healthy; empty for the protocol's.
	Health string
	// HungAfter is for how long a server may be ill before it is taken for hung; 0: for ever.
	HungAfter time.Duration
}

// server is one that is asked.
type server interface {
	gateway.Upstream
	gateway.Forwarder
	// healthy says why the server is not.
	healthy(ctx context.Context) error
}

// open asks a server once whether it is healthy, and what its model is.
func open(ctx context.Context, opts Options) (_ server, err error) {
	at, err := url.Parse(opts.URL)
	if err != nil || at.Host == "" || at.Scheme != "http" && at.Scheme != "https" {
		return nil, fmt.Errorf("%q is not the URL of a server", opts.URL)
	}
	p := newPassed(at, cmp.Or(opts.Health, defaultHealth))
	client := p.client
	defer func() {
		if err != nil {
			client.CloseIdleConnections() // a server that loads is asked often
		}
	}()
	if opts.Protocol != gateway.OIP {
		return p, p.healthy(ctx)
	}
	if opts.Health == "" {
		p = nil
	} else if err := p.healthy(ctx); err != nil {
		return nil, err
	}
	model, err := OpenModel(ctx, ModelOptions{URL: opts.URL, Model: opts.Model})
	if err != nil {
		return nil, err
	}
	return &inferring{Model: model, health: p}, nil
}

// inferring is a server of the Open Inference Protocol.
type inferring struct {
	*Model
	health *passed // of a path of its own; nil for the model's
}

func (s *inferring) healthy(ctx context.Context) error {
	if s.health != nil {
		return s.health.healthy(ctx)
	}
	return s.Ready(ctx)
}

// Close implements server.
func (s *inferring) Close() error {
	if s.health != nil {
		_ = s.health.Close() // it only closes idle connections
	}
	return s.Model.Close()
}

// Forward implements gateway.Forwarder. It is not called: the gateway reads what is for such a server.
func (s *inferring) Forward(context.Context, *http.Request, http.Header, []byte) (*http.Response, error) {
	return nil, errors.New("the server speaks the Open Inference Protocol")
}

// Watched is a server that gets requests while it is healthy. It implements gateway.Upstream and gateway.Forwarder.
type Watched struct {
	server server
	ill    atomic.Pointer[error] // why it gets no requests; nil while it does
	hung   chan struct{}         // closed when it is taken for hung
	stop   context.CancelFunc
	looks  sync.WaitGroup
}

// Await returns a server when it is healthy, and watches it from then on. When it is not within a time, or ctx ends before, the error says
// what stood in the way. waiting is told what that is meanwhile.
func Await(ctx context.Context, opts Options, within time.Duration, waiting func(string)) (*Watched, error) {
	limited, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	var last error
	for range poll.Every(limited, lookEvery) {
		look, done := context.WithTimeout(limited, checkLimit)
		s, err := open(look, opts)
		done()
		switch {
		case err == nil:
			return watch(ctx, s, opts.HungAfter), nil
		case !errors.Is(err, ErrNotReady):
			return nil, err
		}
		if limited.Err() == nil || last == nil {
			last = err
			waiting(opts.URL + " to be healthy: " + err.Error())
		}
	}
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	return nil, fmt.Errorf("the server at %s is not healthy after %v: %w", opts.URL, within, last)
}

func watch(ctx context.Context, s server, hungAfter time.Duration) *Watched {
	w := &Watched{server: s, hung: make(chan struct{})}
	ctx, w.stop = context.WithCancel(context.WithoutCancel(ctx))
	w.looks.Go(func() { w.look(ctx, checkEvery, hungAfter) })
	return w
}

// look keeps asking whether the server is healthy.
func (w *Watched) look(ctx context.Context, every, hungAfter time.Duration) {
	missed := 0
	hung := sync.OnceFunc(func() { close(w.hung) })
	well := time.Now()
	for range poll.Every(ctx, every) {
		look, done := context.WithTimeout(ctx, checkLimit)
		err := w.server.healthy(look)
		done()
		if err == nil {
			missed, well = 0, time.Now()
			w.ill.Store(nil)
			continue
		}
		if missed++; missed >= misses {
			w.ill.Store(&err)
			if hungAfter > 0 && time.Since(well) >= hungAfter {
				hung()
			}
		}
	}
}

// Hung is closed when the server has been ill for so long that it will hardly recover by itself.
func (w *Watched) Hung() <-chan struct{} { return w.hung }

// unhealthy is the answer to a request that the server does not get.
func (w *Watched) unhealthy() error {
	err := w.ill.Load()
	if err == nil {
		return nil
	}
	return &oip.Error{Status: http.StatusServiceUnavailable, Message: "the model's server is not healthy: " + (*err).Error(), RetryAfter: retryAfter}
}

// Inputs implements gateway.Upstream.
func (w *Watched) Inputs() []oip.TensorMetadata { return w.server.Inputs() }

// Outputs implements gateway.Upstream.
func (w *Watched) Outputs() []oip.TensorMetadata { return w.server.Outputs() }

// Infer implements gateway.Upstream.
func (w *Watched) Infer(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	if err := w.unhealthy(); err != nil {
		return nil, err
	}
	return w.server.Infer(ctx, inputs)
}

// Forward implements gateway.Forwarder.
func (w *Watched) Forward(ctx context.Context, r *http.Request, header http.Header, body []byte) (*http.Response, error) {
	if err := w.unhealthy(); err != nil {
		return nil, err
	}
	return w.server.Forward(ctx, r, header, body)
}

// Close lets go of the server, which stays as it is.
func (w *Watched) Close() error {
	w.stop()
	w.looks.Wait()
	return w.server.Close()
}
