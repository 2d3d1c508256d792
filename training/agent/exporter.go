package agent

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/internal/telemetry/prom"
	"github.com/sluiceml/sluice/training"
)

// export serves metrics to Prometheus until the returned function is called, if the pool sets an address. If it fails, for example because
// another node on the machine has the port, the node trains without metrics.
func (n *node) export(ctx context.Context) (end func()) {
	if n.config.MetricsListen == "" {
		return func() {}
	}
	n.counters = prom.NewCounters(telemetry.NodeCounters())
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), n.counters, prom.NewSource(telemetry.NodeGauges(), n.samples))
	server, err := prom.Listen(ctx, n.config.MetricsListen, registry, n.log)
	if err != nil {
		n.log.Warn("no metrics of this node: cannot serve Prometheus", "error", err)
		return func() {}
	}
	n.log.Info("serving Prometheus metrics", "at", server.Address())
	return func() {
		if err := server.Close(); err != nil {
			n.log.Warn("no longer serving Prometheus metrics", "error", err)
		}
	}
}

// samples returns what is currently known of the node.
func (n *node) samples() []telemetry.Sample {
	n.mu.Lock()
	r, until, rebalance := n.ranks, n.notice.Until, n.rebalance
	n.mu.Unlock()
	samples := []telemetry.Sample{{Metric: telemetry.NodeRanks}}
	add := func(m telemetry.Metric, value float64) {
		samples = append(samples, telemetry.Sample{Metric: m, Value: value})
	}
	if !until.IsZero() {
		add(telemetry.NodeNotice, float64(until.UnixMilli())/1000)
	}
	if !rebalance.IsZero() {
		add(telemetry.NodeRebalance, float64(rebalance.UnixMilli())/1000)
	}
	if r == nil || isClosed(r.done) {
		return samples
	}
	samples[0].Value = float64(r.launch.ranks)
	p := r.progress()
	if p.Node == 0 {
		add(telemetry.NodeStep, float64(p.Step))
		add(telemetry.NodeRate, p.StepsPerSecond)
		add(telemetry.NodeCommitted, float64(p.CommittedStep))
	}
	return append(samples, training.GPUSamples(telemetry.NodeGPUs, p.GPUs)...)
}
