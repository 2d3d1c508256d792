package report

import (
	"fmt"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
)

// gpuTiles are what the GPUs of a training did, over all generations; none where it had none.
func gpuTiles(generations []spec.Generation) []field {
	var seconds, busy, known, idle float64
	var hottest int
	var peak spec.GPUUse
	for _, g := range generations {
		weight := float64(g.GPUs.Count) * g.EndedAt.Sub(g.StartedAt).Seconds()
		seconds += weight
		if !g.GPUs.UtilizationUnknown {
			busy += weight * g.GPUs.Utilization
			known += weight
		}
		idle += g.GPUs.IdleSeconds
		hottest = max(hottest, g.GPUs.TemperatureMax)
		if g.GPUs.MemoryPeak >= peak.MemoryPeak {
			peak = g.GPUs
		}
	}
	if seconds == 0 {
		return nil
	}
	tiles := []field{{"GPU time", human.Seconds(seconds)}}
	if known > 0 {
		tiles = append(tiles, field{"GPUs busy", fmt.Sprintf("%.0f%%", 100*busy/known)})
	}
	if peak.Memory > 0 {
		tiles = append(tiles, field{"peak GPU memory", human.Memory(peak.MemoryPeak) + " of " + human.Memory(peak.Memory)})
	}
	if hottest > 0 {
		tiles = append(tiles, field{"hottest GPU", fmt.Sprintf("%d °C", hottest)})
	}
	if idle > 0 {
		tiles = append(tiles, field{"GPUs idle", human.Seconds(idle)})
	}
	return tiles
}

// gpuWords says what the GPUs of a generation did, in one cell of a table.
func gpuWords(use spec.GPUUse) string {
	if use.Count == 0 {
		return ""
	}
	words := []string{fmt.Sprintf("%d × %s", use.Count, use.Model)}
	if !use.UtilizationUnknown {
		words = append(words, fmt.Sprintf("%.0f%% busy", 100*use.Utilization))
	}
	if use.PowerMean > 0 {
		words = append(words, fmt.Sprintf("%.0f W", use.PowerMean))
	}
	if use.Throttled >= 0.005 {
		words = append(words, fmt.Sprintf("slowed %.0f%% of the time", 100*use.Throttled))
	}
	if use.ECCUncorrected > 0 {
		words = append(words, human.Plural(use.ECCUncorrected, "memory error"))
	}
	return strings.Join(append(words, use.Events...), ", ")
}

// HasGPUs reports whether anything is known of GPUs.
func (t *trainStory) HasGPUs() bool {
	return slices.ContainsFunc(t.Generations, func(g spec.Generation) bool { return g.GPUs.Count > 0 })
}
