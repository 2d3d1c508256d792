package workflows

import (
	"context"
	"encoding/json"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
)

// orders are what a person orders while looks are made, by the number of the look; 0 is while the candidate is loaded.
type orders map[int]contract.RolloutOrder

// give has the activities of a target give orders, and returns what became of them.
func give(env *testsuite.TestWorkflowEnvironment, all orders) (answers map[int]*answer, looks *[]contract.RolloutLook) {
	answers, looks = map[int]*answer{}, &[]contract.RolloutLook{}
	for n := range all {
		answers[n] = &answer{}
	}
	var mu sync.Mutex
	send := func(n int) {
		if o, ok := all[n]; ok {
			env.UpdateWorkflow(contract.RolloutUpdate, string(rune('a'+n)), answers[n], o)
		}
	}
	env.RegisterActivityWithOptions(func(ctx context.Context, _ record.StepInput) (contract.RolloutOpened, error) {
		send(0)
		if all[0].Action == contract.RolloutAbort {
			<-ctx.Done()
			return contract.RolloutOpened{}, ctx.Err()
		}
		return contract.RolloutOpened{Version: "2", Previous: "1", Revision: 1}, nil
	}, activity.RegisterOptions{Name: contract.RolloutOpenActivity, DisableAlreadyRegisteredCheck: true})
	env.RegisterActivityWithOptions(func(_ context.Context, in contract.RolloutLook) (contract.RolloutLooked, error) {
		mu.Lock()
		*looks = append(*looks, in)
		n := len(*looks)
		mu.Unlock()
		send(n)
		look := spec.Look{Decision: "pass", Reason: "seen"}
		if _, ordered := all[n]; in.Paused || ordered {
			look.Decision = "hold"
		}
		return contract.RolloutLooked{Looks: []spec.Look{look}, State: json.RawMessage(`{}`)}, nil
	}, activity.RegisterOptions{Name: contract.RolloutLookActivity, DisableAlreadyRegisteredCheck: true})
	return answers, looks
}

func order(action string) contract.RolloutOrder {
	return contract.RolloutOrder{Action: action, By: "user:ann", Reason: "why"}
}

func TestAPersonEndsARollout(t *testing.T) {
	tests := []struct {
		name     string
		given    orders
		orders   []string
		errType  string
		decision string
		reason   string
	}{{
		name:   "promote in a stage skips the others",
		given:  orders{1: order(contract.RolloutPromote)},
		orders: []string{"traffic 0 shadow 1", "settle promote=true"}, decision: "promoted", reason: "promoted by user:ann: why",
	}, {
		name:   "abort in a stage",
		given:  orders{2: order(contract.RolloutAbort)},
		orders: []string{"traffic 0 shadow 1", "traffic 0.1 shadow 0", "settle promote=false"}, errType: fault.Gate, decision: "rolled_back",
		reason: "aborted by user:ann: why",
	}, {
		name:   "abort while the candidate is loaded",
		given:  orders{0: order(contract.RolloutAbort)},
		orders: []string{"settle promote=false"}, errType: fault.Gate, decision: "rolled_back", reason: "aborted by user:ann: why",
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			f := &target{previous: "1"}
			env := f.environment()
			answers, _ := give(env, tt.given)
			out, err := f.roll(env, canary())
			if got := fault.TypeOf(err); got != tt.errType {
				t.Errorf("the rollout ended with %v of type %q, want %q", err, got, tt.errType)
			}
			if diff := cmp.Diff(tt.orders, f.orders); diff != "" {
				t.Errorf("orders (-want +got):\n%s", diff)
			}
			if out.Decision != tt.decision || out.Reason != tt.reason {
				t.Errorf("decision %q for %q, want %q for %q", out.Decision, out.Reason, tt.decision, tt.reason)
			}
			for n, a := range answers {
				if a.rejected != nil {
					t.Errorf("order %d was rejected: %v", n, a.rejected)
				}
			}
		})
	}
}

// TestAnOrderIsAnsweredWhateverComesOfIt: where the rollback that a person ordered fails, the rollout ends, and the person hears why.
func TestAnOrderIsAnsweredWhateverComesOfIt(t *testing.T) {
	for _, look := range []int{0, 2} { // 0: while the candidate is loaded
		f := &target{previous: "1", broken: "rollback"}
		env := f.environment()
		answers, _ := give(env, orders{look: order(contract.RolloutAbort)})
		if _, err := f.roll(env, canary()); fault.TypeOf(err) != fault.Invalid {
			t.Errorf("abort in look %d: the rollout ended with %v", look, err)
		}
		if a := answers[look]; a.rejected != nil || a.err == nil || !strings.Contains(a.err.Error(), "rollback is broken") {
			t.Errorf("abort in look %d: the answer is %v, rejected %v", look, a.err, a.rejected)
		}
	}
}

// TestAPauseHoldsTheStage: no look passes it, and the time of the pause is added to what the stage may take.
func TestAPauseHoldsTheStage(t *testing.T) {
	f := &target{previous: "1"}
	env := f.environment()
	answers, looks := give(env, orders{1: order(contract.RolloutPause), 2: order(contract.RolloutPause), 4: order(contract.RolloutResume)})
	if _, err := f.roll(env, canary()); err != nil {
		t.Fatal(err)
	}
	var paused []bool
	for _, l := range *looks {
		paused = append(paused, l.Paused)
	}
	if want := []bool{false, true, true, true, false, false, false}; !slices.Equal(paused, want) {
		t.Errorf("looks were paused: %v, want %v", paused, want)
	}
	if first, after := (*looks)[0].Stage.MaxWait, (*looks)[4].Stage.MaxWait; after < first {
		t.Errorf("max_wait is %v after the pause, and %v before it", after, first)
	}
	if want := []string{"load", "traffic 0 shadow 1", "traffic 0.1 shadow 0", "traffic 1 shadow 0", "settle promote=true"}; !slices.Equal(f.orders, want[1:]) {
		t.Errorf("orders %q, want %q", f.orders, want[1:])
	}
	for n, a := range answers {
		if a.rejected != nil {
			t.Errorf("order %d was rejected: %v", n, a.rejected)
		}
	}
}

// TestOrdersThatCannotBe: they are rejected with the reason, and change nothing.
func TestOrdersThatCannotBe(t *testing.T) {
	r := func(s contract.RolloutState) *rollout { return &rollout{at: contract.RolloutContinuation{State: s}} }
	ann := order(contract.RolloutAbort)
	tests := []struct {
		state  contract.RolloutState
		action string
		want   string
	}{
		{contract.RolloutState{Phase: phaseLoading}, contract.RolloutPromote, "still being loaded"},
		{contract.RolloutState{Phase: phaseLoading}, contract.RolloutPause, ""},
		{contract.RolloutState{Phase: phaseStage}, "stop", `has no action "stop"`},
		{contract.RolloutState{Phase: phaseStage, Version: "2", Ordered: &ann}, contract.RolloutPromote, "release 2 is already being rolled back: aborted by user:ann: why"},
		{contract.RolloutState{Phase: phaseStage, Ordered: &ann}, contract.RolloutAbort, ""},
		{contract.RolloutState{Phase: phaseRollingBack, Version: "2"}, contract.RolloutPause, "release 2 is already being rolled back"},
		{contract.RolloutState{Phase: phasePromoting, Version: "2"}, contract.RolloutAbort, "release 2 is already being promoted"},
		{contract.RolloutState{Phase: phasePromoting}, contract.RolloutPromote, ""},
		{contract.RolloutState{Phase: phaseDone, Version: "2", Decision: "promoted"}, contract.RolloutResume, "release 2 is already being promoted"},
	}
	for _, tt := range tests {
		err := r(tt.state).validate(order(tt.action))
		if (err == nil) != (tt.want == "") || err != nil && !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%s in %s: %v, want %q", tt.action, tt.state.Phase, err, tt.want)
		}
	}
	if err := r(contract.RolloutState{Phase: phaseStage}).validate(contract.RolloutOrder{Action: contract.RolloutPause}); err == nil {
		t.Error("an order by nobody was taken")
	}
}
