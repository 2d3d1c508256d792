package activities

import (
	"context"
	"errors"
	"testing"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
)

// The end of replayed traffic is final when the server has canceled it. When its attempt alone is over, a further one goes on.
func TestReplayEnd(t *testing.T) {
	canceled := func(cause error) context.Context {
		ctx, cancel := context.WithCancelCause(t.Context())
		cancel(cause)
		return ctx
	}
	var end *temporal.CanceledError
	var replayed contract.RolloutReplayed
	err := replayEnd(canceled(temporal.NewCanceledError()), context.Canceled, 7)
	if !errors.As(err, &end) || end.Details(&replayed) != nil || replayed.Sent != 7 {
		t.Errorf("canceled: %v after %+v, want to be told of 7 requests", err, replayed)
	}
	for _, cause := range []error{activity.ErrActivityPaused, errors.New("the server does not answer")} {
		if err := replayEnd(canceled(cause), context.Canceled, 7); err == nil || temporal.IsCanceledError(err) {
			t.Errorf("%v: %v, which is never tried again", cause, err)
		}
	}
}
