package prom

import (
	"strings"
	"sync"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluiceml/sluice/internal/telemetry"
)

// Gauges are what is known of things that go on in this process. What several of them say under the same labels is added. A nil one holds
// nothing.
type Gauges struct {
	descs map[string]*prometheus.Desc

	mu   sync.Mutex
	held map[*Held][]telemetry.Sample
}

// NewGauges makes the gauges of some metrics.
func NewGauges(metrics []telemetry.Metric) *Gauges {
	g := &Gauges{descs: map[string]*prometheus.Desc{}, held: map[*Held][]telemetry.Sample{}}
	for _, m := range metrics {
		g.descs[m.Name] = Desc(m)
	}
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

// Describe implements prometheus.Collector.
func (g *Gauges) Describe(ch chan<- *prometheus.Desc) {
	for _, d := range g.descs {
		ch <- d
	}
}

// Collect implements prometheus.Collector.
func (g *Gauges) Collect(ch chan<- prometheus.Metric) {
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
	for _, s := range sums {
		ch <- prometheus.MustNewConstMetric(g.descs[s.Metric.Name], prometheus.GaugeValue, s.Value, s.Labels...)
	}
}
