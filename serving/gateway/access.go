package gateway

import (
	"context"
	"io"
	"net"
	"net/http"
	"strconv"
	"sync"
	"time"

	"google.golang.org/grpc/codes"

	"github.com/sluiceml/sluice/serving/access"
	"github.com/sluiceml/sluice/serving/door"
	"github.com/sluiceml/sluice/serving/oip"
)

// note is the line of a request in the access log. The handlers of the request fill it in. Over gRPC they may continue after the client has
// disconnected and the line is written. A nil note belongs to a gateway without an access log.
type note struct {
	mu    sync.Mutex
	entry access.Entry
}

type noteKey struct{}

// note returns that of a request.
func (g *Gateway) note(ctx context.Context) *note {
	if g.opts.Access == nil {
		return nil
	}
	n, _ := ctx.Value(noteKey{}).(*note)
	return n
}

// caller records who sent the request.
func (n *note) caller(c door.Caller) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.entry.Key, n.entry.Subject = c.Key(), c.Subject()
}

// assigned records which release the request was given to, and why.
func (n *note) assigned(a *assignment, key string) {
	if n == nil {
		return
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	n.entry.Release, n.entry.Model, n.entry.Named, n.entry.Sticky = a.Version, a.Model.Digest, !a.counted, a.counted && key != ""
	if a.shadow != nil {
		n.entry.Shadow = a.shadow.Version
	}
}

func (n *note) line() access.Entry {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.entry
}

// logged adds a line to the access log, if there is one, for each request but those for health, which need no key and which load balancers
// make all the time.
func (g *Gateway) logged(next http.Handler, verbOf func(*http.Request) (verb door.Verb, needed bool)) http.Handler {
	if g.opts.Access == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, needed := verbOf(r); !needed {
			next.ServeHTTP(w, r)
			return
		}
		began := time.Now()
		n := &note{}
		in, out := &countedRequest{ReadCloser: r.Body}, &countedAnswer{ResponseWriter: w, client: r.Context()}
		r = r.WithContext(context.WithValue(r.Context(), noteKey{}, n))
		r.Body = in
		ended := false
		defer func() {
			e := g.line(n, r, began)
			e.Aborted = !ended || out.failed || (out.silent || isGRPC(r)) && out.left() // the end of an answer over gRPC is yet to be sent
			e.Status, e.GRPC, e.In, e.Out = out.status, out.grpcStatus(r, e.Aborted), in.bytes, out.bytes
			g.opts.Access.Add(e)
		}()
		next.ServeHTTP(out, r)
		ended = true
		if out.status == 0 {
			out.silent = true
			out.status = http.StatusOK // which net/http says for those who say nothing
		}
	})
}

// line is what a line says of a request that began at a time, but for what was read and answered.
func (g *Gateway) line(n *note, r *http.Request, began time.Time) access.Entry {
	e := n.line()
	e.Time, e.Target, e.Method, e.Path = began.UTC().Truncate(time.Millisecond), g.opts.Target, r.Method, r.URL.Path
	e.Duration = float64(time.Since(began).Microseconds()) / 1000
	e.Client, _, _ = net.SplitHostPort(r.RemoteAddr) // empty where there is no connection
	e.Trace = oip.CallOf("", r.Header).TraceID()
	return e
}

// logMessage adds the line of a message of a stream. That of the stream follows at its end.
func (g *Gateway) logMessage(r *http.Request, a streamAnswer, aborted bool) {
	if g.opts.Access == nil {
		return
	}
	e := g.line(a.note, r, a.to.arrived)
	status := int(a.status)
	e.Message, e.Status, e.GRPC, e.Aborted = a.to.number, http.StatusOK, &status, aborted
	e.In, e.Out = int64(messagePrefix+len(a.to.content)), int64(len(a.frame))
	g.opts.Access.Add(e)
}

// countedRequest counts the bytes of a request's body that were read.
type countedRequest struct {
	io.ReadCloser
	bytes int64
}

// Read implements io.Reader.
func (c *countedRequest) Read(p []byte) (int, error) {
	n, err := c.ReadCloser.Read(p)
	c.bytes += int64(n)
	return n, err
}

// countedAnswer sees what is answered.
type countedAnswer struct {
	http.ResponseWriter
	client context.Context // ends when the client has gone
	status int
	bytes  int64
	silent bool // nothing was written
	failed bool
}

// left reports whether the client has disconnected. Call it before writing: small answers are buffered, so their writing does not fail,
// while a client that has received all of an answer may disconnect before its handler returns.
func (c *countedAnswer) left() bool { return c.client.Err() != nil }

// Unwrap is for http.ResponseController.
func (c *countedAnswer) Unwrap() http.ResponseWriter { return c.ResponseWriter }

// WriteHeader implements http.ResponseWriter.
func (c *countedAnswer) WriteHeader(status int) {
	if c.status < http.StatusOK { // what came before was provisional
		c.status = status
	}
	c.failed = c.failed || c.left()
	c.ResponseWriter.WriteHeader(status)
}

// Write implements http.ResponseWriter.
func (c *countedAnswer) Write(p []byte) (int, error) {
	c.status = max(c.status, http.StatusOK)
	c.failed = c.failed || c.left()
	n, err := c.ResponseWriter.Write(p)
	c.bytes += int64(n)
	c.failed = c.failed || err != nil
	return n, err
}

// Flush implements http.Flusher, which gRPC needs.
func (c *countedAnswer) Flush() { _ = c.FlushError() }

// FlushError is for http.ResponseController.
func (c *countedAnswer) FlushError() error {
	err := http.NewResponseController(c.ResponseWriter).Flush()
	c.failed = c.failed || err != nil
	return err
}

// grpcStatus is the status in the trailer of an answer over gRPC, or that of a call which its client has ended; nil for another answer.
func (c *countedAnswer) grpcStatus(r *http.Request, aborted bool) *int {
	if !isGRPC(r) {
		return nil
	}
	code, err := strconv.Atoi(c.Header().Get("Grpc-Status"))
	switch {
	case err != nil && aborted:
		code = int(codes.Canceled)
	case err != nil:
		return nil
	}
	return &code
}
