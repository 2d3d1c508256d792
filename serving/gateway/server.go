package gateway

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"strconv"
	"sync"
	"syscall"
	"time"
)

// ErrPortInUse says that another process listens where the gateway should.
var ErrPortInUse = errors.New("the port is in use")

// Ports are where a Server listens; 0 takes any free one.
type Ports struct {
	Host    string // the address for the model's clients; empty for loopback
	Model   int
	Metrics int // and control, always on loopback
}

// loopback is where a Server listens unless it is told otherwise.
const loopback = "127.0.0.1"

// Server is a Gateway that listens: for the model's clients, and apart from them for Control.
type Server struct {
	Gateway *Gateway
	model   *door
	control *door
}

// Serve starts a gateway. ErrPortInUse when a port is taken.
func Serve(ctx context.Context, ports Ports, opts Options) (*Server, error) {
	model, err := listen(ctx, cmp.Or(ports.Host, loopback), ports.Model, opts.Target, "port")
	if err != nil {
		return nil, err
	}
	control, err := listen(ctx, loopback, ports.Metrics, opts.Target, "metrics_port")
	if err != nil {
		return nil, errors.Join(err, model.Close())
	}
	opts.URL = "http://" + reachable(model.Addr())
	g := New(opts)
	return &Server{Gateway: g, model: open(model, g, g), control: open(control, g.Control(), g)}, nil
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

// ControlURL is where Control is, and so its metrics: http://127.0.0.1:9464.
func (s *Server) ControlURL() string { return s.control.url }

// Close answers the requests under way until ctx ends, then drops the rest and lets go of the releases.
func (s *Server) Close(ctx context.Context) error {
	return errors.Join(s.model.close(ctx), s.control.close(ctx), s.Gateway.Close())
}

// door is one port of a Server.
type door struct {
	url     string
	http    *http.Server
	serving sync.WaitGroup
}

// reachable is an address at which this machine reaches a listener: one that listens on all addresses is reached on loopback.
func reachable(address net.Addr) string {
	if tcp, ok := address.(*net.TCPAddr); ok && tcp.IP.IsUnspecified() {
		return net.JoinHostPort(loopback, strconv.Itoa(tcp.Port))
	}
	return address.String()
}

func open(listener net.Listener, handler http.Handler, g *Gateway) *door {
	var protocols http.Protocols
	protocols.SetHTTP1(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC's
	d := &door{
		url: "http://" + reachable(listener.Addr()),
		http: &http.Server{
			Handler:           handler,
			Protocols:         &protocols,
			ReadHeaderTimeout: 10 * time.Second,
			ReadTimeout:       bodyTimeout,
			WriteTimeout:      bodyTimeout + g.opts.Timeout + answerTime, // it counts from the request's header
			IdleTimeout:       2 * time.Minute,
			ErrorLog:          slog.NewLogLogger(g.log.Handler(), slog.LevelWarn),
		},
	}
	d.serving.Go(func() {
		if err := d.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			g.log.Error("the gateway has stopped listening", "at", d.url, "error", err)
		}
	})
	return d
}

func (d *door) close(ctx context.Context) error {
	err := d.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, d.http.Close())
	}
	d.serving.Wait()
	return err
}
