package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/internal/telemetry/prom"
	"github.com/sluiceml/sluice/serving/stats"
)

// bounds of the latency histogram that Prometheus sees; the statistics use finer ones.
var bounds = []time.Duration{
	250 * time.Microsecond, 500 * time.Microsecond, time.Millisecond, 2500 * time.Microsecond, 5 * time.Millisecond,
	10 * time.Millisecond, 25 * time.Millisecond, 50 * time.Millisecond, 100 * time.Millisecond, 250 * time.Millisecond,
	500 * time.Millisecond, time.Second, 2500 * time.Millisecond, 5 * time.Second, 10 * time.Second,
}

var (
	requestsDesc = prom.Desc(telemetry.Requests)
	latencyDesc  = prom.Desc(telemetry.RequestDuration)
	firstDesc    = prom.Desc(telemetry.FirstToken)
	tokenDesc    = prom.Desc(telemetry.PerToken)
	shadowDesc   = prom.Desc(telemetry.Shadow)
	weightDesc   = prom.Desc(telemetry.ReleaseWeight)
	readyDesc    = prom.Desc(telemetry.ReleaseReady)
	revisionDesc = prom.Desc(telemetry.RoutingRevision)
	logLostDesc  = prom.Desc(telemetry.AccessLogLost)
)

// Describe says what Collect sends.
func Describe(ch chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{requestsDesc, latencyDesc, firstDesc, tokenDesc, shadowDesc, weightDesc, readyDesc, revisionDesc, logLostDesc} {
		ch <- d
	}
	describeInferences(ch)
}

// Collect sends the counts of the server's gateway.
func (s *Server) Collect(ch chan<- prometheus.Metric) { collector{s.Gateway}.Collect(ch) }

// collector reads a gateway's counts when Prometheus asks.
type collector struct{ gateway *Gateway }

// Describe implements prometheus.Collector.
func (c collector) Describe(ch chan<- *prometheus.Desc) { Describe(ch) }

// Collect implements prometheus.Collector.
func (c collector) Collect(ch chan<- prometheus.Metric) {
	target := c.gateway.opts.Target
	counter := func(desc *prometheus.Desc, value int64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.CounterValue, float64(value), append([]string{target}, labels...)...)
	}
	gauge := func(desc *prometheus.Desc, value float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(desc, prometheus.GaugeValue, value, append([]string{target}, labels...)...)
	}
	versions, shadows := c.gateway.counters.totals()
	for version, n := range versions {
		counter(requestsDesc, n.Requests-n.Errors(), version, string(answered))
		counter(requestsDesc, n.Wrong, version, string(wrong))
		counter(requestsDesc, n.Refused, version, "label_refused")
		counter(requestsDesc, n.Failures, version, string(failure))
		counter(requestsDesc, n.ClientErrors, version, string(clientError))
		counter(requestsDesc, n.Left, version, string(clientLeft))
		ch <- timesMetric(latencyDesc, n.Latency, target, version)
		if c.gateway.opts.Protocol == OpenAI {
			ch <- timesMetric(firstDesc, n.FirstToken, target, version)
			ch <- timesMetric(tokenDesc, n.PerToken, target, version)
		}
	}
	for _, s := range shadows {
		counter(shadowDesc, s.Samples, s.Version, "samples")
		counter(shadowDesc, s.Agree, s.Version, "agree")
		counter(shadowDesc, s.Dropped, s.Version, "dropped")
	}
	c.gateway.collectInferences(ch)
	state := c.gateway.State()
	gauge(revisionDesc, float64(state.Serving))
	if log := c.gateway.opts.Access; log != nil {
		counter(logLostDesc, log.Lost())
	}
	for _, r := range state.Releases {
		gauge(weightDesc, r.Weight, r.Version)
		ready := 0.0
		if r.State == Ready {
			ready = 1
		}
		gauge(readyDesc, ready, r.Version)
	}
}

func timesMetric(desc *prometheus.Desc, h stats.Histogram, labels ...string) prometheus.Metric {
	buckets := make(map[float64]uint64, len(bounds))
	for i, n := range h.Cumulative(bounds) {
		buckets[bounds[i].Seconds()] = uint64(n)
	}
	return prometheus.MustNewConstHistogram(desc, uint64(h.Count()), h.Sum().Seconds(), buckets, labels...)
}
