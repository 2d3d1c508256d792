package gateway

import (
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

// Server is a Gateway that listens on loopback.
type Server struct {
	Gateway *Gateway
	url     string
	http    *http.Server
	serving sync.WaitGroup
}

// Serve starts a gateway on a loopback port; 0 takes any free one. ErrPortInUse when the port is taken.
func Serve(ctx context.Context, port int, opts Options) (*Server, error) {
	address := net.JoinHostPort("127.0.0.1", strconv.Itoa(port))
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp4", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("target %s cannot listen on %s: %w by another process, such as a second worker; end that, or give the target another port in the environment",
			opts.Target, address, ErrPortInUse)
	}
	if err != nil {
		return nil, fmt.Errorf("target %s: %w", opts.Target, err)
	}
	g := New(opts)
	s := &Server{
		Gateway: g,
		url:     "http://" + listener.Addr().String(),
		http: &http.Server{
			Handler:           g,
			ReadHeaderTimeout: 10 * time.Second,
			ReadTimeout:       time.Minute,
			IdleTimeout:       2 * time.Minute,
			ErrorLog:          slog.NewLogLogger(opts.Logger.Handler(), slog.LevelWarn),
		},
	}
	s.serving.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			g.log.Error("the gateway has stopped listening", "error", err)
		}
	})
	return s, nil
}

// URL is where the gateway listens: http://127.0.0.1:8080.
func (s *Server) URL() string { return s.url }

// Close answers the requests under way until ctx ends, then drops the rest and lets go of the releases.
func (s *Server) Close(ctx context.Context) error {
	err := s.http.Shutdown(ctx)
	if err != nil {
		err = errors.Join(err, s.http.Close())
	}
	s.serving.Wait()
	return errors.Join(err, s.Gateway.Close())
}
