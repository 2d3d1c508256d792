package gang

import (
	"context"
	"slices"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/training/protocol"
)

// At a notice the next gang is asked for while the ranks stop, and if there is no room for it yet, again when the old one has been released.
func TestTrainAsksForTheNextGangAtANotice(t *testing.T) {
	for _, tt := range []struct {
		name  string
		room  bool  // for both gangs
		asked []int // the generations that a gang was asked for, and 0 when one was released
	}{
		{"room for both", true, []int{1, 2, 0, 0}},
		{"no room", false, []int{1, 2, 0, 2, 0}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &stage{}
			stopped, asked := make(chan struct{}), make(chan struct{})
			var env *testsuite.TestWorkflowEnvironment
			s.ranks = func(generation int) (protocol.RanksEnded, error) {
				if generation > 1 {
					return protocol.RanksEnded{}, nil
				}
				env.SignalWorkflow(protocol.NoticeSignal, protocol.Notice{Generation: 1, Until: time.Now().Add(time.Minute)})
				<-stopped
				return protocol.RanksEnded{Code: 143, Stopped: true}, nil
			}
			env = s.environment(t)
			env.RegisterActivityWithOptions(func(context.Context, protocol.StopInput) error {
				select {
				case <-asked:
				case <-time.After(time.Minute):
					t.Error("the next gang is not asked for while the ranks stop")
				}
				close(stopped)
				return nil
			}, activity.RegisterOptions{Name: protocol.StopActivity})
			var all []int
			env.RegisterActivityWithOptions(func(ctx context.Context, in contract.AcquireInput) (contract.Acquired, error) {
				crowded := false
				s.note(func() {
					all = append(all, in.Request.Generation)
					crowded = in.Request.Generation == 2 && !slices.Contains(all, 0)
				})
				if crowded && !tt.room {
					return contract.Acquired{}, fault.New(fault.Preempted, "no room", nil)
				}
				return s.acquireGang(ctx, in)
			}, activity.RegisterOptions{Name: contract.AcquireActivity, DisableAlreadyRegisteredCheck: true})
			env.RegisterActivityWithOptions(func(ctx context.Context, in contract.ReleaseInput) error {
				s.note(func() { all = append(all, 0) })
				return s.release(ctx, in)
			}, activity.RegisterOptions{Name: contract.ReleaseActivity, DisableAlreadyRegisteredCheck: true})
			answers := 0
			env.SetOnActivityCompletedListener(func(info *activity.Info, _ converter.EncodedValue, _ error) {
				if info.ActivityType.Name == contract.AcquireActivity {
					if answers++; answers == 2 {
						close(asked)
					}
				}
			})
			if err := s.train(t, env, spec.Retry{}); err != nil {
				t.Fatal(err)
			}
			if !slices.Equal(all, tt.asked) {
				t.Errorf("asked for the gangs of generations %v (0: released), want %v", all, tt.asked)
			}
			if !slices.Equal(s.released, []int{1, 2}) {
				t.Errorf("released are the gangs of generations %v, want 1 and 2", s.released)
			}
		})
	}
}
