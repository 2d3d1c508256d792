package rollout

import (
	"context"
	"errors"
	"strings"
	"testing"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/oip"
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

// TestAnswersCheck: the first answers are held to what the rollout does with them, and told so.
func TestAnswersCheck(t *testing.T) {
	labels := spec.Traffic{Label: "spam"}
	agreeing := []spec.Stage{{Shadow: 1, Checks: []spec.Expr{"delta.agreement > 0.9"}}}
	logits := []spec.Compare{{Output: "y", Rule: spec.CompareThreshold, Threshold: new(float64)}}
	for _, tc := range []struct {
		name     string
		spec     spec.Rollout
		previous string
		want     string
	}{
		{"neither labels nor agreement", spec.Rollout{}, "1", ""},
		{"labels", spec.Rollout{Traffic: labels}, "", "rule: threshold, threshold: 0}"},
		{"labels and agreement", spec.Rollout{Traffic: labels, Stages: agreeing}, "1", "rule: threshold, threshold: 0}"},
		{"agreement", spec.Rollout{Stages: agreeing}, "1", "a check reads delta.agreement"},
		{"agreement with nothing", spec.Rollout{Stages: agreeing}, "", ""},
		{"a rule", spec.Rollout{Traffic: labels, Stages: agreeing, Compare: logits}, "1", ""},
	} {
		err := answersCheck(tc.spec, tc.previous)([]oip.Tensor{{Name: "y", Shape: []int64{1, 1}, Data: []float32{2.5}}})
		if (err == nil) != (tc.want == "") || err != nil && !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, want %q", tc.name, err, tc.want)
		}
	}
}
