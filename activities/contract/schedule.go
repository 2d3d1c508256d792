package contract

import (
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

// TriggerAction is what applying does to a trigger.
type TriggerAction string

// What applying may do to a trigger.
const (
	TriggerCreate TriggerAction = "create"
	TriggerUpdate TriggerAction = "update"
	TriggerDelete TriggerAction = "delete"
	TriggerKeep   TriggerAction = "keep" // it is on the server as declared
)

// FieldChange is one field of a trigger that is not what it was. An empty side means that it is absent there.
type FieldChange struct {
	Field string `json:"field"`
	Old   string `json:"old,omitempty"`
	New   string `json:"new,omitempty"`
}

// TriggerChange is what applying does to one trigger, and why.
type TriggerChange struct {
	// Trigger is pipeline/trigger.
	Trigger string        `json:"trigger"`
	Kind    string        `json:"kind"`
	Action  TriggerAction `json:"action"`
	Fields  []FieldChange `json:"fields,omitempty"`
}

// Trigger is a trigger on the server and what became of it.
type Trigger struct {
	// Name is pipeline/trigger.
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Spec as it was applied, and the digest of what it runs.
	Spec       spec.Trigger `json:"spec"`
	Submission string       `json:"submission"`
	// Paused, with the reason.
	Paused bool   `json:"paused"`
	Note   string `json:"note,omitempty"`
	// Next are the next times it starts a run, or looks.
	Next []time.Time `json:"next"`
	// Runs it started, newest first; in a list, of a trigger that watches the newest only.
	Runs []TriggerRun `json:"runs"`
	// Skipped counts starts that were left out because a run was open, and Missed those that came too late to be made up for.
	Skipped int `json:"skipped,omitempty"`
	Missed  int `json:"missed,omitempty"`
	// Look is the last look of a trigger that watches.
	Look *TriggerLook `json:"look,omitempty"`
}

// TriggerRun is a run that a trigger started.
type TriggerRun struct {
	Run string    `json:"run"`
	At  time.Time `json:"at"`
	// Status as the run's record has it; Error its reason.
	Status spec.Status `json:"status"`
	Error  string      `json:"error,omitempty"`
}

// TriggerLook is what a trigger that watches saw, or why it could not see.
type TriggerLook struct {
	At    time.Time `json:"at"`
	Saw   string    `json:"saw,omitempty"`
	Error string    `json:"error,omitempty"`
}
