package boundary

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/failure/v1"
	"go.temporal.io/sdk/temporal"
	"google.golang.org/protobuf/encoding/prototext"
	"google.golang.org/protobuf/proto"

	"github.com/sluiceml/sluice/internal/fault"
)

// rule makes errors.
type rule struct {
	new         func(typ, message string, cause error) error
	final       func(error) error
	withOutputs func(typ, message string, outputs []byte) error
	withCost    func(error, fault.Costs) error
}

var now = rule{fault.New, fault.Final, fault.WithOutputs, fault.WithCost}

// recorded is how errors were made when there was no Interceptor: as Temporal's at once. Histories of that time are replayed, and
// workers of that time work for the same workflows.
var recorded = rule{
	new: func(typ, message string, cause error) error {
		return temporal.NewApplicationErrorWithOptions(plain(message, cause), typ, temporal.ApplicationErrorOptions{
			Cause: cause,
			NonRetryable: typ == fault.Invalid || typ == fault.Gate || typ == fault.Budget || typ == fault.Declined ||
				typ == fault.TurnedAway || typ == fault.Lost,
		})
	},
	final: func(err error) error {
		return temporal.NewApplicationErrorWithOptions(fault.Message(err), fault.TypeOf(err),
			temporal.ApplicationErrorOptions{Cause: err, NonRetryable: true})
	},
	withOutputs: recordedOutputs,
	withCost: func(err error, cost fault.Costs) error {
		spent := fmt.Sprintf(`{"cost_usd":%v}`, cost.USD)
		if temporal.IsCanceledError(err) {
			return temporal.NewCanceledError(spent)
		}
		return recordedOutputs(fault.TypeOf(err), fault.Message(err), []byte(spent))
	},
}

func recordedOutputs(typ, message string, outputs []byte) error {
	return temporal.NewApplicationErrorWithOptions(message, typ, temporal.ApplicationErrorOptions{
		NonRetryable: true, Details: []any{string(outputs)},
	})
}

func plain(text string, err error) string {
	if app, ok := err.(*temporal.ApplicationError); ok {
		text = strings.ReplaceAll(text, app.Error(), app.Message())
	}
	switch wrapping := err.(type) {
	case interface{ Unwrap() error }:
		return plain(text, wrapping.Unwrap())
	case interface{ Unwrap() []error }:
		for _, one := range wrapping.Unwrap() {
			text = plain(text, one)
		}
	}
	return text
}

// cases are errors as the system makes them.
func (r rule) cases() map[string]error {
	disk := errors.New("no space left on device")
	user := r.new(fault.User, "traffic: `label` is 152", nil)
	away := r.new(fault.Infrastructure, "the store is away", disk)
	answered := temporal.NewApplicationErrorWithOptions("exit code 1", fault.User, temporal.ApplicationErrorOptions{Cause: disk})
	canceled := temporal.NewCanceledError("Activity canceled")
	errs := map[string]error{
		"none": nil, "untyped": disk, "path": &fs.PathError{Op: "open", Path: "x", Err: disk}, "canceled": canceled,
		"context": context.Canceled, "wrapped and untyped": fmt.Errorf("step ship: %w", disk),
		"timeout":                 temporal.NewTimeoutError(enums.TIMEOUT_TYPE_HEARTBEAT, nil),
		"with its cause":          away,
		"quotes":                  r.new(fault.User, "step ship: "+away.Error(), away),
		"quotes an answer":        r.new(fault.Gate, "step ship: "+answered.Error(), fmt.Errorf("child: %w", answered)),
		"quotes what wraps":       r.new(fault.User, fmt.Errorf("step ship: %w", away).Error(), fmt.Errorf("step ship: %w", away)),
		"joined":                  r.new(fault.Preempted, errors.Join(user, away).Error(), errors.Join(user, away)),
		"joined, untyped":         errors.Join(user, disk, away),
		"wrapped":                 fmt.Errorf("step ship: %w", away),
		"two are wrapped":         fmt.Errorf("step ship: %w; then %w", user, away),
		"wrapped twice":           fmt.Errorf("run r: %w", fmt.Errorf("step ship: %w (in lane 2)", user)),
		"wrapped in one":          r.new(fault.Invalid, "run r", fmt.Errorf("step ship: %w", user)),
		"of a canceled":           r.new(fault.Timeout, "the step ends", canceled),
		"typed canceled":          r.new(fault.Canceled, "somebody asked", nil),
		"final":                   r.final(away),
		"final, untyped":          r.final(fmt.Errorf("keep: %w", disk)),
		"final, wrapped":          r.final(fmt.Errorf("keep: %w", away)),
		"outputs":                 r.withOutputs(fault.Gate, "rolled back", []byte(`{"stage":1}`)),
		"cost":                    r.withCost(away, fault.Costs{USD: 2.5}),
		"cost of an answer":       r.withCost(answered, fault.Costs{USD: 2.5}),
		"cost of a cancel":        r.withCost(canceled, fault.Costs{USD: 2.5}),
		"cost of one with cancel": r.withCost(r.new(fault.User, "stopped", canceled), fault.Costs{USD: 2.5}),
		"cost of a cost":          r.withCost(r.withCost(user, fault.Costs{USD: 1}), fault.Costs{USD: 2.5}),
		"cost, wrapped":           fmt.Errorf("run r: %w", r.withCost(canceled, fault.Costs{USD: 2.5})),
		"no type":                 r.new("", "it failed", nil),
		"unknown type":            r.new("wrapError", "it failed", nil),
	}
	for _, typ := range []string{
		fault.Invalid, fault.User, fault.Infrastructure, fault.Preempted, fault.Timeout, fault.Gate, fault.Budget, fault.Canceled,
		fault.Lost, fault.Declined, fault.TurnedAway,
	} {
		errs["typed "+typ] = r.new(typ, "it failed", nil)
	}
	return errs
}

// What histories hold is what they held, and is read as what it was made from.
func TestFailure(t *testing.T) {
	converter := temporal.GetDefaultFailureConverter()
	old := recorded.cases()
	for name, err := range now.cases() {
		t.Run(name, func(t *testing.T) {
			carried := Failure(err)
			if errors.As(carried, new(*fault.Error)) {
				t.Fatalf("%v still is a fault", carried)
			}
			got, want := converter.ErrorToFailure(carried), converter.ErrorToFailure(old[name])
			if !proto.Equal(got, want) {
				t.Fatalf("recorded as %s\nwas %s", prototext.Format(orNothing(got)), prototext.Format(orNothing(want)))
			}
			// The worker decides on these itself: whether a local activity is tried again, and whether a workflow was cancelled.
			if was, is := again(old[name]), again(carried); was != is {
				t.Errorf("is tried again: %v, was %v", is, was)
			}
			for _, err := range []error{err, carried} {
				compare(t, err, old[name])
			}
			compare(t, converter.FailureToError(got), converter.FailureToError(want))
		})
	}
}

// TestFailureOfTemporal: an error that has been made Temporal's keeps its own type and what the SDK goes by, whatever its cause.
func TestFailureOfTemporal(t *testing.T) {
	err := fmt.Errorf("step ship: %w", temporal.NewApplicationErrorWithOptions("refused", fault.Gate, temporal.ApplicationErrorOptions{
		NonRetryable: true, NextRetryDelay: time.Minute, Cause: fault.New(fault.Infrastructure, "the store is away", nil),
	}))
	var app *temporal.ApplicationError
	if !errors.As(Failure(err), &app) || app.Type() != fault.Gate || !app.NonRetryable() || app.NextRetryDelay() != time.Minute {
		t.Errorf("%#v", app)
	}
}

func orNothing(f *failure.Failure) *failure.Failure {
	if f == nil {
		return &failure.Failure{}
	}
	return f
}

// again is as the SDK has it.
func again(err error) string {
	var app *temporal.ApplicationError
	switch {
	case temporal.IsCanceledError(err):
		return "canceled"
	case errors.As(err, &app):
		return fmt.Sprint(app.Type(), !app.NonRetryable())
	}
	return fmt.Sprintf("%T", err)
}

func compare(t *testing.T, got, want error) {
	t.Helper()
	if fault.TypeOf(got) != fault.TypeOf(want) || fault.Message(got) != fault.Message(want) ||
		string(fault.Outputs(got)) != string(fault.Outputs(want)) || fault.CostOf(got) != fault.CostOf(want) {
		t.Errorf("read as %s, %q, %s; was %s, %q, %s", fault.TypeOf(got), fault.Message(got), fault.Outputs(got),
			fault.TypeOf(want), fault.Message(want), fault.Outputs(want))
	}
	is, typed := fault.As(got)
	var was *temporal.ApplicationError
	if errors.As(want, &was) != typed && !temporal.IsCanceledError(want) {
		t.Errorf("%v has a type: %v", got, typed)
	}
	if typed && was != nil && (is.Type != was.Type() || is.Final != was.NonRetryable()) {
		t.Errorf("%v is %s, final: %v", got, is.Type, is.Final)
	}
}

// Temporal's errors are told from each other by their methods.
func TestTypeOfTemporal(t *testing.T) {
	for _, err := range []error{
		temporal.NewCanceledError(), temporal.NewCanceledError("why"), temporal.NewCanceledError(7),
		temporal.NewCanceledErrorWithOptions(temporal.CanceledErrorOptions{Message: "stopped", Cause: errors.New("disk")}),
		temporal.NewApplicationError("it failed", ""), temporal.NewApplicationError("it failed", fault.User, 7),
		temporal.NewTimeoutError(enums.TIMEOUT_TYPE_START_TO_CLOSE, nil), temporal.NewHeartbeatTimeoutError(7),
		&temporal.PanicError{}, &temporal.TerminatedError{}, &temporal.ServerError{}, &temporal.UnknownExternalWorkflowExecutionError{},
		&temporal.ActivityError{}, &temporal.ChildWorkflowExecutionError{}, context.Canceled, context.DeadlineExceeded,
	} {
		want := fault.Infrastructure
		var app *temporal.ApplicationError
		switch {
		case temporal.IsCanceledError(err):
			want = fault.Canceled
		case errors.As(err, &app):
			if app.Type() != "" {
				want = app.Type()
			}
		case temporal.IsTimeoutError(err):
			want = fault.Timeout
		}
		for _, err := range []error{err, fmt.Errorf("step: %w", err), errors.Join(errors.New("disk"), err)} {
			if got := fault.TypeOf(err); got != want {
				t.Errorf("%T (%v) is %s, want %s", err, err, got, want)
			}
		}
	}
}
