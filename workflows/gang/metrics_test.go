package gang

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
	"github.com/sluiceml/sluice/training/protocol"
)

// A training counts its generations, steps, notices and dollars: each notice once, however often the agent repeats it.
func TestTrainCounts(t *testing.T) {
	stopped := make(chan struct{})
	s := &stage{counts: &flowtest.Counts{}, price: 36, reached: 14, from: func(generation int) int64 { return int64(10 * (generation - 1)) }}
	env := s.environment(t)
	s.now = func() time.Time { return env.Now().Add(-time.Hour) } // when a gang was asked for
	s.ranks = func(generation int) (protocol.RanksEnded, error) {
		if generation == 2 {
			return protocol.RanksEnded{Step: 30, CommittedStep: 30}, nil
		}
		notice := protocol.Notice{Generation: 1, Until: env.Now().Add(10 * time.Second)}
		env.SignalWorkflow(protocol.NoticeSignal, notice)
		env.SignalWorkflow(protocol.NoticeSignal, notice)
		env.SignalWorkflow(protocol.NoticeSignal, protocol.Notice{Generation: 1, Cause: protocol.CauseFault})
		<-stopped
		return protocol.RanksEnded{Code: exitStopped, Stopped: true, Step: 12, CommittedStep: 10}, nil
	}
	env.RegisterActivityWithOptions(func(context.Context, protocol.StopInput) error {
		close(stopped)
		return nil
	}, activity.RegisterOptions{Name: protocol.StopActivity})
	if err := s.train(t, env, spec.Retry{}); err != nil {
		t.Fatal(err)
	}
	cost := "sluice_train_cost_usd_total map[capacity:on_demand]"
	if got := s.counts.Of[cost]; got < 72e6 || got > 73e6 {
		t.Errorf("%d millionths of a dollar are counted, want those of two hours", got)
	}
	delete(s.counts.Of, cost)
	want := map[string]int64{
		"sluice_train_generations_total map[end:node_lost]": 1,
		"sluice_train_generations_total map[end:finished]":  1,
		"sluice_train_steps_total map[]":                    14 + 20, // of the first two that its nodes did not tell
		"sluice_train_steps_lost_total map[]":               4,
		"sluice_train_notices_total map[cause:preemption]":  1,
		"sluice_train_notices_total map[cause:gpu_fault]":   1,
	}
	if diff := cmp.Diff(want, s.counts.Of); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}
