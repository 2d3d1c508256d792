package contract

import (
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// DecideUpdate is the update, and the signal, by which a person decides on an approval or on a gate that holds. It takes a Decide.
// The update is refused when it is not valid; a signal that is not valid changes nothing.
const DecideUpdate = "sluice.decide"

// ApprovalWorkflowID is the workflow ID of a step that waits for a person; step as At.ID writes it.
func ApprovalWorkflowID(run, step string) string { return "approval/" + run + "/" + step }

// OIDCPrefix begins a group in the claims of identity tokens, which are not read yet.
const OIDCPrefix = "oidc:"

// ApprovalInput asks a person.
type ApprovalInput struct {
	Run  string `json:"run"`
	Step string `json:"step"`
	// Approval is the question. That of a gate has no fields.
	Approval spec.Approval `json:"approval"`
	// Users may decide; empty: anyone who reaches Temporal. What begins with OIDCPrefix is a group, in whose name nobody can.
	Users []string `json:"users,omitempty"`
	// Seen is what led to the question: a gate's expression with the values it saw.
	Seen string `json:"seen,omitempty"`
	// Check is the place in the gate, from 1, of the condition that is asked about; 0: the question is an approval step's, or an older
	// version's about the first condition that holds the step.
	Check int `json:"check,omitempty"`
}

// DefaultApprove is the default of an approval that approves when nobody decides.
const DefaultApprove = "approve"

// Limit is how long a person is waited for; 0: for ever.
func (a ApprovalInput) Limit() time.Duration {
	if a.Approval.Timeout == nil {
		return 0
	}
	return time.Duration(*a.Approval.Timeout)
}

// Question is what is asked, in one line.
func (a ApprovalInput) Question() string {
	switch {
	case a.Approval.Message == "":
		return a.Seen
	case a.Seen == "":
		return a.Approval.Message
	}
	return a.Approval.Message + " (" + a.Seen + ")"
}

// Decide is what a person says.
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
