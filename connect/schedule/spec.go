package schedule

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/watch"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// markKey is the memo field with the mark of Sluice's schedules and of the workflows that they start.
const markKey = "sluice"

// mark says what a schedule on the server was made from, so that applying the same trigger again is recognized as no change.
type mark struct {
	Pipeline   string       `json:"pipeline"`
	Trigger    string       `json:"trigger"`
	Kind       string       `json:"kind"`
	Spec       spec.Trigger `json:"spec"`
	Submission string       `json:"submission"`
	// Digest is the digest of everything that the schedule does.
	Digest string `json:"digest"`
	// Since is when the trigger was first applied; updates keep it.
	Since time.Time `json:"since"`
}

func (m mark) id() string { return contract.ScheduleID(m.Pipeline, m.Trigger) }

// Declared is a trigger as a pipeline declares it, ready to be put on the server.
type Declared struct {
	mark
	run contract.RunInput
}

// Declare prepares a trigger of the pipeline run.Name; run is what all its runs have in common.
func Declare(name string, sp spec.Trigger, run contract.RunInput) (Declared, error) {
	d := Declared{
		mark: mark{Pipeline: run.Name, Trigger: name, Kind: sp.Kind(), Spec: sp, Submission: run.Submission},
		run:  run,
	}
	d.run.Trigger = spec.TriggerFacts{Name: name, Kind: d.Kind}
	if sp.Data != nil {
		if err := watch.CheckData(*sp.Data); err != nil {
			return d, fault.New(fault.Invalid, "trigger "+name+": "+fault.Message(err), err)
		}
	}
	raw, err := json.Marshal(struct {
		Spec spec.Trigger      `json:"spec"`
		Run  contract.RunInput `json:"run"`
	}{sp, d.run})
	if err != nil {
		return d, fmt.Errorf("encode trigger %s: %w", name, err)
	}
	sum := sha256.Sum256(raw)
	d.Digest = hex.EncodeToString(sum[:])
	return d, nil
}

const (
	// watchEvery is how often the schedule of a watching trigger makes sure that its watch is running, because somebody may have ended it.
	watchEvery = 5 * time.Minute
	// watchCatchup is the catchup window of that schedule.
	watchCatchup = 10 * time.Second
)

// spec returns when the schedule acts.
func (d Declared) spec() (client.ScheduleSpec, error) {
	s := d.Spec.Schedule
	if s == nil {
		return client.ScheduleSpec{Intervals: []client.ScheduleIntervalSpec{{Every: watchEvery}}}, nil
	}
	spec := client.ScheduleSpec{StartAt: s.Start, EndAt: s.End, Jitter: time.Duration(s.Jitter), TimeZoneName: s.Timezone}
	if s.Every > 0 {
		spec.Intervals = []client.ScheduleIntervalSpec{{Every: time.Duration(s.Every), Offset: time.Duration(s.Offset)}}
	}
	var err error
	spec.CronExpressions, err = s.Calendars()
	return spec, err
}

// policy returns what happens if a run is due while another is open, or if its time was missed.
func (d Declared) policy() client.SchedulePolicies {
	s := d.Spec.Schedule
	if s == nil {
		return client.SchedulePolicies{Overlap: enums.SCHEDULE_OVERLAP_POLICY_SKIP, CatchupWindow: watchCatchup}
	}
	overlap := enums.SCHEDULE_OVERLAP_POLICY_SKIP
	switch s.OnConflict {
	case spec.OnConflictQueue:
		overlap = enums.SCHEDULE_OVERLAP_POLICY_BUFFER_ALL
	case spec.OnConflictCancelOther:
		overlap = enums.SCHEDULE_OVERLAP_POLICY_CANCEL_OTHER
	case spec.OnConflictSkip:
	}
	return client.SchedulePolicies{Overlap: overlap, CatchupWindow: time.Duration(s.Catchup), PauseOnFailure: s.PauseOnFailure}
}

// action returns what the schedule starts: the run itself, or a watch.
func (d Declared) action() *client.ScheduleWorkflowAction {
	action := &client.ScheduleWorkflowAction{
		TaskQueue: contract.TaskQueue,
		Memo:      map[string]any{markKey: d.mark},
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword(contract.SearchPipeline).ValueSet(d.Pipeline)),
	}
	if d.Spec.Schedule != nil {
		action.ID = contract.RunWorkflowID(contract.ScheduledRun(d.Pipeline, d.Trigger))
		action.Workflow, action.Args = contract.PipelineWorkflow, []any{d.run}
		action.StaticSummary = "pipeline " + d.Pipeline + ", " + d.Trigger
		return action
	}
	action.ID = contract.WatchWorkflowID(d.Pipeline, d.Trigger)
	action.Workflow, action.Args = contract.WatchWorkflow, []any{contract.WatchInput{Run: d.run, Spec: d.Spec, Since: d.Since, Digest: d.Digest}}
	action.StaticSummary = "trigger " + d.Trigger + " of " + d.Pipeline
	return action
}
