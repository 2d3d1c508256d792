// Package failure types errors, makes of them what Temporal carries, and reads them from it.
package failure

import (
	"encoding/json"
	"errors"
	"strings"

	"go.temporal.io/sdk/temporal"
)

// The error types of the whole system. Retry policies, exit codes and the command line act on these, never on text.
const (
	Invalid        = "invalid"        // the pipeline, its parameters or its environment are wrong
	User           = "user"           // the user's own program failed
	Infrastructure = "infrastructure" // a machine, disk, network or service failed
	Preempted      = "preempted"      // capacity was taken away; never charged to the user's retries
	Timeout        = "timeout"        // an attempt took longer than its timeout
	Gate           = "gate"           // a gate did not hold, or a rollout was rolled back
	Budget         = "budget"         // the run cost more than its budget
	Canceled       = "canceled"       // somebody asked for the end
	Lost           = "lost"           // a record that history knows of is not in the store: the machine died; it is made again
	Declined       = "declined"       // a child pipeline ended as declined, which is no failure
	TurnedAway     = "turned_away"    // a child pipeline was turned away by its concurrency group, or a child of it was
)

// New makes an application error of one of the types above. Whether it is tried again is the step's retry policy's matter;
// invalid and gate errors never are. A message may quote its cause.
func New(typ, message string, cause error) error {
	return temporal.NewApplicationErrorWithOptions(plain(message, cause), typ, temporal.ApplicationErrorOptions{
		Cause:        cause,
		NonRetryable: typ == Invalid || typ == Gate || typ == Budget || typ == Declined || typ == TurnedAway || typ == Lost,
	})
}

// TypeOf returns the type of err, looking through Temporal's wrappers. What is not typed is infrastructure.
func TypeOf(err error) string {
	var app *temporal.ApplicationError
	var timeout *temporal.TimeoutError
	switch {
	case err == nil:
		return ""
	case temporal.IsCanceledError(err):
		return Canceled
	case errors.As(err, &app):
		switch t := app.Type(); t {
		case Invalid, User, Infrastructure, Preempted, Timeout, Gate, Budget, Canceled, Declined,
			TurnedAway, Lost:
			return t
		}
		return Infrastructure
	case errors.As(err, &timeout):
		return Timeout
	}
	return Infrastructure
}

// Message returns what a person should read of err: the message that has a type, without Temporal's wrapping.
func Message(err error) string {
	var app *temporal.ApplicationError
	switch {
	case err == nil:
		return ""
	case errors.As(err, &app):
		return plain(app.Message(), app.Unwrap())
	case temporal.IsCanceledError(err):
		return "canceled"
	}
	return err.Error()
}

// plain returns a text that quotes err without what Temporal's errors add to their messages: their type, and whether they are tried again.
func plain(text string, err error) string {
	if app, ok := err.(*temporal.ApplicationError); ok { //nolint:errorlint // those below it have their turn
		text = strings.ReplaceAll(text, app.Error(), app.Message())
	}
	switch wrapping := err.(type) { //nolint:errorlint // as above
	case interface{ Unwrap() error }:
		return plain(text, wrapping.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range wrapping.Unwrap() {
			text = plain(text, one)
		}
	}
	return text
}

// Final makes of err one that the same activity is not tried again for; the step's own retries apply.
func Final(err error) error {
	return temporal.NewApplicationErrorWithOptions(Message(err), TypeOf(err), temporal.ApplicationErrorOptions{Cause: err, NonRetryable: true})
}

// WithOutputs is Error for a step that failed after it had measured something worth keeping in its record.
func WithOutputs(typ, message string, outputs []byte) error {
	return temporal.NewApplicationErrorWithOptions(message, typ, temporal.ApplicationErrorOptions{
		NonRetryable: true,
		Details:      []any{string(outputs)},
	})
}

// WithCost is the error of a training or a child run that did not succeed, with what it has cost until then, for the ledger of the run
// above. A cancel stays one.
func WithCost(err error, cost Costs) error {
	spent, unwritable := json.Marshal(cost)
	switch {
	case unwritable != nil:
		return err
	case temporal.IsCanceledError(err):
		return temporal.NewCanceledError(string(spent))
	}
	return WithOutputs(TypeOf(err), Message(err), spent)
}

// CostOf returns what WithCost kept, or nothing.
func CostOf(err error) Costs {
	var kept Costs
	if json.Unmarshal(Outputs(err), &kept) != nil {
		return Costs{}
	}
	return kept
}

// Costs is what something has cost, as far as prices are known.
type Costs struct {
	USD float64 `json:"cost_usd"`
	// Unknown: of a part of it nobody knows the price, and USD is without that.
	Unknown bool `json:"cost_unknown,omitempty"`
}

// Add adds up.
func (c Costs) Add(more Costs) Costs {
	return Costs{USD: c.USD + more.USD, Unknown: c.Unknown || more.Unknown}
}

// Outputs returns what ErrorWithOutputs or WithCost kept, or nil.
func Outputs(err error) []byte {
	var details interface {
		HasDetails() bool
		Details(...any) error
	}
	var app *temporal.ApplicationError
	var canceled *temporal.CanceledError
	switch {
	case errors.As(err, &app):
		details = app
	case errors.As(err, &canceled):
		details = canceled
	}
	var raw string
	if details == nil || !details.HasDetails() || details.Details(&raw) != nil {
		return nil
	}
	var outputs map[string]any
	if json.Unmarshal([]byte(raw), &outputs) != nil { // a cancel may come with anybody's details
		return nil
	}
	return []byte(raw)
}
