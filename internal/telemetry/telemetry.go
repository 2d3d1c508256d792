// Package telemetry is the table of what Sluice tells Prometheus: every metric of workers, agents and gateways is registered from it, and
// docs/metrics.md is generated from it. It is data alone; package telemetry/prom counts.
package telemetry

//go:generate go test . -run ^TestPage$ -update

// Type is a type of Prometheus's.
type Type string

// The types.
const (
	Counter   Type = "counter"
	Gauge     Type = "gauge"
	Histogram Type = "histogram"
)

// Other is the value of a label whose own is not in the table: a build that knows more writes histories that this one moves on.
const Other = "other"

// Metric is one that a process exports.
type Metric struct {
	Name   string
	Type   Type
	Labels []Label
	// Help is a sentence for Prometheus and for docs/metrics.md, without the full stop.
	Help string
	// Unit is what 1 means that is counted, where that is no whole one; 0 stands for 1. Counters of workflows count whole numbers.
	Unit float64
}

// Label is one of a metric's.
type Label struct {
	Name string
	// Values are all that there may be. Counters are exported for each of them from the start, at 0, so that the first event is an increase.
	// Empty: names of things that are there, whose number is bounded by what they are.
	Values []string
}

func counter(name, help string, labels ...Label) Metric {
	return Metric{Name: name, Type: Counter, Labels: labels, Help: help}
}

func gauge(name, help string, labels ...Label) Metric {
	return Metric{Name: name, Type: Gauge, Labels: labels, Help: help}
}

// LabelNames are the names of its labels, in order.
func (m Metric) LabelNames() []string {
	names := make([]string, len(m.Labels))
	for i, l := range m.Labels {
		names[i] = l.Name
	}
	return names
}

// Sample is a value of a metric, with a value for each of its labels.
type Sample struct {
	Metric Metric
	Value  float64
	Labels []string
}

// Group is metrics of one source, for docs/metrics.md.
type Group struct {
	Name    string
	Metrics []Metric
}

// Groups are all metrics.
func Groups() []Group {
	return []Group{{"runs", Runs()}, {"trainings", Trainings()}, {"rollouts", Rollouts()}, {"gateways", Gateways()}, {"agents", Agents()}}
}
