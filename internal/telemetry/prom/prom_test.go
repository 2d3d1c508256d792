package prom

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/sluiceml/sluice/internal/telemetry"
)

var (
	ended = telemetry.Metric{
		Name: "ended_total", Type: telemetry.Counter, Help: "Ended", Labels: []telemetry.Label{{Name: "status", Values: []string{"good", "bad"}}},
	}
	spent = telemetry.Metric{Name: "spent_usd_total", Type: telemetry.Counter, Help: "Spent", Unit: 1e-6}
	speed = telemetry.Metric{Name: "speed", Type: telemetry.Gauge, Help: "Speed", Labels: []telemetry.Label{{Name: "pool"}}}
)

// Counters are there at 0, take the table's labels and no others, and a document with 10,000 names makes one series.
func TestCounters(t *testing.T) {
	c := NewCounters([]telemetry.Metric{ended, spent})
	c.Add("ended_total", map[string]string{"status": "good", "workflow_type": "sluice.pipeline"}, 2)
	c.Add("spent_usd_total", nil, 2_500_000)
	c.Add("unknown_total", nil, 1)
	for i := range 10_000 {
		c.Add("ended_total", map[string]string{"status": fmt.Sprintf("step-%d", i)}, 1)
	}
	const want = `
# HELP ended_total Ended
# TYPE ended_total counter
ended_total{status="bad"} 0
ended_total{status="good"} 2
ended_total{status="other"} 10000
# HELP spent_usd_total Spent
# TYPE spent_usd_total counter
spent_usd_total 2.5
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), exported(c)); diff != "" {
		t.Errorf("exported (-want +got):\n%s", diff)
	}
}

// What several hold under the same labels is added, and what is released is gone.
func TestGauges(t *testing.T) {
	g := NewGauges([]telemetry.Metric{speed})
	of := func(pool string, value float64) []telemetry.Sample {
		return []telemetry.Sample{{Metric: speed, Value: value, Labels: []string{pool}}}
	}
	a, b, c := g.Hold(), g.Hold(), g.Hold()
	a.Set(of("x", 1))
	a.Set(of("x", 2))
	b.Set(of("x", 3))
	c.Set(of("y", 4))
	c.Release()
	const want = `
# HELP speed Speed
# TYPE speed gauge
speed{pool="x"} 5
`
	if diff := cmp.Diff(strings.TrimPrefix(want, "\n"), exported(g)); diff != "" {
		t.Errorf("exported (-want +got):\n%s", diff)
	}
	a.Release()
	b.Release()
	if left := exported(g); left != "" {
		t.Errorf("left is %s", left)
	}
	var none *Gauges
	held := none.Hold()
	held.Set(of("x", 1))
	held.Release()
}

// exported is what Prometheus reads.
func exported(c prometheus.Collector) string {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(c)
	res := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(res, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return res.Body.String()
}
