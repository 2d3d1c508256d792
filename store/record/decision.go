package record

import (
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
)

// Decision is what was decided, by whom and when. By is empty if nobody decided in time.
type Decision struct {
	Approved bool        `json:"approved"`
	By       string      `json:"by,omitempty"`
	At       time.Time   `json:"at"`
	Reason   string      `json:"reason,omitempty"`
	Fields   spec.Values `json:"fields,omitempty"`
	// Check is ApprovalInput.Check.
	Check int `json:"check,omitempty"`
}

// String returns the decision in one line: what, by whom and why.
func (d Decision) String() string {
	line := "rejected"
	if d.Approved {
		line = "approved"
	}
	if d.By == "" {
		line += " by default"
	} else {
		line += " by " + d.By
	}
	if d.Reason != "" {
		line += ": " + d.Reason
	}
	return line
}
