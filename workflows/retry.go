package workflows

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

// lostWorkers is how many workers may die under a step before that is taken for the step's fault.
const lostWorkers = 20

// budget counts what is left of a step's retries. Two are kept: the user's, and one for workers that died under the step, which
// is never charged to the user.
type budget struct {
	retry    dsl.Retry
	used     int
	lost     int
	interval time.Duration
}

// newBudget takes a retry as the language has completed it.
func newBudget(retry dsl.Retry) *budget {
	return &budget{retry: retry, interval: time.Duration(retry.Backoff)}
}

// resume takes up what was counted before.
func (b *budget) resume(tries contract.Tries) {
	b.used, b.lost = tries.Used, tries.Lost
	for range tries.Used {
		b.interval = min(2*b.interval, time.Duration(b.retry.MaxBackoff))
	}
}

// again says whether a failed attempt is followed by another, and after which pause.
func (b *budget) again(err error) (time.Duration, bool) {
	if workerLost(err) {
		b.lost++
		return 0, b.lost <= lostWorkers
	}
	b.used++
	if b.used >= b.retry.Attempts || !slices.Contains(b.retry.Errors, contract.ErrorType(err)) {
		return 0, false
	}
	pause := b.interval
	b.interval = min(2*b.interval, time.Duration(b.retry.MaxBackoff))
	return pause, true
}

// workerLost reports whether the attempt ended because the process that ran it stopped heartbeating.
func workerLost(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout) && timeout.TimeoutType() == enums.TIMEOUT_TYPE_HEARTBEAT
}

// timedOut reports whether Temporal ended an attempt at its timeout; its own words are for people who know Temporal.
func timedOut(err error) bool {
	var timeout *temporal.TimeoutError
	return errors.As(err, &timeout)
}
