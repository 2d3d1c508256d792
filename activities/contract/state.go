package contract

import (
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

// StateQuery is answered by every workflow of a run with where it is now: RunState by the pipeline's, TrainState by a training
// step's, RolloutState by a rollout's.
const StateQuery = "sluice.state"

// RunState is where a run is.
type RunState struct {
	Status spec.Status `json:"status"`
	Steps  []StepState `json:"steps"` // in graph order
	// Waits says, of a run that has not begun, what it waits for: its turn in its concurrency group.
	Waits string `json:"waits,omitempty"`
}

// StepState is where a step is.
type StepState struct {
	ID        string      `json:"id"`
	Kind      spec.Kind   `json:"kind"`
	Status    spec.Status `json:"status"`
	StartedAt time.Time   `json:"started_at,omitzero"`
	EndedAt   time.Time   `json:"ended_at,omitzero"`
	// Summary is one line: the verdict with what it saw, or the error.
	Summary string `json:"summary,omitempty"`
	// Attempt counts from 1.
	Attempt int `json:"attempt,omitempty"`
	// Before is why the attempt before failed, in one line.
	Before string `json:"before,omitempty"`
	// Child is the workflow ID of the step's child workflow, where it has one.
	Child string `json:"child,omitempty"`
	// Of is how many instances a fanned-out step has; Done how many have ended.
	Of   int `json:"of,omitempty"`
	Done int `json:"done,omitempty"`
}

// TrainState is where a training step is. Step and loss are not in it: they travel in heartbeats, see TrainProgress.
type TrainState struct {
	Generation int `json:"generation"`
	// Phase: sealing, acquiring, preparing, running, stopping, collecting.
	Phase string `json:"phase"`
	// Nodes by name, with their queue's index.
	Nodes []string `json:"nodes"`
	// Ended are the generations that are over.
	Ended []spec.Generation `json:"ended"`
}

// RolloutState is where a rollout is.
type RolloutState struct {
	// Run and Step are whose rollout it is.
	Run     string `json:"run,omitempty"`
	Step    string `json:"step,omitempty"`
	Version string `json:"version"`
	// Previous is the version that the candidate is compared with; empty when nothing else serves.
	Previous string `json:"previous,omitempty"`
	// Phase: waiting, loading, stage, promoting, rolling back, done.
	Phase string `json:"phase"`
	// Stage counts from 1; Stages is how many there are.
	Stage  int        `json:"stage"`
	Stages int        `json:"stages"`
	Shadow spec.Share `json:"shadow"`
	Weight spec.Share `json:"weight"`
	// Asks is what the stage asks for, and Tests what is tested at every look.
	Asks  *spec.Stage `json:"asks,omitempty"`
	Tests *spec.Tests `json:"tests,omitempty"`
	// Began is when the stage did.
	Began time.Time `json:"began,omitzero"`
	// Look is the newest one.
	Look *spec.Look `json:"look,omitempty"`
	// Paused is the order that holds the stage, and Ordered the one that ends the rollout.
	Paused  *RolloutOrder `json:"paused,omitempty"`
	Ordered *RolloutOrder `json:"ordered,omitempty"`
	// Decision and Reason are how it ended, when Phase is done.
	Decision string `json:"decision,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

// NoteSignal is what a step's child workflow says to its run's now and then: a Note, for the run's details in Temporal's UI.
const NoteSignal = "sluice.note"

// Note is one line on where a step is.
type Note struct {
	Step string `json:"step"`
	Text string `json:"text"`
	// Done is how many instances have ended since the last note.
	Done int `json:"done,omitempty"`
	// Event is one that somebody may want to be notified of: hold.
	Event string `json:"event,omitempty"`
}
