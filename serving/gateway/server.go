package gateway

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/access"
	"github.com/sluiceml/sluice/serving/door"
	"github.com/sluiceml/sluice/serving/routing"
)

// ErrPortInUse says that another process listens where the gateway should.
var ErrPortInUse = errors.New("the port is in use")

// Ports are where a Server listens, who may pass, and what is noted of them; 0 takes any free port.
type Ports struct {
	Host        string // the address for the model's clients; empty for loopback
	Model       int
	MetricsHost string // empty for loopback
	Metrics     int
	Control     int // always on loopback
	// Door is that of the model and of metrics that are not on loopback. The Server closes it, and so does Serve when it fails.
	Door *door.Door
	// Access is the log of the model's requests; nil for none. It is closed like the Door.
	Access *access.Log
	// Read, if set, is told of every document that the gateway follows. It must not wait.
	Read func(routing.Document)
}

const (
	// loopback is where a Server listens unless it is told otherwise.
	loopback = "127.0.0.1"
	// maxHeader bounds a request's header, in bytes.
	maxHeader = 64 << 10
)

// Server is a Gateway that listens: for the model's clients, and apart from them for its metrics, and for Control.
type Server struct {
	Gateway *Gateway
	door    *door.Door
	access  *access.Log
	model   *entrance
	metrics *entrance
	control *entrance
}

// Serve starts a gateway. ErrPortInUse when a port is taken.
func Serve(ctx context.Context, ports Ports, opts Options) (*Server, error) {
	var listeners []net.Listener
	for _, at := range []struct {
		host string
		port int
		key  string // of the environment
	}{{ports.Host, ports.Model, "port"}, {ports.MetricsHost, ports.Metrics, "metrics_port"}, {"", ports.Control, "admin_port"}} {
		listener, err := listen(ctx, cmp.Or(at.host, loopback), at.port, opts.Target, at.key)
		if err != nil {
			for _, other := range listeners {
				err = errors.Join(err, other.Close())
			}
			ports.Door.Close()
			ports.Access.Close()
			return nil, err
		}
		listeners = append(listeners, listener)
	}
	opts.Door, opts.Access, opts.Read = ports.Door, ports.Access, ports.Read
	model, atMetrics := secure(listeners[0], ports.Door), listeners[1]
	opts.URL = addressOf(model)
	g := New(opts)
	metrics, answer := onLoopback(g.Metrics()), http.Handler(g)
	if spec.IsLoopback(ports.Host) && !ports.Door.Keyed() {
		answer = readOnLoopback(g)
	}
	if !spec.IsLoopback(ports.MetricsHost) {
		metrics, atMetrics = g.admitted(g.Metrics(), func(*http.Request) (door.Verb, bool) { return door.Metrics, true }), secure(atMetrics, ports.Door)
	}
	return &Server{
		Gateway: g, door: ports.Door, access: ports.Access,
		model: open(model, answer, g), metrics: open(atMetrics, metrics, g), control: open(listeners[2], g.Control(), g),
	}, nil
}

// secured is a listener with TLS.
type secured struct{ net.Listener }

// secure adds the TLS of a door that has it.
func secure(listener net.Listener, d *door.Door) net.Listener {
	config := d.TLS()
	if config == nil {
		return listener
	}
	return secured{tls.NewListener(listener, config)}
}

// listen takes a port, which the environment gives under a key.
func listen(ctx context.Context, host string, port int, target, key string) (net.Listener, error) {
	address := net.JoinHostPort(host, strconv.Itoa(port))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("target %s cannot listen on %s: %w by another process, such as a second worker; stop that, or set another `%s` for the target in the environment",
			target, address, ErrPortInUse, key)
	}
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", target, err)
	}
	return listener, nil
}

// URL is where this machine reaches the model: http://127.0.0.1:8080.
func (s *Server) URL() string { return s.model.url }

// MetricsURL is where Prometheus finds the metrics: http://127.0.0.1:9464/metrics.
func (s *Server) MetricsURL() string { return s.metrics.url + "/metrics" }

// ControlURL is where Control is: http://127.0.0.1:9465.
func (s *Server) ControlURL() string { return s.control.url }

// Close answers the requests under way until ctx ends, then drops the connections of the rest. It returns once their inferences have ended too and
// the releases are unloaded, which may be later.
func (s *Server) Close(ctx context.Context) error {
	s.Gateway.streams.end() // else they would last as long as their clients want
	err := errors.Join(s.model.close(ctx), s.metrics.close(ctx), s.control.close(ctx), s.Gateway.Close())
	s.door.Close()
	s.access.Close()
	return err
}

// entrance is one port of a Server.
type entrance struct {
	url     string
	http    *http.Server
	serving sync.WaitGroup
}

// addressOf is where this machine reaches a listener.
func addressOf(listener net.Listener) string {
	if _, ok := listener.(secured); ok {
		return "https://" + reachable(listener.Addr())
	}
	return "http://" + reachable(listener.Addr())
}

// reachable is an address at which this machine reaches a listener: one that listens on all addresses is reached on loopback.
func reachable(address net.Addr) string {
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort(loopback, strconv.Itoa(tcp.Port))
	}
	return address.String()
}

func open(listener net.Listener, handler http.Handler, g *Gateway) *entrance {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC's without TLS
	e := &entrance{
		url: addressOf(listener),
		http: &http.Server{
			Handler:           handler,
			Protocols:         &protocols,
			MaxHeaderBytes:    maxHeader,
			ReadHeaderTimeout: 10 * time.Second, // of a handshake too
			ReadTimeout:       bodyTimeout,
			WriteTimeout:      bodyTimeout + g.opts.Timeout + answerTime, // it counts from the request's header
			IdleTimeout:       2 * time.Minute,
			ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
		},
	}
	e.serving.Go(func() {
		if err := e.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			g.log.Error("the gateway has stopped listening", "at", e.url, "error", err)
		}
	})
	return e
}

func (e *entrance) close(ctx context.Context) error {
	err := e.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, e.http.Close())
	}
	e.serving.Wait()
	return err
}
