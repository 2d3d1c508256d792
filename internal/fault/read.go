package fault

import (
	"encoding/json"
	"iter"
)

// Temporal's errors are recognized by their methods, so that reading one does not require linking Temporal.
type (
	// carried is an application error of Temporal's: an Error that has come through it.
	carried interface {
		error
		Type() string
		Message() string
		NonRetryable() bool
		Unwrap() error
		detailed
	}
	// detailed is an error with details: an application error, or a cancellation, which has no type.
	detailed interface {
		HasDetails() bool
		Details(values ...any) error
	}
	// timeout is the end of an attempt that Temporal ended itself.
	timeout interface {
		HasLastHeartbeatDetails() bool
	}
)

// As returns the first error in err's tree that has a type: an Error, or what Temporal has made of one. Of the latter it leaves out the
// outputs; see Outputs.
func As(err error) (*Error, bool) {
	switch e := typed(err).(type) {
	case *Error:
		return e, true
	case carried:
		return &Error{Type: e.Type(), Message: plain(e.Message(), e.Unwrap()), Final: e.NonRetryable(), cause: e.Unwrap()}, true
	}
	return nil, false
}

// Of is As; what has no type is infrastructure.
func Of(err error) *Error {
	if e, ok := As(err); ok {
		return e
	}
	return &Error{Type: Infrastructure, Message: err.Error(), cause: err}
}

// TypeOf returns the type of err, looking through what wraps it. What is not typed is infrastructure.
func TypeOf(err error) string {
	if err == nil {
		return ""
	}
	if canceled(err) != nil {
		return Canceled
	}
	if e, ok := As(err); ok {
		if _, known := final[e.Type]; known {
			return e.Type
		}
		return Infrastructure
	}
	for e := range tree(err) {
		if _, ok := e.(timeout); ok {
			return Timeout
		}
	}
	return Infrastructure
}

// Message returns what a person should read of err: the message that has a type, without what wraps it.
func Message(err error) string {
	e, ok := As(err)
	switch {
	case ok:
		return e.Message
	case err == nil:
		return ""
	case canceled(err) != nil:
		return "canceled"
	}
	return err.Error()
}

// Outputs returns what WithOutputs, WithCost or Carry kept, or nil.
func Outputs(err error) []byte {
	var raw []byte
	switch e := typed(err).(type) {
	case *Error:
		raw = e.Outputs
	case carried:
		raw = details(e)
	default:
		raw = details(canceled(err))
	}
	var outputs map[string]any
	if json.Unmarshal(raw, &outputs) != nil { // a cancel may come with anybody's details
		return nil
	}
	return raw
}

func details(d detailed) []byte {
	var raw string
	if d == nil || !d.HasDetails() || d.Details(&raw) != nil {
		return nil
	}
	return []byte(raw)
}

// typed returns the first error of err's tree that has a type.
func typed(err error) error {
	for e := range tree(err) {
		switch e.(type) {
		case *Error, carried:
			return e
		}
	}
	return nil
}

// canceled returns the first error of err's tree that is Temporal's word for an end that somebody asked for.
func canceled(err error) detailed {
	for e := range tree(err) {
		if _, isTyped := e.(carried); isTyped {
			continue
		}
		if e, ok := e.(detailed); ok {
			return e
		}
	}
	return nil
}

// tree goes over an error and all that it wraps, in the order of errors.As.
func tree(err error) iter.Seq[error] {
	return func(yield func(error) bool) { walk(err, yield) }
}

func walk(err error, yield func(error) bool) bool {
	if err == nil {
		return true
	}
	if !yield(err) {
		return false
	}
	switch e := err.(type) {
	case interface{ Unwrap() error }:
		return walk(e.Unwrap(), yield)
	case interface{ Unwrap() []error }:
		for _, one := range e.Unwrap() {
			if !walk(one, yield) {
				return false
			}
		}
	}
	return true
}
