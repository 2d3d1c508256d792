package gang

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/internal/telemetry/prom"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/protocol"
)

// What is known of a gang is exported while it is watched, with what its nodes said last, and nothing of it afterwards.
func TestGangGauges(t *testing.T) {
	gauges := prom.NewGauges(telemetry.Trainings())
	half := 0.5
	asked, during := make(chan struct{}, 1), ""
	trainings := &Trainings{Gauges: gauges, Progress: func(_ context.Context, workflow string) ([]protocol.TrainProgress, error) {
		asked <- struct{}{}
		if workflow == "" {
			return nil, errors.New("of no workflow")
		}
		return []protocol.TrainProgress{
			{Generation: 2, Node: 0, StepsPerSecond: 7, GPUs: []gpu.Reading{{UUID: "GPU-a", Index: 3, Utilization: &half, MemoryUsed: 5, Temperature: 60}}},
			{Generation: 2, Node: 1, StepsPerSecond: 7},
			{Generation: 1, Node: 0, StepsPerSecond: 1000}, // of the gang before
		}, nil
	}}
	in := contract.GangInput{Pool: "spot", Key: training.Key{Generation: 2}, Gang: training.Gang{
		Capacity: spec.CapacitySpot, USDPerHour: 0.25, Nodes: []training.Node{{Name: "pod-0", Machine: "m1"}, {Name: "pod-1"}},
	}}
	env := flowtest.Activities()
	env.RegisterActivityWithOptions(func(ctx context.Context, in contract.GangInput) error {
		end := trainings.keepGauges(ctx, in)
		<-asked
		for !strings.Contains(during, "GPU-a") {
			during = exported(t, gauges)
		}
		end()
		return nil
	}, activity.RegisterOptions{Name: "watch"})
	if _, err := env.ExecuteActivity("watch", in); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		`sluice_gang_nodes{capacity="spot",pool="spot"} 2`, `sluice_gang_usd_per_hour{capacity="spot",pool="spot"} 0.5`,
		`sluice_train_steps_per_second{pool="spot"} 7`, `sluice_gpu_utilization_ratio{gpu="3",node="m1",pool="spot",uuid="GPU-a"} 0.5`,
		`sluice_gpu_temperature_celsius{gpu="3",node="m1",pool="spot",uuid="GPU-a"} 60`,
	} {
		if !strings.Contains(during, want+"\n") {
			t.Errorf("while it is watched there is no %s in\n%s", want, during)
		}
	}
	if left := exported(t, gauges); left != "" {
		t.Errorf("afterwards there is\n%s", left)
	}
}

// exported is what gauges export.
func exported(t *testing.T, gauges *prom.Gauges) string {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(gauges)
	res := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(res, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	return res.Body.String()
}
