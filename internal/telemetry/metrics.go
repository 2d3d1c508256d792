package telemetry

import (
	"github.com/sluiceml/sluice/dsl/spec"
)

// Runs are the counters of workflows.
func Runs() []Metric {
	return []Metric{
		RunsEnded, StepsEnded, GateChecks, Rows, RowsReused, TrainGenerations, TrainSteps, TrainStepsLost, TrainNotices, TrainCost,
	}
}

// Counted when a run, a step or a generation of a gang ends.
var (
	RunsEnded = Metric{
		Name: "sluice_runs_total", Type: Counter, Labels: []Label{{"status", words(ends)}},
		Help: "Runs that ended, those of child pipelines too",
	}
	StepsEnded = Metric{
		Name: "sluice_steps_total", Type: Counter, Labels: []Label{{"kind", words(kinds)}, {"status", append(words(ends), string(spec.StatusUpstream))}},
		Help: "Steps that ended, each instance of a step for itself; `upstream` did not run because of a step before them",
	}
	GateChecks = Metric{
		Name: "sluice_gate_checks_total", Type: Counter,
		Labels: []Label{{"verdict", words([]spec.Verdict{spec.VerdictPass, spec.VerdictFail, spec.VerdictHold, spec.VerdictError})}},
		Help:   "Conditions of gates that were evaluated",
	}
	Rows = Metric{
		Name: "sluice_rows_total", Type: Counter, Labels: []Label{{"outcome", []string{"kept", "dropped", "rejected"}}},
		Help: "Rows that cleanings read, by what became of them",
	}
	RowsReused = Metric{
		Name: "sluice_rows_reused_total", Type: Counter,
		Help: "Of these, rows of files that an earlier run had read, and which were not read again",
	}
	TrainGenerations = Metric{
		Name: "sluice_train_generations_total", Type: Counter, Labels: []Label{{"end", words(generationEnds)}},
		Help: "Generations of gangs that ended",
	}
	TrainSteps = Metric{
		Name: "sluice_train_steps_total", Type: Counter,
		Help: "Training steps, counted when their generation ends; those that were done again count again",
	}
	TrainStepsLost = Metric{
		Name: "sluice_train_steps_lost_total", Type: Counter,
		Help: "Of these, steps that the next generation has to do again",
	}
	TrainNotices = Metric{
		Name: "sluice_train_notices_total", Type: Counter, Labels: []Label{{"cause", []string{CausePreemption, "gpu_fault", "gpu_idle"}}},
		Help: "Notices that a node is to be left, the first of each cause in a generation",
	}
	TrainCost = Metric{
		Name: "sluice_train_cost_usd_total", Type: Counter, Labels: []Label{{"capacity", []string{spec.CapacitySpot, spec.CapacityOnDemand}}}, Unit: 1e-6,
		Help: "Dollars that generations of gangs have cost, counted when they end; without those whose price nobody knows",
	}
)

// CausePreemption is the cause of the notice that a node will be taken away.
const CausePreemption = "preemption"

// Trainings are what the worker knows of gangs while it watches them.
func Trainings() []Metric {
	return append([]Metric{GangNodes, GangCost, TrainRate}, GangGPUs.Metrics()...)
}

var (
	pool     = Label{Name: "pool"}
	capacity = Label{Name: "capacity"}
)

// What is exported of gangs while they are watched.
var (
	GangNodes = Metric{
		Name: "sluice_gang_nodes", Type: Gauge, Labels: []Label{pool, capacity},
		Help: "Nodes of gangs",
	}
	GangCost = Metric{
		Name: "sluice_gang_usd_per_hour", Type: Gauge, Labels: []Label{pool, capacity},
		Help: "What they cost together in an hour, as far as it is known",
	}
	TrainRate = Metric{
		Name: "sluice_train_steps_per_second", Type: Gauge, Labels: []Label{pool},
		Help: "Training steps a second, of all gangs of the pool together",
	}
	// GangGPUs are the newest readings of the GPUs of gangs.
	GangGPUs = gpus("sluice_gpu_", pool, Label{Name: "node"}, Label{Name: "gpu"}, Label{Name: "uuid"})
)

// GPUs are what is read of a GPU.
type GPUs struct{ Utilization, MemoryUsed, Memory, Temperature, Power, Throttled, Uncorrected Metric }

// gpus are the readings under a prefix.
func gpus(prefix string, labels ...Label) GPUs {
	gauge := func(name, help string) Metric {
		return Metric{Name: prefix + name, Type: Gauge, Labels: labels, Help: help}
	}
	return GPUs{
		Utilization: gauge("utilization_ratio", "Share of the last moments in which the GPU computed, 0 to 1; absent where the driver does not say, as of MIG instances"),
		MemoryUsed:  gauge("memory_used_bytes", "Memory of the GPU in use"),
		Memory:      gauge("memory_bytes", "Memory that the GPU has"),
		Temperature: gauge("temperature_celsius", "Temperature of the GPU"),
		Power:       gauge("power_watts", "Power that the GPU draws"),
		Throttled:   gauge("throttled", "1 while the GPU is slowed down by heat, a limit of power or another GPU, else 0"),
		Uncorrected: gauge("ecc_uncorrected_errors", "Errors of the GPU's memory that could not be corrected, since the driver was loaded"),
	}
}

// Metrics lists them.
func (g GPUs) Metrics() []Metric {
	return []Metric{g.Utilization, g.MemoryUsed, g.Memory, g.Temperature, g.Power, g.Throttled, g.Uncorrected}
}

// Rollouts are what the worker knows of the stage of a rollout while it looks at it.
func Rollouts() []Metric { return []Metric{EValue, EValueLimit} }

var (
	target  = Label{Name: "target"}
	version = Label{Name: "version"}
)

// The error test of a rollout.
var (
	EValue = Metric{
		Name: "sluice_rollout_e_value", Type: Gauge, Labels: []Label{target, version},
		Help: "Evidence that the version fails more often than the one that serves: 1 is none",
	}
	EValueLimit = Metric{
		Name: "sluice_rollout_e_value_limit", Type: Gauge, Labels: []Label{target, version},
		Help: "The e-value at which the rollout is taken back",
	}
)

// Gateways are the metrics of served models.
func Gateways() []Metric {
	return []Metric{Requests, RequestDuration, Shadow, ReleaseWeight, ReleaseReady, RoutingRevision}
}

// What gateways count and hold.
var (
	Requests = Metric{
		Name: "sluice_requests_total", Type: Counter, Labels: []Label{target, version, {"outcome", []string{"ok", "wrong", "failure", "label_refused"}}},
		Help: "Requests that chance assigned to a version; `wrong` by their label, and `label_refused` made no inference",
	}
	RequestDuration = Metric{
		Name: "sluice_request_duration_seconds", Type: Histogram, Labels: []Label{target, version},
		Help: "How long those took",
	}
	Shadow = Metric{
		Name: "sluice_shadow_total", Type: Counter, Labels: []Label{target, version, {"what", []string{"samples", "agree", "dropped"}}},
		Help: "Mirrored requests: samples that were compared, those that agree, and requests that were dropped",
	}
	ReleaseWeight = Metric{
		Name: "sluice_release_weight", Type: Gauge, Labels: []Label{target, version},
		Help: "Share of the traffic that the routing document gives a version, from 0 to 1",
	}
	ReleaseReady = Metric{
		Name: "sluice_release_ready", Type: Gauge, Labels: []Label{target, version},
		Help: "1 when the version is loaded, else 0",
	}
	RoutingRevision = Metric{
		Name: "sluice_routing_revision", Type: Gauge, Labels: []Label{target},
		Help: "Revision of the routing document that is served",
	}
)

var (
	ends           = []spec.Status{spec.StatusSucceeded, spec.StatusDeclined, spec.StatusFailed, spec.StatusCanceled, spec.StatusSkipped}
	kinds          = spec.Kinds
	generationEnds = []spec.GenerationEnd{
		spec.EndFinished, spec.EndNotice, spec.EndNodeLost, spec.EndCrashed, spec.EndHung, spec.EndUserError, spec.EndTimeout, spec.EndCanceled,
		spec.EndBudget, spec.EndMoved, spec.EndDeadline, spec.EndIdle,
	}
)

func words[T ~string](of []T) []string {
	all := make([]string, len(of))
	for i, w := range of {
		all[i] = string(w)
	}
	return all
}
