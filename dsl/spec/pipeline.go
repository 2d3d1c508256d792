package spec

import "reflect"

// Defaults are merged into the steps when a document is read, and nothing of them is left: under `step` the keys every step may have,
// under a kind those of the kind.
type Defaults struct{}

// Pipeline is a pipeline document.
type Pipeline struct {
	// Sluice is pipeline/v1: product, document and version in one key.
	Sluice string `json:"sluice" dsl:"literal,enum=pipeline/v1"`
	// Name of the pipeline: letters, digits, `-`, `_` and `.`. Runs with the same name share a history: `last` is the newest accepted run.
	Name string `json:"name" dsl:"literal"`
	// Params are parameters, set when a run starts with `-p name=value`.
	Params map[string]Param `json:"params,omitempty" dsl:"literal,names"`
	// Outputs are the outputs of the whole run.
	Outputs map[string]any `json:"outputs,omitempty" dsl:"names"`
	// Triggers start runs automatically, by name.
	Triggers map[string]Trigger `json:"triggers,omitempty" dsl:"literal,names"`
	// Concurrency allows one run of a group at a time.
	Concurrency Concurrency `json:"concurrency,omitzero"`
	// Budget limits the cost of a run.
	Budget Budget `json:"budget,omitzero" dsl:"literal"`
	// Keep removes older runs when a run ends, and the checkpoints of successful trainings. Without it, all runs are kept until `sluice
	// rm`.
	Keep Keep `json:"keep,omitzero" dsl:"literal"`
	// Notify notifies people or systems about runs, by name.
	Notify map[string]Notification `json:"notify,omitempty" dsl:"literal,names"`
	// Defaults are defaults for every step, merged key by key: `step` has keys that every step may have, a kind's name has keys of that
	// kind. A step's own key replaces the whole default.
	Defaults Defaults `json:"defaults,omitzero"`
	// Steps by id. References and `needs` determine their order; independent steps run in parallel.
	Steps Steps `json:"steps"`
	// OnFailure are steps that run after the others if the run failed or was canceled. They can read `run.failed` and `run.status`.
	OnFailure Steps `json:"on_failure,omitempty"`
	// Finally are steps that run last, in every case. They can read `run.failed` and `run.status`.
	Finally Steps `json:"finally,omitempty"`
}

// Steps are a pipeline's steps in the order of the document; there they are a mapping by id.
type Steps []Step

// Step is one node of the graph: exactly one kind, and the envelope.
type Step struct {
	ID   string `json:"id"`
	Kind Kind   `json:"kind"`
	Envelope
	// Line of the step in the document.
	Line int `json:"line"`
}

// CompleteStart fills in what the document may leave out of triggers, concurrency and notifications.
func (p *Pipeline) CompleteStart() {
	SetDefaults(reflect.ValueOf(p.Triggers))
	for _, t := range p.Triggers {
		if t.Metric != nil && t.Metric.Query != "" && t.Metric.Prometheus == "" {
			t.Metric.Prometheus = DefaultPrometheus
		}
	}
	if p.Concurrency != (Concurrency{}) {
		SetDefaults(reflect.ValueOf(&p.Concurrency))
	}
	for name, n := range p.Notify {
		if len(n.On) == 0 {
			n.On = []string{"fail", "hold", "rollback"}
			p.Notify[name] = n
		}
	}
}
