package durable

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

// LostWorkers is how many workers may die during a step before the step is considered the cause.
const LostWorkers = 20

// RetryBudget counts the retries that a step has left. There are two budgets: the user's retries, and one for workers that died during the
// step, which never uses up the user's.
type RetryBudget struct {
	retry spec.Retry
	// Used is how many attempts have failed, and Lost how many ended with their worker.
	Used, Lost int
	interval   time.Duration
}

// NewRetryBudget returns the budget of a retry spec with all defaults filled in.
func NewRetryBudget(retry spec.Retry) *RetryBudget {
	return &RetryBudget{retry: retry, interval: time.Duration(retry.Backoff)}
}

// Resume continues with earlier counts.
func (b *RetryBudget) Resume(tries contract.Tries) {
	b.Used, b.Lost = tries.Used, tries.Lost
	for range tries.Used {
		b.interval = min(2*b.interval, time.Duration(b.retry.MaxBackoff))
	}
}

// Again reports whether another attempt follows a failed one, and after which pause.
func (b *RetryBudget) Again(err error) (time.Duration, bool) {
	if WorkerLost(err) {
		b.Lost++
		return 0, b.Lost <= LostWorkers
	}
	b.Used++
	if b.Used >= b.retry.Attempts || !slices.Contains(b.retry.Errors, fault.TypeOf(err)) {
		return 0, false
	}
	pause := b.interval
	b.interval = min(2*b.interval, time.Duration(b.retry.MaxBackoff))
	return pause, true
}

// WorkerLost reports whether the attempt ended because the process that ran it stopped heartbeating.
func WorkerLost(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enums.TIMEOUT_TYPE_HEARTBEAT
}

// NotTaken reports whether an activity failed because no worker accepted it.
func NotTaken(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// TimedOut reports whether Temporal ended an attempt at its timeout. Temporal's own message is only useful to people who know Temporal.
func TimedOut(err error) bool {
	return errors.As(err, new(*temporal.TimeoutError))
}
