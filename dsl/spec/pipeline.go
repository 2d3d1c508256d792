package spec

import "reflect"

// Defaults are merged into the steps when a document is read, and nothing of them is left: under `step` the keys every step may have,
// under a kind those of the kind.
type Defaults struct{}

// Pipeline is the checked document: what is known of it before a run starts.
type Pipeline struct {
	// Sluice is pipeline/v1: product, document and version in one key.
	Sluice string `json:"sluice" dsl:"literal,enum=pipeline/v1"`
	// Name of the pipeline: letters, digits, `-`, `_` and `.`. Runs of one name are one history: `last` is the newest accepted.
	Name string `json:"name" dsl:"literal"`
	// Params are set when a run starts, with `-p name=value`.
	Params map[string]Param `json:"params,omitempty" dsl:"literal,names"`
	// Outputs are what the run as a whole hands on.
	Outputs map[string]any `json:"outputs,omitempty" dsl:"names"`
	// Triggers start runs by themselves, by name.
	Triggers map[string]Trigger `json:"triggers,omitempty" dsl:"literal,names"`
	// Concurrency lets one run of a group go on at a time.
	Concurrency Concurrency `json:"concurrency,omitzero"`
	// Budget stops a run that costs more.
	Budget Budget `json:"budget,omitzero" dsl:"literal"`
	// Keep removes what is kept of older runs when a run ends, and the checkpoints of trainings that succeeded. Without it all runs stay
	// until `sluice rm`.
	Keep Keep `json:"keep,omitzero" dsl:"literal"`
	// Notify tells people or systems about runs, by name.
	Notify map[string]Notification `json:"notify,omitempty" dsl:"literal,names"`
	// Defaults are merged into every step, key by key: under `step` those every step may have, under a kind those of the kind. A
	// step's own key replaces the whole of it.
	Defaults Defaults `json:"defaults,omitzero"`
	// Steps by id. They run in the order their references and `needs` ask for; what is independent runs side by side.
	Steps Steps `json:"steps"`
	// OnFailure are steps that run after the others when one of them failed. They see `run.failed` and `run.status`.
	OnFailure Steps `json:"on_failure,omitempty"`
	// Finally are steps that run last, however the run went. They see `run.failed` and `run.status`.
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
