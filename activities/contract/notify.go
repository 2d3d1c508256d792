package contract

import (
	"fmt"
	"time"
)

// NotifyWorkflow notifies the receivers of one event of a run. It outlives the run.
const NotifyWorkflow = "sluice.notify"

// NotifyLimit bounds that workflow.
const NotifyLimit = 2 * time.Hour

// NotifyWorkflowID is the ID of the NotifyWorkflow of the n-th event of a run.
func NotifyWorkflowID(run, event string, n int) string {
	return fmt.Sprintf("notify/%s/%s-%d", run, event, n)
}

// LostNotifyWorkflowID is the ID of the NotifyWorkflow of a run whose own workflow was ended from outside, or is lost.
func LostNotifyWorkflowID(run string) string { return "notify/" + run + "/lost" }

// Activity types of NotifyWorkflow. NotifyAudienceActivity runs as a local activity.
const (
	NotifyAudienceActivity = "sluice.notify.audience"
	NotifyActivity         = "sluice.notify.send"
)

// NotifyInput starts a NotifyWorkflow.
type NotifyInput struct {
	Run        string `json:"run"`
	Pipeline   string `json:"pipeline"`
	Submission string `json:"submission"`
	// Event is one of the Event constants; Text what there is to say of it.
	Event string    `json:"event"`
	Text  string    `json:"text,omitempty"`
	At    time.Time `json:"at"`
}

// SendInput asks for the delivery of a notification to one of the pipeline's `notify`.
type SendInput struct {
	NotifyInput
	// To is its name there.
	To string `json:"to"`
	// ID is the message's, the same however often it is sent.
	ID string `json:"id"`
}
