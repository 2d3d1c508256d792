package fault

import (
	"errors"
	"fmt"
)

// The types of an Error. They are words of the whole system's: callers pass them on.
const (
	Invalid        = "invalid"        // the spec is wrong: an expression, a schema, a config
	User           = "user"           // the data are not there, or they or the memory limit do not fit the spec
	Infrastructure = "infrastructure" // a disk, the machine or the program failed
	Canceled       = "canceled"       // somebody asked for the end
)

// Error is what a job ends with.
type Error struct {
	// Type is one of the constants above.
	Type string `json:"type"`
	// Message is for the user: what failed, where and why.
	Message string `json:"message"`
	cause   error
}

func (e *Error) Error() string { return e.Message }

// Unwrap returns the error below, in the process it happened in; what comes from the child has none.
func (e *Error) Unwrap() error { return e.cause }

// Errorf makes an Error of a type, with the message of an error made by fmt.Errorf.
func Errorf(typ, format string, args ...any) error {
	err := fmt.Errorf(format, args...)
	return &Error{Type: typ, Message: err.Error(), cause: err}
}

// Of returns err as an *Error; what has no type is infrastructure.
func Of(err error) *Error {
	var e *Error
	if errors.As(err, &e) {
		return e
	}
	return &Error{Type: Infrastructure, Message: err.Error(), cause: err}
}
