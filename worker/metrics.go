package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/uber-go/tally/v4"
	tallyprom "github.com/uber-go/tally/v4/prometheus"
	"go.temporal.io/sdk/client"
	sdktally "go.temporal.io/sdk/contrib/tally"

	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/internal/telemetry/prom"
	"github.com/sluiceml/sluice/serving/gateway"
)

// metricsEvery is how often what the SDK measures is handed to Prometheus's registry.
const metricsEvery = time.Second

// metrics are what a worker tells Prometheus: what Temporal's SDK measures, what workflows count, what activities know of trainings and
// rollouts while they last, and the gateways' requests. Nil without Options.MetricsListen.
type metrics struct {
	registry *prometheus.Registry
	scope    io.Closer
	handler  metricsHandler // for Temporal's SDK and for workflows
	gauges   *prom.Gauges
	server   *prom.Server
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
	return &metrics{
		registry: registry, scope: closer, gauges: prom.NewGauges(slices.Concat(telemetry.Trainings(), telemetry.Rollouts())),
		handler: metricsHandler{
			MetricsHandler: sdktally.NewMetricsHandler(sdktally.NewPrometheusNamingScope(scope)), counters: prom.NewCounters(telemetry.Runs()),
		},
	}
}

// held are the gauges of activities; nil without metrics.
func (m *metrics) held() *prom.Gauges {
	if m == nil {
		return nil
	}
	return m.gauges
}

// listen answers /metrics at an address, host:port, for the worker of a namespace and with the gateways' metrics.
func (m *metrics) listen(ctx context.Context, address, namespace string, g *Gateways, log *slog.Logger) (err error) {
	own := prometheus.WrapRegistererWith(prometheus.Labels{"namespace": namespace}, m.registry)
	own.MustRegister(m.handler.counters, m.gauges)
	m.registry.MustRegister(gatewayMetrics{g})
	if m.server, err = prom.Listen(ctx, address, m.registry, log); err != nil {
		return fmt.Errorf("listen for Prometheus: %w: use another address with --metrics-listen", err)
	}
	return nil
}

// MetricsAddress is where the worker answers Prometheus; empty where it does not.
func (w *Worker) MetricsAddress() string {
	if w == nil || w.metrics == nil || w.metrics.server == nil {
		return ""
	}
	return w.metrics.server.Address()
}

func (m *metrics) close() error {
	err := m.scope.Close()
	if m.server != nil {
		err = errors.Join(err, m.server.Close())
	}
	return err
}

// metricsHandler counts what workflows count by the table, which knows help texts and all values of labels, and hands on what the SDK
// measures. The SDK puts its own in front for workflows, which counts nothing again in a replay.
type metricsHandler struct {
	client.MetricsHandler
	counters *prom.Counters
	labels   map[string]string
}

// WithTags implements client.MetricsHandler.
func (h metricsHandler) WithTags(tags map[string]string) client.MetricsHandler {
	labels := map[string]string{}
	maps.Copy(labels, h.labels)
	maps.Copy(labels, tags)
	return metricsHandler{h.MetricsHandler.WithTags(tags), h.counters, labels}
}

// Counter implements client.MetricsHandler.
func (h metricsHandler) Counter(name string) client.MetricsCounter {
	if !h.counters.Has(name) {
		return h.MetricsHandler.Counter(name)
	}
	return tableCounter{h, name}
}

// tableCounter is one of telemetry's.
type tableCounter struct {
	metricsHandler
	name string
}

// Inc implements client.MetricsCounter.
func (c tableCounter) Inc(n int64) { c.counters.Add(c.name, c.labels, float64(n)) }

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
