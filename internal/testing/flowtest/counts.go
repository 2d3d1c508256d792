package flowtest

import (
	"fmt"
	"maps"
	"sync"

	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/internal/telemetry"
)

// Counts are counters of the table, by their names and the labels that the table has, such as "sluice_runs_total map[status:failed]".
type Counts struct {
	client.MetricsHandler
	mu sync.Mutex
	// Of has the counters once Handler was called.
	Of map[string]int64
}

// Handler is the handler that counts; of nil there is none.
func (c *Counts) Handler() []client.MetricsHandler {
	if c == nil {
		return nil
	}
	c.MetricsHandler, c.Of = client.MetricsNopHandler, map[string]int64{}
	return []client.MetricsHandler{tagged{c, nil}}
}

type tagged struct {
	*Counts
	tags map[string]string
}

// WithTags implements client.MetricsHandler.
func (h tagged) WithTags(tags map[string]string) client.MetricsHandler {
	all := map[string]string{}
	maps.Copy(all, h.tags)
	maps.Copy(all, tags)
	return tagged{h.Counts, all}
}

// Counter implements client.MetricsHandler.
func (h tagged) Counter(name string) client.MetricsCounter {
	for _, m := range telemetry.Runs() {
		if m.Name != name {
			continue
		}
		labels := map[string]string{}
		for _, l := range m.LabelNames() {
			labels[l] = h.tags[l]
		}
		return counter{h.Counts, fmt.Sprint(name, " ", labels)}
	}
	return h.MetricsHandler.Counter(name)
}

type counter struct {
	*Counts
	series string
}

// Inc implements client.MetricsCounter.
func (c counter) Inc(n int64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.Of[c.series] += n
}
