// Package prom counts and holds, for Prometheus, what package telemetry names.
package prom

import (
	"slices"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluiceml/sluice/internal/telemetry"
)

// Desc is a metric as Prometheus's library describes it.
func Desc(m telemetry.Metric) *prometheus.Desc {
	return prometheus.NewDesc(m.Name, m.Help, m.LabelNames(), nil)
}

// Counters are the counters of some metrics, at 0 for each value that their labels may have. A nil one counts nothing.
type Counters struct {
	vectors map[string]vector
}

type vector struct {
	*prometheus.CounterVec
	telemetry.Metric
}

// NewCounters makes the counters.
func NewCounters(metrics []telemetry.Metric) *Counters {
	c := &Counters{vectors: map[string]vector{}}
	for _, m := range metrics {
		v := vector{prometheus.NewCounterVec(prometheus.CounterOpts{Name: m.Name, Help: m.Help}, m.LabelNames()), m}
		v.begin(nil)
		c.vectors[m.Name] = v
	}
	return c
}

// begin begins the series of all combinations of values.
func (v vector) begin(values []string) {
	if len(values) == len(v.Labels) {
		v.WithLabelValues(values...)
		return
	}
	for _, value := range v.Labels[len(values)].Values {
		v.begin(append(slices.Clip(values), value))
	}
}

// Describe implements prometheus.Collector.
func (c *Counters) Describe(ch chan<- *prometheus.Desc) {
	for _, v := range c.vectors {
		v.Describe(ch)
	}
}

// Collect implements prometheus.Collector.
func (c *Counters) Collect(ch chan<- prometheus.Metric) {
	for _, v := range c.vectors {
		v.CounterVec.Collect(ch)
	}
}

// Has reports whether a metric is among them.
func (c *Counters) Has(name string) bool {
	_, ok := c.vectors[name]
	return ok
}

// Add counts n, in the metric's unit, under the labels that the metric has; others are left out. A value that the table lacks counts as
// telemetry.Other, so that no document and no user decides how many series there are.
func (c *Counters) Add(name string, labels map[string]string, n float64) {
	if c == nil {
		return
	}
	v, ok := c.vectors[name]
	if !ok || n < 0 {
		return
	}
	values := make([]string, len(v.Labels))
	for i, l := range v.Labels {
		if values[i] = labels[l.Name]; !slices.Contains(l.Values, values[i]) {
			values[i] = telemetry.Other
		}
	}
	if v.Unit != 0 {
		n *= v.Unit
	}
	v.WithLabelValues(values...).Add(n)
}
