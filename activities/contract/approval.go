package contract

import (
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// DecideUpdate is the name of the update, and of the signal, by which a person decides on an approval or on a gate with the verdict hold.
// Both take a Decide. An invalid update is rejected; an invalid signal is ignored.
const DecideUpdate = "sluice.decide"

// ApprovalWorkflowID is the workflow ID of a step that waits for a person; step as At.ID writes it.
func ApprovalWorkflowID(run, step string) string { return "approval/" + run + "/" + step }

// OIDCPrefix is the prefix of groups from identity tokens, which are not supported yet.
const OIDCPrefix = "oidc:"

// ApprovalInput asks a person.
type ApprovalInput struct {
	Run  string `json:"run"`
	Step string `json:"step"`
	// Approval is the question. That of a gate has no fields.
	Approval spec.Approval `json:"approval"`
	// Users may decide; if empty, anyone who can reach Temporal. An entry with OIDCPrefix is a group, for which nobody can decide yet.
	Users []string `json:"users,omitempty"`
	// Seen is what led to the question: a gate's expression with the values it saw.
	Seen string `json:"seen,omitempty"`
	// Check is the position in the gate, from 1, of the condition in question; 0 if the question is that of an approval step.
	Check int `json:"check,omitempty"`
}

// DefaultApprove is the default of an approval that approves when nobody decides.
const DefaultApprove = "approve"

// Limit returns how long to wait for a person; 0 means forever.
func (a ApprovalInput) Limit() time.Duration {
	if a.Approval.Timeout == nil {
		return 0
	}
	return time.Duration(*a.Approval.Timeout)
}

// Question returns the question in one line.
func (a ApprovalInput) Question() string {
	switch {
	case a.Approval.Message == "":
		return a.Seen
	case a.Seen == "":
		return a.Approval.Message
	}
	return a.Approval.Message + " (" + a.Seen + ")"
}

// Decide is the decision of a person.
type Decide struct {
	// Approve or reject.
	Approve bool   `json:"approve"`
	By      string `json:"by"`
	Reason  string `json:"reason,omitempty"`
	// Fields of the form, as they are written on the command line.
	Fields map[string]string `json:"fields,omitempty"`
}

// ApprovalState answers StateQuery.
type ApprovalState struct {
	ApprovalInput
	Since time.Time `json:"since"`
	// Until is when the default decides; zero: never.
	Until    time.Time        `json:"until,omitzero"`
	Decision *record.Decision `json:"decision,omitempty"`
}
