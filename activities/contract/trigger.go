package contract

import (
	"regexp"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

// WatchWorkflow checks at intervals whether a data, metric or pipeline trigger has a reason to start a run, and starts it.
const WatchWorkflow = "sluice.watch"

// Activity types of a watch, both local.
const (
	TriggerLookActivity = "sluice.trigger.look"
	TriggerNoteActivity = "sluice.trigger.note"
)

// ScheduleID is the ID of the Temporal Schedule behind a trigger.
func ScheduleID(pipeline, trigger string) string { return pipeline + "/" + trigger }

// watchPrefix begins the workflow ID of every watch.
const watchPrefix = "watch/"

// WatchWorkflowID is the beginning of the workflow IDs of a trigger's watch: Temporal appends the time.
func WatchWorkflowID(pipeline, trigger string) string { return watchPrefix + pipeline + "/" + trigger }

// IsWatch reports whether a workflow ID is a watch's.
func IsWatch(id string) bool { return strings.HasPrefix(id, watchPrefix) }

// ScheduledRun is the beginning of the run IDs of a schedule trigger; Temporal appends the time to the workflow ID made of it.
func ScheduledRun(pipeline, trigger string) string { return pipeline + "-" + trigger }

// runPrefix begins the workflow ID of every run.
const runPrefix = "run/"

// Temporal appends to the workflow IDs of a schedule the time it meant (RFC 3339, UTC). A run's ID is also a folder and a key of the
// store, where colons are not welcome, so it has the time in ISO 8601's basic form. The two say the same.
var (
	basicTime    = regexp.MustCompile(`-(\d{4})(\d\d)(\d\d)T(\d\d)(\d\d)(\d\d)Z$`)
	extendedTime = regexp.MustCompile(`-(\d{4})-(\d\d)-(\d\d)T(\d\d):(\d\d):(\d\d)Z$`)
)

// extended is a run's ID with the time that a schedule appended as Temporal writes it.
func extended(run string) string {
	return basicTime.ReplaceAllString(run, "-$1-$2-${3}T$4:$5:${6}Z")
}

// RunOf is the inverse of RunWorkflowID. It is empty for the ID of a workflow that is no run.
func RunOf(id string) string {
	run, ok := strings.CutPrefix(id, runPrefix)
	if !ok {
		return ""
	}
	return extendedTime.ReplaceAllString(run, "-$1$2${3}T$4$5${6}Z")
}

// WatchInput is what the watch of a trigger is started with.
type WatchInput struct {
	// Run is what every run the trigger starts has in common; its ID and what the trigger saw are added.
	Run RunInput `json:"run"`
	// Spec of the trigger: one of data, metric and pipeline.
	Spec spec.Trigger `json:"spec"`
	// Since is when the trigger was first applied.
	Since time.Time `json:"since"`
	// Digest of all that the trigger's schedule does: a watch whose digest is another one's has been replaced.
	Digest string `json:"digest,omitempty"`
	// Looked is set if the watch has checked before. The first check is made whatever the schedule says now, because the schedule requested
	// it.
	Looked bool `json:"looked,omitempty"`
}

// Look is the result of a check: nothing, a run to start, or the end of the watch. The decision is already in the trigger's state, so a
// repeated check returns the same.
type Look struct {
	// Run is the ID of the run to start; empty for none.
	Run     string            `json:"run,omitempty"`
	Trigger spec.TriggerFacts `json:"trigger,omitzero"`
	// Summary is one line for people on what was seen.
	Summary string `json:"summary,omitempty"`
	// Over is set if the trigger is paused, was changed or is gone, and nothing was checked.
	Over bool `json:"over,omitempty"`
}

// WatchNote says that a run was started, or why a look failed.
type WatchNote struct {
	Pipeline string `json:"pipeline"`
	Trigger  string `json:"trigger"`
	Run      string `json:"run,omitempty"`
	Error    string `json:"error,omitempty"`
}
