package gateway

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/internal/telemetry/prom"
	"github.com/sluiceml/sluice/serving/batch"
)

// counted is an Upstream that counts the inferences it makes.
type counted interface{ Stats() batch.Stats }

// provided is one that an execution provider of ONNX Runtime computes.
type provided interface{ Provider() string }

// rowBounds of the histogram of batches.
var rowBounds = []int64{1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024}

// inferenceValues are what a model has run, but for the histogram of its batches.
var inferenceValues = []struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(batch.Stats) float64
}{
	{prom.Desc(telemetry.InferenceSuccess), prometheus.CounterValue, func(s batch.Stats) float64 { return float64(s.Succeeded) }},
	{prom.Desc(telemetry.InferenceFailure), prometheus.CounterValue, func(s batch.Stats) float64 { return float64(s.Failed) }},
	{prom.Desc(telemetry.InferenceCount), prometheus.CounterValue, func(s batch.Stats) float64 { return float64(s.Rows) }},
	{prom.Desc(telemetry.InferenceExecutions), prometheus.CounterValue, func(s batch.Stats) float64 { return float64(s.Inferences) }},
	{prom.Desc(telemetry.InferencePending), prometheus.GaugeValue, func(s batch.Stats) float64 { return float64(s.Pending) }},
	{prom.Desc(telemetry.InferenceDuration), prometheus.CounterValue, func(s batch.Stats) float64 { return microseconds(s.Requests) }},
	{prom.Desc(telemetry.InferenceQueued), prometheus.CounterValue, func(s batch.Stats) float64 { return microseconds(s.Queued) }},
	{prom.Desc(telemetry.InferenceComputed), prometheus.CounterValue, func(s batch.Stats) float64 { return microseconds(s.Computed) }},
	{prom.Desc(telemetry.BatchLimit), prometheus.GaugeValue, func(s batch.Stats) float64 { return float64(s.Limit) }},
}

var batchRowsDesc, providerDesc = prom.Desc(telemetry.BatchRows), prom.Desc(telemetry.Provider)

func microseconds(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func describeInferences(ch chan<- *prometheus.Desc) {
	for _, v := range inferenceValues {
		ch <- v.desc
	}
	ch <- batchRowsDesc
	ch <- providerDesc
}

// collectInferences sends what the models that are loaded have run.
func (g *Gateway) collectInferences(ch chan<- prometheus.Metric) {
	models := map[string]counted{}
	g.mu.RLock()
	for version, r := range g.releases {
		if model, ok := r.upstream.(counted); ok {
			models[version] = model
		}
	}
	g.mu.RUnlock()
	for version, model := range models {
		stats := model.Stats()
		if by, ok := model.(provided); ok {
			ch <- prometheus.MustNewConstMetric(providerDesc, prometheus.GaugeValue, 1, g.opts.Target, version, by.Provider())
		}
		for _, v := range inferenceValues {
			ch <- prometheus.MustNewConstMetric(v.desc, v.kind, v.value(stats), g.opts.Target, version)
		}
		buckets := make(map[float64]uint64, len(rowBounds))
		for _, bound := range rowBounds {
			for rows, size := range stats.Sizes {
				if rows <= bound {
					buckets[float64(bound)] += uint64(size.Inferences)
				}
			}
		}
		ch <- prometheus.MustNewConstHistogram(batchRowsDesc, uint64(stats.Inferences), float64(stats.Rows), buckets, g.opts.Target, version)
	}
}
