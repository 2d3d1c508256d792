package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
	"github.com/sluiceml/sluice/store/record"
)

// target plays a serving target and writes down what was ordered, in order.
type target struct {
	previous string
	// looks are the decisions of the Look activities, one each; the last one stays.
	looks []string
	// looksEach is how many looks an activity has made when it ends; 0: one.
	looksEach int
	// broken makes the order of that name fail for good.
	broken string
	// loads has the model go on loading until that is canceled.
	loads bool
	// replayEnds makes the replayed traffic fail at once.
	replayEnds bool

	mu     sync.Mutex
	orders []string
	began  []bool // of the looks, whether they were a stage's first

	replays int
	// awaitsReplay has each look wait until traffic is replayed, which otherwise may not have begun before the history ends.
	awaitsReplay bool
}

func (f *target) note(format string, args ...any) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.orders = append(f.orders, fmt.Sprintf(format, args...))
}

func (f *target) fails(name string) error {
	if f.broken == name {
		return fault.New(fault.Invalid, name+" is broken", nil)
	}
	return nil
}

func (f *target) environment() *testsuite.TestWorkflowEnvironment {
	env := flowtest.New()
	replaying := make(chan struct{})
	env.RegisterWorkflowWithOptions(Rollout, workflow.RegisterOptions{Name: contract.RolloutWorkflow})
	register := func(name string, f any) { env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name}) }
	register(contract.RolloutOpenActivity, func(ctx context.Context, _ record.StepInput) (contract.RolloutOpened, error) {
		f.note("load")
		if f.loads {
			<-ctx.Done()
			return contract.RolloutOpened{}, ctx.Err()
		}
		return contract.RolloutOpened{Version: "2", Previous: f.previous, Revision: 1}, f.fails("load")
	})
	register(contract.RolloutTrafficActivity, func(_ context.Context, in contract.RolloutTraffic) (contract.RolloutTrafficSet, error) {
		f.note("traffic %g shadow %g", float64(in.Weight), float64(in.Shadow))
		return contract.RolloutTrafficSet{Revision: in.Revision + 1}, f.fails("traffic")
	})
	register(contract.RolloutLookActivity, func(ctx context.Context, in contract.RolloutLook) (contract.RolloutLooked, error) {
		if f.awaitsReplay {
			select {
			case <-replaying:
			case <-ctx.Done():
				return contract.RolloutLooked{}, ctx.Err()
			}
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.began = append(f.began, in.Begins)
		decision := f.looks[0]
		if len(f.looks) > 1 {
			f.looks = f.looks[1:]
		}
		look := spec.Look{Decision: decision, Reason: "seen"}
		return contract.RolloutLooked{Looks: slices.Repeat([]spec.Look{look}, max(1, f.looksEach)), State: json.RawMessage(`{}`)}, f.fails("look")
	})
	register(contract.RolloutReplayActivity, func(ctx context.Context, _ contract.RolloutReplay) error {
		f.mu.Lock()
		f.replays++
		f.mu.Unlock()
		close(replaying)
		if f.replayEnds {
			return fault.New(fault.User, "no such column", nil)
		}
		<-ctx.Done()
		return ctx.Err()
	})
	register(contract.RolloutSettleActivity, func(_ context.Context, in contract.RolloutSettle) error {
		f.note("settle promote=%v", in.Promote)
		if in.Promote {
			return f.fails("promote")
		}
		return f.fails("rollback")
	})
	return env
}

func (f *target) roll(env *testsuite.TestWorkflowEnvironment, sp spec.Rollout) (spec.RolloutOutput, error) {
	raw, err := json.Marshal(sp)
	if err != nil {
		return spec.RolloutOutput{}, err
	}
	env.ExecuteWorkflow(contract.RolloutWorkflow, record.StepInput{Run: "r", Step: "ship", Spec: raw})
	var step record.StepOutput
	var out spec.RolloutOutput
	if err := env.GetWorkflowError(); err != nil {
		if kept := fault.Outputs(err); kept != nil {
			err = errors.Join(err, json.Unmarshal(kept, &out))
		}
		return out, err
	}
	if err := env.GetWorkflowResult(&step); err != nil {
		return out, err
	}
	return out, json.Unmarshal(step.Outputs, &out)
}

func canary() spec.Rollout {
	return spec.Rollout{
		Target: "t", Stages: []spec.Stage{{Shadow: 1}, {Weight: 0.1}, {Weight: 1}},
		Traffic: spec.Traffic{Replay: artifact.Ref{Digest: "sha256:x"}},
	}
}

func TestRollout(t *testing.T) {
	tests := []struct {
		name     string
		target   *target
		orders   []string
		decision string
		errType  string
	}{{
		name:     "every stage passes",
		target:   &target{previous: "1", looks: []string{"hold", "pass"}},
		orders:   []string{"load", "traffic 0 shadow 1", "traffic 0.1 shadow 0", "traffic 1 shadow 0", "settle promote=true"},
		decision: "promoted",
	}, {
		name:     "a look aborts",
		target:   &target{previous: "1", looks: []string{"pass", "hold", "abort"}},
		orders:   []string{"load", "traffic 0 shadow 1", "traffic 0.1 shadow 0", "settle promote=false"},
		decision: "rolled_back", errType: fault.Gate,
	}, {
		name:     "the first release takes all traffic, for nothing else could answer",
		target:   &target{looks: []string{"pass"}},
		orders:   []string{"load", "traffic 1 shadow 0", "traffic 1 shadow 0", "traffic 1 shadow 0", "settle promote=true"},
		decision: "promoted",
	}, {
		name:    "traffic cannot be moved",
		target:  &target{previous: "1", looks: []string{"pass"}, broken: "traffic"},
		orders:  []string{"load", "traffic 0 shadow 1", "settle promote=false"},
		errType: fault.Invalid,
	}, {
		name:    "the model cannot be loaded: nothing was moved, nothing stays loaded",
		target:  &target{previous: "1", looks: []string{"pass"}, broken: "load"},
		orders:  []string{"load", "settle promote=false"},
		errType: fault.Invalid,
	}, {
		name:    "the replayed traffic fails",
		target:  &target{previous: "1", looks: []string{"hold"}, replayEnds: true},
		orders:  []string{"load", "traffic 0 shadow 1", "settle promote=false"},
		errType: fault.User,
	}}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			out, err := tt.target.roll(tt.target.environment(), canary())
			if got := fault.TypeOf(err); got != tt.errType {
				t.Errorf("the rollout ended with %v of type %q, want %q", err, got, tt.errType)
			}
			if diff := cmp.Diff(tt.orders, tt.target.orders); diff != "" {
				t.Errorf("orders (-want +got):\n%s", diff)
			}
			if out.Decision != tt.decision {
				t.Errorf("decision %q, want %q", out.Decision, tt.decision)
			}
			for i, s := range out.Stages {
				if says := fmt.Sprintf("traffic %g shadow %g", float64(s.Weight), float64(s.Shadow)); says != tt.target.orders[1+i] {
					t.Errorf("stage %d says %q, and the order was %q", i+1, says, tt.target.orders[1+i])
				}
			}
		})
	}
}

func TestACanceledRolloutGivesItsTrafficBack(t *testing.T) {
	f := &target{previous: "1", looks: []string{"hold"}}
	env := f.environment()
	env.RegisterDelayedCallback(env.CancelWorkflow, 50*time.Millisecond) // the clock runs while activities do
	if _, err := f.roll(env, canary()); fault.TypeOf(err) != fault.Canceled {
		t.Errorf("the rollout ended with %v, want a cancel", err)
	}
	if want := "settle promote=false"; !slices.Contains(f.orders, want) {
		t.Errorf("orders %q, want %q among them", f.orders, want)
	}
}

// TestARolloutCanceledWhileItLoads: nothing stays loaded, and no traffic was moved.
func TestARolloutCanceledWhileItLoads(t *testing.T) {
	f := &target{previous: "1", looks: []string{"pass"}, loads: true}
	env := f.environment()
	env.RegisterDelayedCallback(env.CancelWorkflow, 50*time.Millisecond) // the clock runs while activities do
	if _, err := f.roll(env, canary()); fault.TypeOf(err) != fault.Canceled {
		t.Errorf("the rollout ended with %v, want a cancel", err)
	}
	if diff := cmp.Diff([]string{"load", "settle promote=false"}, f.orders); diff != "" {
		t.Errorf("orders (-want +got):\n%s", diff)
	}
}

// TestRolloutGoesOnInANewHistory: between stages, and midway in one, whose traffic is not ordered again.
func TestRolloutGoesOnInANewHistory(t *testing.T) {
	f := &target{previous: "1", looks: []string{"pass", "hold", "hold", "pass"}, awaitsReplay: true}
	spec, err := json.Marshal(canary())
	if err != nil {
		t.Fatal(err)
	}
	in := contract.RolloutInput{StepInput: record.StepInput{Run: "r", Step: "ship", Spec: spec}}
	histories := 0
	for histories < 10 {
		histories++
		env := f.environment()
		env.SetContinueAsNewSuggested(true)
		env.ExecuteWorkflow(contract.RolloutWorkflow, in)
		var again *workflow.ContinueAsNewError
		if !errors.As(env.GetWorkflowError(), &again) {
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			break
		}
		in = nextInput[contract.RolloutInput](t, again)
	}
	if histories != 5 {
		t.Errorf("%d histories, want one for each look", histories)
	}
	orders := []string{"load", "traffic 0 shadow 1", "traffic 0.1 shadow 0", "traffic 1 shadow 0", "settle promote=true"}
	if diff := cmp.Diff(orders, f.orders); diff != "" {
		t.Errorf("orders (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]bool{true, true, false, false, true}, f.began); diff != "" {
		t.Errorf("looks that begin a stage (-want +got):\n%s", diff)
	}
	if f.replays != histories {
		t.Errorf("traffic was replayed %d times, want once in each of %d histories", f.replays, histories)
	}
}

// TestManyStagesStayShortHistories: a rollout whose stages all pass at once goes on in a new history between two of them, and of their
// looks it keeps no more than one payload takes.
func TestManyStagesStayShortHistories(t *testing.T) {
	const stages, eventsEach = 600, 14
	f := &target{previous: "1", looks: []string{"pass"}, looksEach: 40}
	sp := spec.Rollout{Target: "t"}
	want := []string{"load"}
	for i := 1; i <= stages; i++ {
		weight := spec.Share(i) / stages
		sp.Stages = append(sp.Stages, spec.Stage{Weight: weight})
		want = append(want, fmt.Sprintf("traffic %g shadow 0", float64(weight)))
	}
	raw, err := json.Marshal(sp)
	if err != nil {
		t.Fatal(err)
	}
	in := contract.RolloutInput{StepInput: record.StepInput{Run: "r", Step: "ship", Spec: raw}}
	histories, longest := 0, 0
	for {
		histories++
		env := f.environment()
		events := 0
		env.SetOnActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) {
			events += eventsEach
			env.SetCurrentHistoryLength(events)
		})
		env.ExecuteWorkflow(contract.RolloutWorkflow, in)
		longest = max(longest, events)
		var again *workflow.ContinueAsNewError
		if !errors.As(env.GetWorkflowError(), &again) {
			if err := env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			break
		}
		if in = nextInput[contract.RolloutInput](t, again); histories > stages {
			t.Fatal("it has no end")
		}
	}
	if histories < 3 || longest > 4096 {
		t.Fatalf("%d histories of up to %d events", histories, longest)
	}
	if kept := len(in.Continuation.Results) * len(in.Continuation.Results[0].Looks); kept == 0 || kept > keptLooks {
		t.Errorf("%d looks are kept", kept)
	}
	if diff := cmp.Diff(append(want, "settle promote=true"), f.orders); diff != "" {
		t.Errorf("orders (-want +got):\n%s", diff)
	}
	if len(f.began) != stages || slices.Contains(f.began, false) {
		t.Errorf("%d looks, want one that begins each of %d stages", len(f.began), stages)
	}
}

// TestRolloutThatCannotBePromotedIsTakenBack: traffic is not left between the versions.
func TestRolloutThatCannotBePromotedIsTakenBack(t *testing.T) {
	f := &target{previous: "1", looks: []string{"pass"}, broken: "promote"}
	if _, err := f.roll(f.environment(), canary()); fault.TypeOf(err) != fault.Invalid {
		t.Errorf("the rollout ended with %v", err)
	}
	if last := f.orders[len(f.orders)-1]; last != "settle promote=false" {
		t.Errorf("orders %q, want the traffic back", f.orders)
	}
}

// Whatever the looks decide, a rollout never orders more than its stages say, and always ends with all or nothing.
func TestTrafficNeverExceedsTheStages(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		decisions := rapid.SliceOfN(rapid.SampledFrom([]string{"hold", "pass", "abort"}), 1, 8).Draw(t, "looks")
		f := &target{previous: "1", looks: append(decisions, "pass")}
		out, _ := f.roll(f.environment(), canary())
		allowed := []string{"load", "traffic 0 shadow 1", "traffic 0.1 shadow 0", "traffic 1 shadow 0"}
		n := len(f.orders) - 1
		if n < 1 || n > len(allowed) || !slices.Equal(f.orders[:n], allowed[:n]) {
			t.Fatalf("orders %q, which the stages do not allow", f.orders)
		}
		if want := fmt.Sprintf("settle promote=%v", out.Decision == "promoted"); f.orders[n] != want {
			t.Fatalf("the last order is %q, want %q", f.orders[n], want)
		}
	})
}
