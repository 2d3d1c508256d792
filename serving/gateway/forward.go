package gateway

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/serving/oip"
)

// Protocol is the protocol of a target's clients.
type Protocol string

// The protocols. OIP is the Open Inference Protocol. With the others, requests are passed on unread to the server of a release, which is a
// Forwarder.
const (
	OIP    Protocol = "oip"
	HTTP   Protocol = "http"
	OpenAI Protocol = "openai"
)

// Forwarder is an Upstream that accepts requests unread.
type Forwarder interface {
	// Forward passes on a request with this header and body. The answer, whatever its status, ends with ctx; its body must be closed. An
	// error means that there is no answer.
	Forward(ctx context.Context, r *http.Request, header http.Header, body []byte) (*http.Response, error)
}

// partSize is how much of an answer is held at once.
const partSize = 32 << 10

// errSlow ends an answer that does not begin, or go on, within Options.Timeout.
var errSlow = errors.New("no answer in time")

// forwarding are the routes of a target whose requests are passed on: all but the gateway's own health.
func (g *Gateway) forwarding() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case livePath:
			writeLive(w)
		case readyPath:
			writeReady(w, g.ready())
		default:
			g.forward(w, r)
		}
	})
}

// forward passes a request on to the release that chance chooses, or that its header names, and its answer back.
func (g *Gateway) forward(w http.ResponseWriter, r *http.Request) {
	err := passable(r)
	if err == nil {
		var body []byte
		var done func()
		body, done, err = g.bodies.read(w, r)
		defer done()
		if err == nil {
			err = g.pass(w, r, body)
		}
	}
	if err != nil {
		takenBy(w, time.Now().Add(answerTime))
		oip.WriteError(w, err)
	}
}

// passable refuses what HTTP/1.1 cannot carry on, and paths that leave the one of a server.
func passable(r *http.Request) error {
	if strings.HasPrefix(r.Header.Get("Content-Type"), "application/grpc") {
		return &oip.Error{Status: http.StatusUnsupportedMediaType, Message: "gRPC is not passed on"}
	}
	if slices.Contains(strings.Split(r.URL.Path, "/"), "..") {
		return oip.Invalid("the path %s has a `..`", r.URL.Path)
	}
	return nil
}

// pass makes a request of a release. An error is that there is no answer to pass back.
func (g *Gateway) pass(w http.ResponseWriter, r *http.Request, body []byte) error {
	leave, err := g.enter(r.Context())
	if err != nil {
		return err
	}
	defer leave()
	key, err := g.keyOf(r.Header, func(name string) (string, error) { return keyOfJSON(name, body) })
	if err != nil {
		return err
	}
	a, err := g.assign(r.Header.Get(VersionHeader), key)
	if err != nil {
		return err
	}
	defer a.inflight.Done()
	ended := g.started(a)
	defer ended()
	// An answer that has hung has failed by then, since none of its parts may take longer than the timeout; what still comes may come for hours.
	defer time.AfterFunc(2*g.opts.Timeout, ended).Stop()
	a.dropShadow() // there is nothing to compare
	g.note(r.Context()).assigned(a, key)
	w.Header().Set(ReleaseHeader, a.Version)
	leaveShare, err := g.enterShare(r.Context(), a)
	if err != nil {
		return err
	}
	defer leaveShare()
	upstream, ok := a.upstream.(Forwarder)
	if !ok {
		return fmt.Errorf("release %s does not take requests of the protocol %s", a.Version, g.opts.Protocol)
	}
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(r.Context()))
	defer cancel(nil)
	defer g.abandon(r.Context(), a, cancel)()
	p := &passage{w: w, client: r.Context(), cancel: cancel, began: time.Now(), timeout: g.opts.Timeout}
	if g.opts.Protocol == OpenAI {
		p.tokens = &tokens{began: p.began}
	}
	p.patience = time.AfterFunc(p.timeout, func() { cancel(errSlow) })
	defer p.patience.Stop()
	header := endToEnd(r.Header)
	header.Del(VersionHeader)
	if g.opts.Door.Keyed() {
		header.Del("Authorization") // it was for the gateway
	}
	resp, err := upstream.Forward(ctx, r, header, body)
	if err == nil {
		defer func() { _ = resp.Body.Close() }() // only read from
		err = p.relay(ctx, resp)
	}
	failed := g.countPassage(ctx, a, p, resp, err)
	switch {
	case resp == nil:
		return failed
	case err != nil:
		panic(http.ErrAbortHandler) // the client must not take a part for the whole
	}
	return nil
}

// countPassage counts what came of a request, and returns why it failed.
func (g *Gateway) countPassage(ctx context.Context, a *assignment, p *passage, resp *http.Response, err error) error {
	what := failure
	switch cause := context.Cause(ctx); {
	case err == nil && resp.StatusCode >= http.StatusBadRequest:
		what = outcomeOf(resp.StatusCode)
		err = fmt.Errorf("the model's server answers %s", resp.Status)
	case err == nil && p.tokens != nil && p.tokens.failed:
		err = errors.New("the model's server ends the answer with an error")
	case errors.Is(cause, errLeft) && p.measured:
		err = nil // as far as it was seen
	case errors.Is(cause, errLeft):
		what, err = clientLeft, errLeft
	case errors.Is(cause, errSlow):
		err = &oip.Error{Status: http.StatusGatewayTimeout, Message: fmt.Sprintf("the model's server has sent nothing for %v", p.timeout)}
	}
	if !a.counted {
		return err
	}
	one := requestOutcome{outcome: answered, latency: time.Since(p.began), tokens: p.tokens}
	if err != nil {
		one.outcome, one.tokens = what, nil
		if what == failure {
			g.log.Warn("a request failed", "release", a.Version, "error", err)
		}
	}
	g.counters.request(a, one)
	return err
}

// passage is one answer on its way to its client.
type passage struct {
	w        http.ResponseWriter
	client   context.Context // ends when the client has gone
	cancel   context.CancelCauseFunc
	began    time.Time
	timeout  time.Duration
	patience *time.Timer // until something must have come
	tokens   *tokens     // nil when none are looked for
	measured bool        // what matters of the answer has come
}

// relay passes an answer back as it comes.
func (p *passage) relay(ctx context.Context, resp *http.Response) error {
	streams := p.tokens != nil && strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream")
	if !streams {
		p.tokens = nil
	}
	out := http.NewResponseController(p.w)
	_ = out.SetReadDeadline(time.Time{}) // that of the request has passed before a long answer has; see bodies.read
	maps.Copy(p.w.Header(), endToEnd(resp.Header))
	p.patience.Stop()
	takenBy(p.w, time.Now().Add(answerTime))
	p.w.WriteHeader(resp.StatusCode)
	gone := false
	if streams {
		gone = out.Flush() != nil
	}
	// HTTP/2 resets a stream whose write deadline has passed, even if nothing is written: it must not run while the model is awaited.
	takenBy(p.w, time.Time{})
	defer func() { takenBy(p.w, time.Now().Add(answerTime)) }()
	part := make([]byte, partSize)
	for {
		p.patience.Reset(p.timeout)
		n, err := resp.Body.Read(part)
		p.patience.Stop()
		if n > 0 {
			if streams {
				p.tokens.read(part[:n], time.Now())
			}
			if !gone {
				takenBy(p.w, time.Now().Add(answerTime))
				_, werr := p.w.Write(part[:n])
				gone = werr != nil || resp.ContentLength < 0 && out.Flush() != nil
				takenBy(p.w, time.Time{})
			}
			if !p.measured && (!streams || p.tokens.seen > 0) {
				p.measured = true
				defer context.AfterFunc(p.client, func() { p.cancel(errLeft) })()
			}
			if gone && p.measured {
				p.cancel(errLeft)
			}
		}
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case err != nil:
			return fmt.Errorf("the model's server broke off its answer: %w", err)
		}
	}
}

// hopByHop are the headers that say something of one connection.
var hopByHop = []string{
	"Connection", "Keep-Alive", "Proxy-Authenticate", "Proxy-Authorization", "Proxy-Connection", "Te", "Trailer", "Transfer-Encoding", "Upgrade",
}

// endToEnd are the headers that are passed on.
func endToEnd(h http.Header) http.Header {
	h = h.Clone()
	for _, named := range h.Values("Connection") {
		for name := range strings.SplitSeq(named, ",") {
			h.Del(strings.TrimSpace(name))
		}
	}
	for _, name := range hopByHop {
		h.Del(name)
	}
	h.Del(ReleaseHeader)
	return h
}
