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

// LostWorkers is how many workers may die under a step before that is taken for the step's fault.
const LostWorkers = 20

// RetryBudget counts what is left of a step's retries. Two are kept: the user's, and one for workers that died under the step, which
// is never charged to the user.
type RetryBudget struct {
	retry spec.Retry
	// Used is how many attempts have failed, and Lost how many ended with their worker.
	Used, Lost int
	interval   time.Duration
}

// NewRetryBudget takes a retry as the language has completed it.
func NewRetryBudget(retry spec.Retry) *RetryBudget {
	return &RetryBudget{retry: retry, interval: time.Duration(retry.Backoff)}
}

// Resume takes up what was counted before.
func (b *RetryBudget) Resume(tries contract.Tries) {
	b.Used, b.Lost = tries.Used, tries.Lost
	for range tries.Used {
		b.interval = min(2*b.interval, time.Duration(b.retry.MaxBackoff))
	}
}

// Again says whether a failed attempt is followed by another, and after which pause.
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

// NotTaken reports whether an activity failed since no worker has taken it up.
func NotTaken(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// TimedOut reports whether Temporal ended an attempt at its timeout; its own words are for people who know Temporal.
func TimedOut(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout)
}
