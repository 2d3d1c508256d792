package prom

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
)

// Server answers Prometheus at /metrics.
type Server struct {
	http    *http.Server
	at      net.Addr
	serving sync.WaitGroup
}

// Listen answers for what a registry has, at an address host:port.
func Listen(ctx context.Context, address string, registry prometheus.Gatherer, log *slog.Logger) (*Server, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	s := &Server{
		http: &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)},
		at:   listener.Addr(),
	}
	s.serving.Go(func() {
		if err := s.http.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "at", address, "error", err)
		}
	})
	return s, nil
}

// Address is where it listens.
func (s *Server) Address() string { return s.at.String() }

// Close ends it.
func (s *Server) Close() error {
	err := s.http.Close()
	s.serving.Wait()
	return err
}
