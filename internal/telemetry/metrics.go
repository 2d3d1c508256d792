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
	RunsEnded  = counter("sluice_runs_total", "Runs that ended, including those of child pipelines", Label{"status", words(spec.RunEnds())})
	StepsEnded = counter("sluice_steps_total",
		"Steps that ended, counting each instance; `upstream` steps did not run because of an earlier step",
		Label{"kind", words(spec.Kinds)}, Label{"status", words(spec.StepEnds())})
	GateChecks = counter("sluice_gate_checks_total",
		"Evaluated conditions of gates",
		Label{"verdict", words([]spec.Verdict{spec.VerdictPass, spec.VerdictFail, spec.VerdictHold, spec.VerdictError})})
	Rows = counter("sluice_rows_total",
		"Rows that cleanings read, by outcome", Label{"outcome", []string{"kept", "dropped", "rejected"}})
	RowsReused       = counter("sluice_rows_reused_total", "Of these, rows of files that an earlier run had read and that were not read again")
	TrainGenerations = counter("sluice_train_generations_total", "Generations of gangs that ended", Label{"end", words(generationEnds)})
	TrainSteps       = counter("sluice_train_steps_total", "Training steps, counted when their generation ends; repeated steps are counted again")
	TrainStepsLost   = counter("sluice_train_steps_lost_total", "Of these, steps that the next generation has to repeat")
	TrainNotices     = counter("sluice_train_notices_total",
		"Notices that a node must be given up; the first of each cause in a generation",
		Label{"cause", []string{CausePreemption, "gpu_fault", "gpu_idle"}})
	TrainCost = Metric{
		Name: "sluice_train_cost_usd_total", Type: Counter, Labels: []Label{{"capacity", []string{spec.CapacitySpot, spec.CapacityOnDemand}}}, Unit: 1e-6,
		Help: "Cost of generations of gangs in dollars, counted when they end; without generations whose price is unknown",
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
	GangCost  = gauge("sluice_gang_usd_per_hour", "Their total cost per hour in dollars, as far as it is known", pool, capacity)
	TrainRate = gauge("sluice_train_steps_per_second", "Training steps per second, of all gangs of the pool together", pool)
	// GangGPUs are the newest readings of the GPUs of gangs.
	GangGPUs = gpus("sluice_gpu_", pool, Label{Name: "node"}, Label{Name: "gpu"}, Label{Name: "uuid"})
)

// GPUs are what is read of a GPU.
type GPUs struct{ Utilization, MemoryUsed, Memory, Temperature, Power, Throttled, Uncorrected Metric }

// gpus are the readings under a prefix.
func gpus(prefix string, labels ...Label) GPUs {
	gauge := func(name, help string) Metric { return gauge(prefix+name, help, labels...) }
	return GPUs{
		Utilization: gauge("utilization_ratio", "Recent utilization of the GPU, 0 to 1; absent if the driver does not report it, as for MIG instances"),
		MemoryUsed:  gauge("memory_used_bytes", "Used memory of the GPU"),
		Memory:      gauge("memory_bytes", "Total memory of the GPU"),
		Temperature: gauge("temperature_celsius", "Temperature of the GPU"),
		Power:       gauge("power_watts", "Power draw of the GPU"),
		Throttled:   gauge("throttled", "1 while the GPU is throttled by heat, a power limit or another GPU, else 0"),
		Uncorrected: gauge("ecc_uncorrected_errors", "Uncorrectable memory errors of the GPU since the driver was loaded"),
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

// The tests of a rollout that have e-values.
const (
	TestErrors = "errors"
	TestLoss   = "loss"
)

var test = Label{Name: "test", Values: []string{TestErrors, TestLoss}}

// What the tests of a rollout have found.
var (
	EValue = gauge("sluice_rollout_e_value",
		"Evidence that the version is worse than the serving one: that it fails more often, or is further from the labels (`tests.loss`); 1 means none",
		target, version, test)
	EValueLimit = gauge("sluice_rollout_e_value_limit", "The e-value at which the rollout is rolled back", target, version, test)
)

// Gateways are the metrics of served models.
func Gateways() []Metric {
	return append([]Metric{Requests, RequestDuration, FirstToken, PerToken, Shadow, ReleaseWeight, ReleaseReady, RoutingRevision, AccessLogLost}, Inferences()...)
}

// Inferences are the metrics of models that a gateway runs itself. Those that Triton has, too, have its names and labels.
func Inferences() []Metric {
	return []Metric{
		InferenceSuccess, InferenceFailure, InferenceCount, InferenceExecutions, InferencePending, InferenceDuration, InferenceQueued,
		InferenceComputed, BatchRows, BatchLimit, Provider,
	}
}

var model = Label{Name: "model"}

// What a model has run, since its release was loaded.
var (
	InferenceSuccess    = counter("nv_inference_request_success", "Requests that the model answered", model, version)
	InferenceFailure    = counter("nv_inference_request_failure", "Requests that failed, waited too long or found the queue full", model, version)
	InferenceCount      = counter("nv_inference_count", "Rows of the model's inferences", model, version)
	InferenceExecutions = counter("nv_inference_exec_count", "Inferences of the model; an inference may be of several requests", model, version)
	InferencePending    = gauge("nv_inference_pending_request_count", "Requests that wait for the model", model, version)
	InferenceDuration   = counter("nv_inference_request_duration_us", "Time from the arrival of requests at the model to their answers, in microseconds", model, version)
	InferenceQueued     = counter("nv_inference_queue_duration_us", "Of this, the time in which requests waited", model, version)
	InferenceComputed   = counter("nv_inference_compute_infer_duration_us", "Time of the model's inferences, in microseconds", model, version)
	BatchRows           = Metric{
		Name: "sluice_batch_rows", Type: Histogram, Labels: []Label{target, version},
		Help: "Rows of the model's inferences",
	}
	BatchLimit = gauge("sluice_batch_limit", "Rows that an inference of several requests may have: `max_batch`, or less because of `target_p99`", target, version)
	Provider   = gauge("sluice_provider", "1 for the execution provider of ONNX Runtime that computes the version, of the target's `provider`", target, version, Label{Name: "provider"})
)

// What gateways count and hold.
var (
	Requests = counter("sluice_requests_total",
		"Requests that were randomly assigned to a version; `wrong` according to their label; `label_refused` requests ran no inference; `client_error` requests were refused with a status of 4xx, except 408, 429 and 499; the clients of `left` requests did not wait for an answer",
		target, version, Label{"outcome", []string{"ok", "wrong", "failure", "label_refused", "client_error", "left"}})
	RequestDuration = Metric{
		Name: "sluice_request_duration_seconds", Type: Histogram, Labels: []Label{target, version},
		Help: "Duration of these requests, except those that found no slot",
	}
	FirstToken = Metric{
		Name: "sluice_first_token_seconds", Type: Histogram, Labels: []Label{target, version},
		Help: "Time to the first token of answers that were streamed, with `protocol: openai`",
	}
	PerToken = Metric{
		Name: "sluice_token_seconds", Type: Histogram, Labels: []Label{target, version},
		Help: "Average time of each token after the first, of these answers",
	}
	Shadow = counter("sluice_shadow_total",
		"Mirrored requests: compared samples, samples that agree, and dropped requests",
		target, version, Label{"what", []string{"samples", "agree", "dropped"}})
	ReleaseWeight   = gauge("sluice_release_weight", "Share of the traffic of a version in the routing document, from 0 to 1", target, version)
	ReleaseReady    = gauge("sluice_release_ready", "1 if the version is loaded, else 0", target, version)
	RoutingRevision = gauge("sluice_routing_revision", "Revision of the routing document in effect", target)
	AccessLogLost   = counter("sluice_access_log_lost_total", "Lines of the access log that were lost, because it could not be written as fast as requests came, or at all; only with an `access_log`", target)
)

var generationEnds = []spec.GenerationEnd{
	spec.EndFinished, spec.EndNotice, spec.EndNodeLost, spec.EndCrashed, spec.EndHung, spec.EndUserError, spec.EndTimeout, spec.EndCanceled,
	spec.EndBudget, spec.EndMoved, spec.EndDeadline, spec.EndIdle, spec.EndDamaged,
}

func words[T ~string](of []T) []string {
	all := make([]string, len(of))
	for i, w := range of {
		all[i] = string(w)
	}
	return all
}
