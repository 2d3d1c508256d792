package dsl

import "time"

// Approval waits for a person. A rejection fails the step with the error type gate.
type Approval struct {
	// Who may answer: names of `people` in the environment, or user:NAME. Empty: anyone.
	Who []string `json:"who,omitempty" dsl:"literal"`
	// Message is what the person is asked.
	Message string `json:"message,omitempty"`
	// Fields are what the person fills in, by name; they are outputs of the step.
	Fields map[string]Field `json:"fields,omitempty" dsl:"literal,names"`
	// Timeout is how long to wait; 0s waits for ever. Default 72h.
	Timeout *Duration `json:"timeout,omitempty" dsl:"default=72h"`
	// Default is the answer when nobody gave one in time: approve or reject (default).
	Default string `json:"default,omitempty" dsl:"literal,default=reject,enum=approve|reject"`
}

// Kind implements Spec.
func (*Approval) Kind() Kind { return KindApproval }

// Field is one entry of an approval's form.
type Field struct {
	// Type: string, int, double, bool, or enum, which has `values`.
	Type string `json:"type" dsl:"enum=string|int|double|bool|enum"`
	// Values are what an enum may be.
	Values []string `json:"values,omitempty"`
	// Default is the value of a field that was left empty.
	Default any `json:"default,omitempty"`
	// Required refuses an approval that leaves the field empty.
	Required bool `json:"required,omitempty"`
	// Description says what is asked for.
	Description string `json:"description,omitempty" dsl:"raw"`
}

// ApprovalOutput is what an approval hands on, beside its fields. A field that was left empty is absent.
type ApprovalOutput struct {
	// By is who answered; empty when nobody did in time.
	By string `json:"by"`
	// At is when.
	At time.Time `json:"at"`
	// Reason is what the person gave as one.
	Reason string `json:"reason"`
}
