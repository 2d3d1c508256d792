// Package fault says of an error what kind of thing went wrong. Nothing here knows who carries errors about: exit codes, what is tried again
// and Temporal's failures are made from it where they are wanted.
package fault

import (
	"fmt"
	"strings"
)

// The types of an Error, for the whole system. Retry policies, exit codes and the command line act on these, never on text.
const (
	Invalid        = "invalid"        // the pipeline, its parameters or its environment are wrong: an expression, a schema, a config
	User           = "user"           // the user's own program failed, or the data are not there or do not fit the spec
	Infrastructure = "infrastructure" // a machine, disk, network or service failed, or a program of ours
	Preempted      = "preempted"      // capacity was taken away; never charged to the user's retries
	Timeout        = "timeout"        // an attempt took longer than its timeout
	Gate           = "gate"           // a gate did not hold, or a rollout was rolled back
	Budget         = "budget"         // the run cost more than its budget
	Canceled       = "canceled"       // somebody asked for the end
	Lost           = "lost"           // a record that history knows of is not in the store: the machine died; it is made again
	Declined       = "declined"       // a child pipeline ended as declined, which is no failure
	TurnedAway     = "turned_away"    // a child pipeline was turned away by its concurrency group, or a child of it was
)

// final has all types, and whether what has one stays as it is however often it is tried.
var final = map[string]bool{
	Invalid: true, User: false, Infrastructure: false, Preempted: false, Timeout: false, Gate: true, Budget: true, Canceled: false,
	Lost: true, Declined: true, TurnedAway: true,
}

// Error is an error that has a type. As JSON it goes from child processes to their parents.
type Error struct {
	// Type is one of the constants above.
	Type string `json:"type"`
	// Message is for the user: what failed, where and why.
	Message string `json:"message"`
	// Final: the same activity is not tried again. The step's own retries apply.
	Final bool `json:"-"`
	// Outputs is JSON that is worth keeping all the same: what was measured, or what it has cost. Most have none.
	Outputs []byte `json:"-"`
	cause   error
}

// Error is the message alone, which may quote the cause.
func (e *Error) Error() string { return e.Message }

// Unwrap returns the cause, in the process it happened in; what comes from a child has none.
func (e *Error) Unwrap() error { return e.cause }

// New makes an Error of a type. A message may quote the cause, which may be nil.
func New(typ, message string, cause error) error {
	return &Error{Type: typ, Message: plain(message, cause), Final: final[typ], cause: cause}
}

// Errorf makes an Error of a type with the message of an error made by fmt.Errorf. What %w stands for is the cause.
func Errorf(typ, format string, args ...any) error {
	cause := fmt.Errorf(format, args...)
	message := cause.Error()
	switch cause.(type) {
	case interface{ Unwrap() error }, interface{ Unwrap() []error }:
		return New(typ, message, cause)
	}
	return New(typ, message, nil)
}

// Final makes of err one that the same activity is not tried again for; the step's own retries apply.
func Final(err error) error {
	return &Error{Type: TypeOf(err), Message: Message(err), Final: true, cause: err}
}

// WithOutputs is New for a step that failed after it had measured something worth keeping in its record.
func WithOutputs(typ, message string, outputs []byte) error {
	return &Error{Type: typ, Message: message, Final: true, Outputs: outputs}
}

// Masked is err without secrets. Causes are kept in Temporal's history too, so an error that holds any anywhere loses them.
func Masked(mask interface{ Text(string) string }, err error) error {
	for e := range tree(err) {
		if said := e.Error(); mask.Text(said) != said {
			return New(TypeOf(err), mask.Text(Message(err)), nil)
		}
	}
	return err
}

// plain returns a text that quotes err without what Temporal's errors add to their messages: their type, and whether they are tried again.
func plain(text string, err error) string {
	for e := range tree(err) {
		if e, ok := e.(carried); ok {
			text = strings.ReplaceAll(text, e.Error(), e.Message())
		}
	}
	return text
}
