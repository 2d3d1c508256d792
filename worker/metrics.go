package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/uber-go/tally/v4"
	tallyprom "github.com/uber-go/tally/v4/prometheus"
	"go.temporal.io/sdk/client"
	sdktally "go.temporal.io/sdk/contrib/tally"

	"github.com/sluiceml/sluice/serving/gateway"
)

// metricsEvery is how often what the SDK and the workflows count is handed to Prometheus's registry.
const metricsEvery = time.Second

// metrics are what a worker tells Prometheus: what Temporal's SDK measures, what workflows count, and the gateways' requests.
type metrics struct {
	handler  client.MetricsHandler
	registry *prometheus.Registry
	scope    io.Closer
	server   *http.Server
	serving  sync.WaitGroup
}

func newMetrics(log *slog.Logger) *metrics {
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	reporter := tallyprom.NewReporter(tallyprom.Options{
		Registerer:       registry,
		DefaultTimerType: tallyprom.HistogramTimerType,
		OnRegisterError:  func(err error) { log.Warn("a metric is not exported", "error", err) },
	})
	scope, closer := tally.NewRootScope(tally.ScopeOptions{
		CachedReporter: reporter, Separator: tallyprom.DefaultSeparator, SanitizeOptions: &sdktally.PrometheusSanitizeOptions,
		OmitCardinalityMetrics: true,
	}, metricsEvery)
	return &metrics{registry: registry, scope: closer, handler: sdktally.NewMetricsHandler(sdktally.NewPrometheusNamingScope(scope))}
}

// sdk is the handler for Temporal's SDK; nil, which counts nothing, without metrics.
func (m *metrics) sdk() client.MetricsHandler {
	if m == nil {
		return nil
	}
	return m.handler
}

// listen answers /metrics at an address, host:port, with the gateways' metrics too.
func (m *metrics) listen(ctx context.Context, address string, g *Gateways, log *slog.Logger) error {
	m.registry.MustRegister(gatewayMetrics{g})
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return fmt.Errorf("listen for Prometheus: %w: give --metrics-listen another address", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{}))
	m.server = &http.Server{Handler: mux, ReadHeaderTimeout: 10 * time.Second, ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn)}
	m.serving.Go(func() {
		if err := m.server.Serve(listener); !errors.Is(err, http.ErrServerClosed) {
			log.Error("metrics are no longer served", "at", address, "error", err)
		}
	})
	return nil
}

func (m *metrics) close() error {
	err := m.scope.Close()
	if m.server != nil {
		err = errors.Join(err, m.server.Close())
		m.serving.Wait()
	}
	return err
}

// gatewayMetrics are those of all gateways that a process serves at the moment.
type gatewayMetrics struct{ *Gateways }

// Describe implements prometheus.Collector.
func (gatewayMetrics) Describe(ch chan<- *prometheus.Desc) { gateway.Describe(ch) }

// Collect implements prometheus.Collector.
func (g gatewayMetrics) Collect(ch chan<- prometheus.Metric) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, s := range g.served {
		s.Collect(ch)
	}
}
