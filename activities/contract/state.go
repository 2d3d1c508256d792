package contract

import (
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

// StateQuery is the query that every workflow of a run answers with its current state: RunState for the pipeline, TrainState for a
// training, RolloutState for a rollout.
const StateQuery = "sluice.state"

// RunState is the current state of a run.
type RunState struct {
	Status spec.Status `json:"status"`
	Steps  []StepState `json:"steps"` // in graph order
	// Waits says what a run waits for that has not started: its turn in its concurrency group.
	Waits string `json:"waits,omitempty"`
}

// StepState is the current state of a step.
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

// TrainState is the current state of a training. Step and loss are in heartbeats instead: see TrainProgress.
type TrainState struct {
	Generation int `json:"generation"`
	// Phase: sealing, acquiring, preparing, running, stopping, collecting.
	Phase string `json:"phase"`
	// Nodes by name, with their queue's index.
	Nodes []string `json:"nodes"`
	// Ended are the generations that are over.
	Ended []spec.Generation `json:"ended"`
}

// RolloutState is the current state of a rollout.
type RolloutState struct {
	// Run and Step are whose rollout it is.
	Run     string `json:"run,omitempty"`
	Step    string `json:"step,omitempty"`
	Version string `json:"version"`
	// Previous is the version that the candidate is compared with; empty when nothing else serves.
	Previous string `json:"previous,omitempty"`
	// Phase: loading, stage, promoting, rolling back, done.
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

// NoteSignal is the signal with which a step's child workflow reports its progress to the run from time to time: a Note, for the run's
// details in Temporal's UI.
const NoteSignal = "sluice.note"

// Note is one line on where a step is.
type Note struct {
	Step string `json:"step"`
	Text string `json:"text"`
	// Done is how many instances have ended since the last note.
	Done int `json:"done,omitempty"`
	// Event is an event that people may want to be notified of: hold.
	Event string `json:"event,omitempty"`
}
