package training

import (
	"slices"
	"strconv"

	"github.com/sluiceml/sluice/internal/telemetry"
	"github.com/sluiceml/sluice/training/gpu"
)

// GPUSamples returns the exported metrics of a node's GPUs, with these labels followed by the GPU's index on its machine and its UUID.
func GPUSamples(of telemetry.GPUs, readings []gpu.Reading, labels ...string) (samples []telemetry.Sample) {
	for _, r := range readings {
		own := append(slices.Clip(labels), strconv.Itoa(r.Index), r.UUID)
		add := func(m telemetry.Metric, value float64) {
			samples = append(samples, telemetry.Sample{Metric: m, Value: value, Labels: own})
		}
		if r.Utilization != nil {
			add(of.Utilization, *r.Utilization)
		}
		throttled := 0.0
		if len(r.Throttled) > 0 {
			throttled = 1
		}
		add(of.MemoryUsed, float64(r.MemoryUsed))
		add(of.Memory, float64(r.Memory))
		add(of.Temperature, float64(r.Temperature))
		add(of.Power, r.Power)
		add(of.Throttled, throttled)
		add(of.Uncorrected, float64(r.Uncorrected))
	}
	return samples
}
