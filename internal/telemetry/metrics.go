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
	RunsEnded  = counter("sluice_runs_total", "Runs that ended, those of child pipelines too", Label{"status", words(spec.RunEnds())})
	StepsEnded = counter("sluice_steps_total",
		"Steps that ended, each instance of a step for itself; `upstream` did not run because of a step before them",
		Label{"kind", words(spec.Kinds)}, Label{"status", words(spec.StepEnds())})
	GateChecks = counter("sluice_gate_checks_total",
		"Conditions of gates that were evaluated",
		Label{"verdict", words([]spec.Verdict{spec.VerdictPass, spec.VerdictFail, spec.VerdictHold, spec.VerdictError})})
	Rows = counter("sluice_rows_total",
		"Rows that cleanings read, by what became of them", Label{"outcome", []string{"kept", "dropped", "rejected"}})
	RowsReused       = counter("sluice_rows_reused_total", "Of these, rows of files that an earlier run had read, and which were not read again")
	TrainGenerations = counter("sluice_train_generations_total", "Generations of gangs that ended", Label{"end", words(generationEnds)})
	TrainSteps       = counter("sluice_train_steps_total", "Training steps, counted when their generation ends; those that were done again count again")
	TrainStepsLost   = counter("sluice_train_steps_lost_total", "Of these, steps that the next generation has to do again")
	TrainNotices     = counter("sluice_train_notices_total",
		"Notices that a node is to be left, the first of each cause in a generation",
		Label{"cause", []string{CausePreemption, "gpu_fault", "gpu_idle"}})
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
	GangNodes = gauge("sluice_gang_nodes", "Nodes of gangs", pool, capacity)
	GangCost  = gauge("sluice_gang_usd_per_hour", "What they cost together in an hour, as far as it is known", pool, capacity)
	TrainRate = gauge("sluice_train_steps_per_second", "Training steps a second, of all gangs of the pool together", pool)
	// GangGPUs are the newest readings of the GPUs of gangs.
	GangGPUs = gpus("sluice_gpu_", pool, Label{Name: "node"}, Label{Name: "gpu"}, Label{Name: "uuid"})
)

// GPUs are what is read of a GPU.
type GPUs struct{ Utilization, MemoryUsed, Memory, Temperature, Power, Throttled, Uncorrected Metric }

// gpus are the readings under a prefix.
func gpus(prefix string, labels ...Label) GPUs {
	gauge := func(name, help string) Metric { return gauge(prefix+name, help, labels...) }
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
	EValue      = gauge("sluice_rollout_e_value", "Evidence that the version fails more often than the one that serves: 1 is none", target, version)
	EValueLimit = gauge("sluice_rollout_e_value_limit", "The e-value at which the rollout is taken back", target, version)
)

// Gateways are the metrics of served models.
func Gateways() []Metric {
	return []Metric{Requests, RequestDuration, Shadow, ReleaseWeight, ReleaseReady, RoutingRevision}
}

// What gateways count and hold.
var (
	Requests = counter("sluice_requests_total",
		"Requests that chance assigned to a version; `wrong` by their label, and `label_refused` made no inference",
		target, version, Label{"outcome", []string{"ok", "wrong", "failure", "label_refused"}})
	RequestDuration = Metric{
		Name: "sluice_request_duration_seconds", Type: Histogram, Labels: []Label{target, version},
		Help: "How long those took",
	}
	Shadow = counter("sluice_shadow_total",
		"Mirrored requests: samples that were compared, those that agree, and requests that were dropped",
		target, version, Label{"what", []string{"samples", "agree", "dropped"}})
	ReleaseWeight   = gauge("sluice_release_weight", "Share of the traffic that the routing document gives a version, from 0 to 1", target, version)
	ReleaseReady    = gauge("sluice_release_ready", "1 when the version is loaded, else 0", target, version)
	RoutingRevision = gauge("sluice_routing_revision", "Revision of the routing document that is served", target)
)

var generationEnds = []spec.GenerationEnd{
	spec.EndFinished, spec.EndNotice, spec.EndNodeLost, spec.EndCrashed, spec.EndHung, spec.EndUserError, spec.EndTimeout, spec.EndCanceled,
	spec.EndBudget, spec.EndMoved, spec.EndDeadline, spec.EndIdle,
}

func words[T ~string](of []T) []string {
	all := make([]string, len(of))
	for i, w := range of {
		all[i] = string(w)
	}
	return all
}
