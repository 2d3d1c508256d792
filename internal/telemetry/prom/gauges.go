package prom

import (
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluiceml/sluice/internal/telemetry"
)

// Gauges are what is known of things that go on in this process. What several of them say under the same labels is added. A nil one holds
// nothing.
type Gauges struct {
	Source
	mu   sync.Mutex
	held map[*Held][]telemetry.Sample
}

// NewGauges makes the gauges of some metrics.
func NewGauges(metrics []telemetry.Metric) *Gauges {
	g := &Gauges{held: map[*Held][]telemetry.Sample{}}
	g.Source = NewSource(metrics, g.sums)
	return g
}

// Held is what is known of one thing. A nil one takes nothing.
type Held struct{ gauges *Gauges }

// Hold makes room for what is known of one thing, until it is released.
func (g *Gauges) Hold() *Held {
	if g == nil {
		return nil
	}
	return &Held{g}
}

// Set takes the place of all that was known of it.
func (h *Held) Set(samples []telemetry.Sample) {
	if h == nil {
		return
	}
	h.gauges.mu.Lock()
	defer h.gauges.mu.Unlock()
	h.gauges.held[h] = samples
}

// Release ends it: from now on nothing is exported of it.
func (h *Held) Release() {
	if h == nil {
		return
	}
	h.gauges.mu.Lock()
	defer h.gauges.mu.Unlock()
	delete(h.gauges.held, h)
}

// sums are the sums over what is held.
func (g *Gauges) sums() []telemetry.Sample {
	g.mu.Lock()
	defer g.mu.Unlock()
	sums := map[string]telemetry.Sample{}
	for _, samples := range g.held {
		for _, s := range samples {
			series := s.Metric.Name + "\xff" + strings.Join(s.Labels, "\xff")
			s.Value += sums[series].Value
			sums[series] = s
		}
	}
	return slices.Collect(maps.Values(sums))
}

// Source exports gauges that are asked for when Prometheus asks.
type Source struct {
	descs   map[string]*prometheus.Desc
	samples func() []telemetry.Sample
}

// NewSource makes a source of samples of some metrics.
func NewSource(metrics []telemetry.Metric, samples func() []telemetry.Sample) Source {
	s := Source{descs: map[string]*prometheus.Desc{}, samples: samples}
	for _, m := range metrics {
		s.descs[m.Name] = Desc(m)
	}
	return s
}

// Describe implements prometheus.Collector.
func (s Source) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range s.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (s Source) Collect(ch chan<- prometheus.Metric) {
	for _, at := range s.samples() {
		ch <- prometheus.MustNewConstMetric(s.descs[at.Metric.Name], prometheus.GaugeValue, at.Value, at.Labels...)
	}
}
