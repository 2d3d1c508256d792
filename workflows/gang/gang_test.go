package gang

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/fault/boundary"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
	"github.com/sluiceml/sluice/workflows/durable"
)

// stage plays the worker's and the nodes' activities of a training on one node.
type stage struct {
	// acquire are the errors of the first calls of Acquire. Where asks is set, it is closed by the first, which finds nothing.
	acquire []error
	asks    chan struct{}
	// lost says whether the node of a generation is lost before it is prepared.
	lost func(generation int) bool
	// prepare is why the node of a generation does not get ready; nil: it does.
	prepare func(generation int) error
	// ranks is how the ranks of a generation end; nil: they finish.
	ranks func(generation int) (protocol.RanksEnded, error)
	// from says what step a generation resumes from; nil: the beginning.
	from func(generation int) int64
	// reached is the last step that checkpoints or metrics show of the generation before.
	reached int64
	// began is the first step that they show.
	began *int64
	// price of a node; budget of the step.
	price, budget float64
	// unpriced: nobody knows what a node costs; unpricedSpot: what one on spot does.
	unpriced, unpricedSpot bool
	// timeout of the step, and what an earlier history hands over.
	timeout time.Duration
	carried contract.TrainContinuation
	// stuck is why no gang can be released.
	stuck error
	// falls: the only node goes once its ranks have run.
	falls bool
	// deadline of the step, that ends it: so long after its start.
	deadline time.Duration
	// goesOn: the training is not ended by it. collected is what the step's outputs are made of.
	goesOn    bool
	collected contract.CollectInput
	// accounted are the generations of a training that failed.
	accounted []spec.Generation
	// spot says whether there is any for a generation. Where it is set, the step may buy spot and on-demand, and has on-demand first.
	spot func(generation int) bool
	// waits: it has spot alone first, and on-demand where there is no spot to be bought.
	waits bool
	// leaves: it has spot first, and leaves that for on-demand.
	leaves bool
	// counts takes what is counted.
	counts *flowtest.Counts

	// mu is held for what follows. An activity that nothing waits for may still begin when the workflow has ended: it notes nothing then.
	mu       sync.Mutex
	ended    bool
	now      func() time.Time
	unusable []artifact.Ref // of the last seal
	acquired int
	patience time.Duration // of the last call of Acquire
	// prepareLimit is how long the last node may take to get ready.
	prepareLimit time.Duration
	blocked      []time.Time // since when, as each call of Acquire is told
	released     []int
	unwatched    bool  // nothing is seen of the pool, which lets the clock skip ahead
	watched      []int // the generations by which the pool knows the gangs of all generations
	fall         map[int]chan struct{}
}

// note calls f, which notes what an activity was asked, while the training goes on.
func (s *stage) note(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.ended {
		f()
	}
}

// end says that the training has begun or ended.
func (s *stage) end(ended bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = ended
}

// fallOf is closed when the node of a generation has gone.
func (s *stage) fallOf(generation int) chan struct{} {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fall == nil {
		s.fall = map[int]chan struct{}{}
	}
	if s.fall[generation] == nil {
		s.fall[generation] = make(chan struct{})
	}
	return s.fall[generation]
}

// plan is what the step may buy.
func (s *stage) plan(_ context.Context, in contract.PlanInput) (contract.TrainPlan, error) {
	if in.Continues == s.carried.BeganAt.IsZero() {
		return contract.TrainPlan{}, fmt.Errorf("a training that began at %v continues: %v", s.carried.BeganAt, in.Continues)
	}
	plan := contract.TrainPlan{MinNodes: 1, MaxNodes: 1, Offers: []contract.Offer{{Pool: "p", Capacity: spec.CapacityOnDemand, USDPerHour: s.price, PriceUnknown: s.unpriced}}}
	if s.spot != nil {
		plan.Offers = append(plan.Offers, contract.Offer{Pool: "q", Capacity: spec.CapacitySpot, PriceUnknown: s.unpricedSpot})
	}
	if s.deadline != 0 {
		plan.Deadline, plan.StopOnMiss = in.BeganAt.Add(s.deadline), !s.goesOn
	}
	return plan, nil
}

// decide asks for on-demand, and for spot in its place.
func (s *stage) decide(_ context.Context, in contract.DecideInput) (contract.Choice, error) {
	if s.waits && len(in.Offers) > 1 {
		return contract.Choice{Offers: in.Offers[1:], Waits: true}, nil
	}
	if s.leaves && in.Current.Capacity == "" && in.Generation == 1 || in.Current.Capacity == spec.CapacityOnDemand {
		return contract.Choice{Offers: in.Offers[1:]}, nil
	}
	return contract.Choice{Offers: in.Offers[:1]}, nil
}

func (s *stage) environment(t *testing.T) *testsuite.TestWorkflowEnvironment {
	t.Helper()
	env := flowtest.New(s.counts.Handler()...)
	env.RegisterWorkflowWithOptions(Train, workflow.RegisterOptions{Name: contract.TrainWorkflow})
	over := t.Context().Done()
	s.now = env.Now
	for name, f := range map[string]any{
		contract.PlanActivity:   s.plan,
		contract.DecideActivity: s.decide,
		contract.SealActivity: func(_ context.Context, in contract.SealInput) (contract.SealOutput, error) {
			seal := checkpoint.Seal{Generation: in.Generation}
			if s.from != nil && s.from(in.Generation) > 0 {
				step := s.from(in.Generation)
				seal.Resume = &checkpoint.Manifest{Generation: in.Generation - 1, Step: step, Checkpoint: artifact.Ref{Digest: fmt.Sprint(step)}}
			}
			s.note(func() { s.unusable = in.Unusable })
			return contract.SealOutput{Seal: seal, Reached: s.reached, Began: s.began}, nil
		},
		contract.AcquireActivity: s.acquireGang,
		contract.WatchActivity: func(ctx context.Context, in contract.GangInput) (training.Loss, error) {
			s.watch(in)
			if s.unwatched {
				return training.Loss{}, temporal.NewNonRetryableApplicationError("the pool is away", "", nil)
			}
			if s.falls {
				<-s.fallOf(in.Key.Generation)
			} else if s.lost == nil || !s.lost(in.Key.Generation) {
				select {
				case <-ctx.Done():
				case <-over:
				}
				return training.Loss{}, errors.New("the generation is over")
			}
			return training.Loss{Nodes: []int{0}, Reason: "node 0 fell over"}, nil
		},
		contract.ReleaseActivity: s.release,
		protocol.PrepareActivity: func(ctx context.Context, in protocol.PrepareInput) (protocol.PrepareOutput, error) {
			s.note(func() { s.prepareLimit = activity.GetInfo(ctx).StartToCloseTimeout })
			if s.lost != nil && s.lost(in.Seal.Generation) {
				<-over // a lost node does not answer
			}
			if s.prepare != nil {
				if err := s.prepare(in.Seal.Generation); err != nil {
					return protocol.PrepareOutput{}, err
				}
			}
			return protocol.PrepareOutput{MasterPort: 1}, nil
		},
		protocol.RunRanksActivity: func(_ context.Context, in protocol.RunRanksInput) (protocol.RanksEnded, error) {
			if s.falls {
				defer close(s.fallOf(in.Generation))
			}
			if s.ranks == nil {
				return protocol.RanksEnded{}, nil
			}
			return s.ranks(in.Generation)
		},
		contract.CollectActivity: func(_ context.Context, in contract.CollectInput) (record.StepOutput, error) {
			s.note(func() { s.collected = in })
			return record.StepOutput{Outputs: []byte(`{}`)}, nil
		},
		contract.AccountActivity: func(_ context.Context, in contract.AccountInput) (spec.TrainOutput, error) {
			s.note(func() { s.accounted = in.Generations })
			out := spec.TrainOutput{Generations: in.Generations}
			for _, g := range in.Generations {
				out.CostUSD += g.CostUSD
				out.CostUnknown = out.CostUnknown || g.PriceUnknown
			}
			return out, nil
		},
	} {
		env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	return env
}

func (s *stage) acquireGang(ctx context.Context, in contract.AcquireInput) (contract.Acquired, error) {
	if s.asks != nil {
		close(s.asks)
		<-ctx.Done()
		return contract.Acquired{}, ctx.Err()
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return contract.Acquired{}, errors.New("the training is over")
	}
	s.acquired++
	s.patience = in.Patience
	s.blocked = append(s.blocked, in.BlockedSince)
	offer, key := in.Offers[0], in.Request.Key
	if len(s.acquire) > 0 {
		err := s.acquire[0]
		s.acquire = s.acquire[1:]
		return contract.Acquired{}, err
	}
	if offer.Capacity == spec.CapacitySpot && !s.spot(key.Generation) {
		return contract.Acquired{}, fault.New(fault.Preempted, "no spot", nil)
	}
	gang := training.Gang{Nodes: []training.Node{{Name: "n", Queue: key.Queue(0, "x"), Address: "a"}}}
	return contract.Acquired{At: s.now(), Gang: gang, Offer: offer}, nil
}

func (s *stage) watch(in contract.GangInput) {
	if in.GangGeneration == 0 {
		in.GangGeneration = in.Key.Generation
	}
	s.note(func() { s.watched = append(s.watched, in.GangGeneration) })
}

func (s *stage) release(_ context.Context, in contract.ReleaseInput) error {
	s.note(func() { s.released = append(s.released, in.Key.Generation) })
	return s.stuck
}

// train runs a training and returns its error.
func (s *stage) train(t *testing.T, env *testsuite.TestWorkflowEnvironment, retry spec.Retry) error {
	t.Helper()
	return s.run(t, env, contract.TrainInput{
		StepInput: record.StepInput{Run: "r", Step: "fit"}, Retry: retry.WithDefaults(), BudgetUSD: s.budget, Timeout: spec.Duration(s.timeout), Continuation: s.carried,
	})
}

func (s *stage) run(t *testing.T, env *testsuite.TestWorkflowEnvironment, in contract.TrainInput) error {
	t.Helper()
	s.end(false)
	defer s.end(true)
	env.ExecuteWorkflow(contract.TrainWorkflow, in)
	if !env.IsWorkflowCompleted() {
		t.Fatal("the training did not end")
	}
	return env.GetWorkflowError()
}

// wantReleased checks that each of the first n generations was released.
func (s *stage) wantReleased(t *testing.T, n int) {
	t.Helper()
	for g := 1; g <= n; g++ {
		if !slices.Contains(s.released, g) {
			t.Errorf("generation %d was not released", g)
		}
	}
	if len(s.released) > n {
		t.Errorf("released %v, want %d generations", s.released, n)
	}
}

func TestTrainWaitsForCapacity(t *testing.T) {
	none := fault.New(fault.Preempted, "no capacity now", nil)
	s := &stage{acquire: []error{none, none, none}}
	if err := s.train(t, s.environment(t), spec.Retry{}); err != nil {
		t.Fatal(err)
	}
	if s.acquired != 4 {
		t.Errorf("acquired %d times, want 4", s.acquired)
	}
	s.wantReleased(t, 1)
}

// Since when pools have refused goes from one Acquire to the next, and ends with a gang.
func TestTrainCountsHowLongItIsRefused(t *testing.T) {
	since := time.Unix(1000, 0).UTC()
	blocked := fault.WithOutputs(fault.Preempted, "a quota", []byte(`{"blocked_since":"1970-01-01T00:16:40Z"}`))
	none := fault.New(fault.Preempted, "no capacity now", nil)
	s := &stage{acquire: []error{none, blocked, none, blocked}}
	if err := s.train(t, s.environment(t), spec.Retry{}); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]time.Time{{}, {}, since, {}, since}, s.blocked); diff != "" {
		t.Errorf("asked with (-want +got):\n%s", diff)
	}
}

// A training that waits for spot does not wait for what is refused for good, and does not fail for it either.
func TestTrainBuysOnDemandWhereSpotIsRefused(t *testing.T) {
	s := &stage{acquire: []error{fault.New(fault.Invalid, "no permission to buy spot", nil)}, spot: func(int) bool { return true }, waits: true}
	if err := s.train(t, s.environment(t), spec.Retry{}); err != nil {
		t.Fatal(err)
	}
	if s.acquired != 2 || s.collected.Generations[0].Capacity != spec.CapacityOnDemand {
		t.Errorf("acquired %d times and trained on %+v, want on-demand at once", s.acquired, s.collected.Generations)
	}
}

func TestTrainGivesNodesADayForTheirInputs(t *testing.T) {
	s := &stage{}
	if err := s.train(t, s.environment(t), spec.Retry{}); err != nil {
		t.Fatal(err)
	}
	if s.prepareLimit != 24*time.Hour {
		t.Errorf("a node may take %v to get ready, want a day", s.prepareLimit)
	}
}

func TestTrainCanBeCancelledWhileItWaitsForCapacity(t *testing.T) {
	s := &stage{asks: make(chan struct{})}
	env := s.environment(t)
	go func() {
		<-s.asks
		env.CancelWorkflow()
	}()
	if err := s.train(t, env, spec.Retry{}); !temporal.IsCanceledError(err) {
		t.Errorf("ended with %v, want a cancel", err)
	}
}

func TestTrainReleasesWhatAFailedAcquireMayHaveStarted(t *testing.T) {
	s := &stage{acquire: []error{fault.New(fault.Invalid, "larger than the pool", nil)}}
	if err := s.train(t, s.environment(t), spec.Retry{Attempts: 5}); fault.TypeOf(err) != fault.Invalid {
		t.Errorf("ended with %v, want the refusal", err)
	}
	s.wantReleased(t, 1)
}

func TestTrainGivesUpOnGangsThatNeverStart(t *testing.T) {
	s := &stage{lost: func(int) bool { return true }}
	err := s.train(t, s.environment(t), spec.Retry{})
	if fault.TypeOf(err) != fault.Infrastructure || !strings.Contains(fault.Message(err), "node 0 fell over") {
		t.Errorf("ended with %v, want infrastructure and the reason", err)
	}
	s.wantReleased(t, 5)
}

// The last generation decides how the training ends, whatever its pool makes of the release.
func TestTrainEndsThoughItsNodesAreNotReleased(t *testing.T) {
	away := errors.New("the API is away")
	for _, tt := range []struct {
		name  string
		ranks protocol.RanksEnded
		lost  bool // the first gang, before its ranks run
		fails string
	}{
		{"it has finished", protocol.RanksEnded{}, false, ""},
		{"its program failed", protocol.RanksEnded{Code: 3}, false, "rank 0 ended with exit code 3"},
		{"it would go on with other nodes", protocol.RanksEnded{}, true, "the API is away"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := &stage{price: 3600, stuck: away, unwatched: true}
			s.ranks = func(int) (protocol.RanksEnded, error) { return tt.ranks, nil }
			if tt.lost {
				s.prepare = func(int) error { return fault.New(fault.Preempted, "the node cannot reach the store", nil) }
			}
			err := s.train(t, s.environment(t), spec.Retry{})
			if tt.fails == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), tt.fails) {
				t.Errorf("it ended with %v, want %q", err, tt.fails)
			}
			generations := append(s.collected.Generations, s.accounted...)
			if len(generations) != 1 || generations[0].CostUSD == 0 && !tt.lost {
				t.Fatalf("its generations are %+v", generations)
			}
			if said := strings.Contains(generations[0].Reason, "pool p did not confirm the release of its nodes"); said == tt.lost {
				t.Errorf("its end is because %q", generations[0].Reason)
			}
		})
	}
}

func TestTrainChargesItsRetries(t *testing.T) {
	crash := protocol.RanksEnded{Code: -1, Signal: 11, Tail: "Segmentation fault"}
	exit := protocol.RanksEnded{Code: 1, Tail: "Traceback"}
	for _, tt := range []struct {
		name    string
		retry   spec.Retry
		ranks   protocol.RanksEnded
		errType string
		says    string
		lives   int
	}{
		{"a crash is tried again", spec.Retry{Attempts: 3}, crash, fault.Infrastructure, "Segmentation fault", 3},
		{"as often as by default", spec.Retry{}, crash, fault.Infrastructure, "signal 11", spec.Retry{}.WithDefaults().Attempts},
		{"once when asked", spec.Retry{Attempts: 1}, crash, fault.Infrastructure, "signal 11", 1},
		{"the user's error is not", spec.Retry{Attempts: 3}, exit, fault.User, "Traceback", 1},
		{"unless that is asked for", spec.Retry{Attempts: 2, Errors: []string{fault.User}}, exit, fault.User, "exit code 1", 2},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // the clock does not skip ahead while Watch runs
			tt.retry.Backoff = spec.Duration(time.Millisecond)
			s := &stage{ranks: func(int) (protocol.RanksEnded, error) { return tt.ranks, nil }}
			err := s.train(t, s.environment(t), tt.retry)
			if fault.TypeOf(err) != tt.errType || !strings.Contains(fault.Message(err), tt.says) {
				t.Errorf("ended with %v, want %s: %s", err, tt.errType, tt.says)
			}
			s.wantReleased(t, 1) // all on the same nodes
			var out spec.TrainOutput
			if err := json.Unmarshal(fault.Outputs(err), &out); err != nil || len(out.Generations) != tt.lives {
				t.Errorf("the error tells of %d generations (%v), want %d", len(out.Generations), err, tt.lives)
			}
		})
	}
}

func TestTrainDoesNotChargePreemption(t *testing.T) {
	s := &stage{lost: func(generation int) bool { return generation < 4 }}
	if err := s.train(t, s.environment(t), spec.Retry{}); err != nil {
		t.Fatal(err)
	}
	s.wantReleased(t, 4)
}

// A node that cannot reach the store is followed by another, which is charged to nobody.
func TestTrainDoesNotChargeNodesWithoutTheStore(t *testing.T) {
	cutOff := fault.Final(fault.New(fault.Preempted, "it cannot reach the store: no route", nil))
	s := &stage{prepare: func(generation int) error {
		if generation < 3 {
			return boundary.Failure(cutOff)
		}
		return nil
	}}
	if err := s.train(t, s.environment(t), spec.Retry{Attempts: 1}); err != nil {
		t.Fatal(err)
	}
	s.wantReleased(t, 3)
	all := &stage{prepare: func(int) error { return boundary.Failure(cutOff) }}
	err := all.train(t, all.environment(t), spec.Retry{Attempts: 1})
	if fault.TypeOf(err) != fault.Infrastructure || !strings.Contains(fault.Message(err), "lost 5 times in a row before the ranks ran, the last time because: node 0 cannot be used: it cannot reach the store") {
		t.Errorf("ended with %v, want infrastructure and the reason", err)
	}
	all.wantReleased(t, 5)
}

// Ranks that would go on are stopped when the step has cost what it may, and the error says what that was.
func TestTrainStopsAtItsBudget(t *testing.T) {
	stopped := make(chan struct{})
	s := &stage{price: 3600 * 100, budget: 20, ranks: func(int) (protocol.RanksEnded, error) {
		<-stopped
		return protocol.RanksEnded{Code: 143, Stopped: true}, nil
	}}
	env := s.environment(t)
	env.RegisterActivityWithOptions(func(context.Context, protocol.StopInput) error {
		close(stopped)
		return nil
	}, activity.RegisterOptions{Name: protocol.StopActivity})
	err := s.train(t, env, spec.Retry{})
	if fault.TypeOf(err) != fault.Budget {
		t.Fatalf("ended with %v, want a budget error", err)
	}
	var spent struct {
		CostUSD float64 `json:"cost_usd"`
	}
	if err := json.Unmarshal(fault.Outputs(err), &spent); err != nil || spent.CostUSD < s.budget {
		t.Errorf("cost $%g, %v; want at least the budget of $%g", spent.CostUSD, err, s.budget)
	}
	s.wantReleased(t, 1)
}

// A gang whose price nobody knows is not bought on a budget, which could not end anything.
func TestTrainRefusesABudgetWithoutAPrice(t *testing.T) {
	s := &stage{unpriced: true, budget: 20}
	err := s.train(t, s.environment(t), spec.Retry{Attempts: 3})
	if fault.TypeOf(err) != fault.Invalid || !strings.Contains(fault.Message(err), "usd_per_hour") {
		t.Errorf("ended with %v, want a refusal that names usd_per_hour", err)
	}
	s.wantReleased(t, 1)
}

// What a training of unknown price has cost is unknown, also when it fails.
func TestTrainSaysThatItsCostIsUnknown(t *testing.T) {
	s := &stage{unpriced: true, ranks: func(int) (protocol.RanksEnded, error) { return protocol.RanksEnded{Code: 1}, nil }}
	err := s.train(t, s.environment(t), spec.Retry{Attempts: 1})
	if cost := fault.CostOf(err); !cost.Unknown {
		t.Errorf("%v has cost %+v, want an unknown sum", err, cost)
	}
}

// The timeout of an attempt bounds its wait for capacity too: it is not waited longer than is left, and nothing is bought any more then.
func TestTrainTimesOutWhileItWaitsForCapacity(t *testing.T) {
	s := &stage{timeout: 5 * time.Minute}
	if err := s.train(t, s.environment(t), spec.Retry{}); err != nil {
		t.Fatal(err)
	}
	if s.patience <= 0 || s.patience > s.timeout {
		t.Errorf("Acquire is to wait for %v, want no longer than the %v that are left", s.patience, s.timeout)
	}
	s = &stage{timeout: 5 * time.Minute}
	env := s.environment(t)
	s.carried = contract.TrainContinuation{BeganAt: env.Now().Add(-time.Hour), AttemptAt: env.Now().Add(-time.Hour)}
	err := s.train(t, env, spec.Retry{Attempts: 1})
	if fault.TypeOf(err) != fault.Timeout || !strings.Contains(fault.Message(err), "waiting for nodes") || s.acquired != 0 {
		t.Errorf("ended with %v after %d tries, want a timeout that tells of the wait", err, s.acquired)
	}
	s = &stage{timeout: 5 * time.Minute}
	env = s.environment(t)
	s.carried = contract.TrainContinuation{BeganAt: env.Now().Add(-time.Hour), AttemptAt: env.Now().Add(-time.Hour)}
	retry := spec.Retry{Attempts: 2, Errors: []string{fault.Timeout}, Backoff: spec.Duration(time.Millisecond)}
	if err := s.train(t, env, retry); err != nil || s.acquired != 1 {
		t.Errorf("the next attempt ended with %v after %d tries, want a success with time of its own", err, s.acquired)
	}
}

// Gangs that are lost are charged to nobody as long as each brings the training on; a program that gets nowhere on any ends.
func TestTrainEndsWithoutProgress(t *testing.T) {
	lost := func(int) (protocol.RanksEnded, error) {
		return protocol.RanksEnded{}, fault.New(fault.Infrastructure, "the node no longer exists", nil)
	}
	for name, tt := range map[string]struct {
		from  func(int) int64
		lives int
	}{
		"never a checkpoint":      {nil, 10},
		"none after the first 30": {func(g int) int64 { return int64(10 * min(g-1, 3)) }, 3 + 10},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // the clock does not skip ahead while Watch runs
			s := &stage{from: tt.from, ranks: lost, falls: true}
			err := s.train(t, s.environment(t), spec.Retry{})
			if fault.TypeOf(err) != fault.Preempted || !strings.Contains(fault.Message(err), "without a newer checkpoint") {
				t.Errorf("ended with %v, want a preemption that tells of the missing checkpoints", err)
			}
			if s.acquired != tt.lives {
				t.Errorf("%d gangs were bought, want 1", s.acquired)
			}
		})
	}
}

func TestTrainGoesOnInANewHistory(t *testing.T) {
	s := &stage{ranks: func(int) (protocol.RanksEnded, error) { return protocol.RanksEnded{Code: -1, Signal: 9}, nil }}
	env := s.environment(t)
	env.SetContinueAsNewSuggested(true)
	err := s.train(t, env, spec.Retry{Attempts: 2, Backoff: spec.Duration(time.Millisecond)})
	var again *workflow.ContinueAsNewError
	if !errors.As(err, &again) {
		t.Fatalf("ended with %v, want to go on as new", err)
	}
	var in contract.TrainInput
	if err := converter.GetDefaultDataConverter().FromPayloads(again.Input, &in); err != nil {
		t.Fatal(err)
	}
	c := in.Continuation
	if len(c.Generations) != 1 || c.Generations[0].End != spec.EndCrashed || c.Failures != 1 || c.AttemptAt.IsZero() {
		t.Fatalf("carried over: %+v", c)
	}

	// The new run takes it up: its generation is the second, and no failure is left.
	env, s.carried = s.environment(t), c
	if err := s.run(t, env, in); fault.TypeOf(err) != fault.Infrastructure {
		t.Errorf("the second failure ended with %v, want the step's failure", err)
	}
	if s.acquired != 1 {
		t.Errorf("%d gangs were bought, want the one that was carried over", s.acquired)
	}
	s.wantReleased(t, 1)
}

// Once there is spot, a gang on on-demand is left for it, and the next generation is on that.
func TestTrainMovesToSpot(t *testing.T) {
	t.Parallel() // the first look out for spot comes after a while
	s, stopped := moving(t, 2)
	env := s.environment(t)
	env.RegisterActivityWithOptions(stopped, activity.RegisterOptions{Name: protocol.StopActivity})
	var collected contract.CollectInput
	env.RegisterActivityWithOptions(func(_ context.Context, in contract.CollectInput) (record.StepOutput, error) {
		collected = in
		return record.StepOutput{Outputs: []byte(`{}`)}, nil
	}, activity.RegisterOptions{Name: contract.CollectActivity, DisableAlreadyRegisteredCheck: true})
	if err := s.train(t, env, spec.Retry{}); err != nil {
		t.Fatal(err)
	}
	got := collected.Generations
	if len(got) != 2 || got[0].End != spec.EndMoved || got[0].Capacity != spec.CapacityOnDemand || got[1].Capacity != spec.CapacitySpot || got[1].Pool != "q" {
		t.Errorf("generations %+v, want one on on-demand that was left for one on spot", got)
	}
	s.wantReleased(t, 2)
}

// TestTrainWaitsForALongCommit: a checkpoint that takes longer to upload than a cancel would wait is not given up where nothing presses.
func TestTrainWaitsForALongCommit(t *testing.T) {
	s := &stage{spot: func(generation int) bool { return generation == 2 }, from: func(generation int) int64 { return int64(generation-1) * 10 }}
	env := s.environment(t)
	var ranks []byte
	replace := activity.RegisterOptions{DisableAlreadyRegisteredCheck: true}
	for name, f := range map[string]any{
		contract.WatchActivity: func(context.Context, contract.GangInput) (training.Loss, error) {
			return training.Loss{}, activity.ErrResultPending
		},
		protocol.RunRanksActivity: func(ctx context.Context, in protocol.RunRanksInput) (protocol.RanksEnded, error) {
			if in.Generation > 1 {
				return protocol.RanksEnded{Step: 20}, nil
			}
			ranks = activity.GetInfo(ctx).TaskToken
			return protocol.RanksEnded{}, activity.ErrResultPending
		},
		protocol.StopActivity: func(context.Context, protocol.StopInput) error {
			env.RegisterDelayedCallback(func() {
				saved := protocol.RanksEnded{Code: exitStopped, Stopped: true, Step: 10, CommittedStep: 10}
				if err := env.CompleteActivity(ranks, saved, nil); err != nil {
					t.Error(err)
				}
			}, 90*time.Minute)
			return nil
		},
	} {
		replace.Name = name
		env.RegisterActivityWithOptions(f, replace)
	}
	if err := s.train(t, env, spec.Retry{}); err != nil {
		t.Fatal(err)
	}
	got := s.collected.Generations
	if len(got) != 2 || got[0].End != spec.EndMoved || got[0].CommittedStep != 10 || got[0].EndedAt.Sub(got[0].StoppedAt) < 90*time.Minute {
		t.Errorf("generations %+v, want one that was moved and has committed step 10", got)
	}
}

// Spot that the deadline leaves no time to lose is left, when there is on-demand to leave it for.
func TestTrainLeavesSpot(t *testing.T) {
	t.Parallel() // the first look comes after a while
	s, stopped := moving(t, 1)
	s.leaves, s.deadline, s.goesOn = true, time.Hour, true
	env := s.environment(t)
	env.RegisterActivityWithOptions(stopped, activity.RegisterOptions{Name: protocol.StopActivity})
	if err := s.train(t, env, spec.Retry{}); err != nil {
		t.Fatal(err)
	}
	got := s.collected.Generations
	if len(got) != 2 || got[0].Capacity != spec.CapacitySpot || got[0].End != spec.EndMoved || !strings.Contains(got[0].Reason, "deadline") ||
		got[1].Capacity != spec.CapacityOnDemand {
		t.Errorf("generations %+v, want one on spot that was left for one on on-demand", got)
	}
	s.wantReleased(t, 2)
}

// On a budget a gang is not left for one whose price nobody knows: that one goes back at once.
func TestTrainDoesNotMoveOutOfItsBudget(t *testing.T) {
	t.Parallel() // the first look out for spot comes after a while
	stopped, back := make(chan struct{}), make(chan struct{})
	s := &stage{price: 1, budget: 1000, unpricedSpot: true, spot: func(generation int) bool { return generation == 2 }}
	s.ranks = func(int) (protocol.RanksEnded, error) {
		select {
		case <-stopped:
			return protocol.RanksEnded{Code: 143, Stopped: true}, nil
		case <-back:
			return protocol.RanksEnded{}, nil
		}
	}
	env := s.environment(t)
	env.RegisterActivityWithOptions(func(context.Context, protocol.StopInput) error {
		close(stopped)
		return nil
	}, activity.RegisterOptions{Name: protocol.StopActivity})
	var once sync.Once
	env.RegisterActivityWithOptions(func(ctx context.Context, in contract.ReleaseInput) error {
		if in.Key.Generation == 2 {
			once.Do(func() { close(back) })
		}
		return s.release(ctx, in)
	}, activity.RegisterOptions{Name: contract.ReleaseActivity, DisableAlreadyRegisteredCheck: true})
	var collected contract.CollectInput
	env.RegisterActivityWithOptions(func(_ context.Context, in contract.CollectInput) (record.StepOutput, error) {
		collected = in
		return record.StepOutput{Outputs: []byte(`{}`)}, nil
	}, activity.RegisterOptions{Name: contract.CollectActivity, DisableAlreadyRegisteredCheck: true})
	if err := s.train(t, env, spec.Retry{}); err != nil {
		t.Fatal(err)
	}
	if got := collected.Generations; len(got) != 1 || got[0].Capacity != spec.CapacityOnDemand {
		t.Errorf("generations %+v, want the one whose price is known", got)
	}
}

// moving is a training whose ranks go on until they are stopped, where there is spot for a generation; stop is the nodes' activity.
func moving(t *testing.T, spot int) (s *stage, stop func(context.Context, protocol.StopInput) error) {
	t.Helper()
	stopped := make(chan struct{})
	s = &stage{spot: func(generation int) bool { return generation == spot }}
	s.ranks = func(generation int) (protocol.RanksEnded, error) {
		if generation > 1 {
			return protocol.RanksEnded{}, nil
		}
		<-stopped
		return protocol.RanksEnded{Code: 143, Stopped: true}, nil
	}
	return s, func(context.Context, protocol.StopInput) error {
		close(stopped)
		return nil
	}
}

// A training that is to stop at its deadline does, without another try.
func TestTrainStopsAtItsDeadline(t *testing.T) {
	s, stopped := moving(t, 0)
	s.spot, s.deadline = nil, 300*time.Millisecond
	env := s.environment(t)
	env.RegisterActivityWithOptions(stopped, activity.RegisterOptions{Name: protocol.StopActivity})
	err := s.train(t, env, spec.Retry{Attempts: 3, Errors: []string{fault.Timeout}})
	if fault.TypeOf(err) != fault.Timeout || !strings.Contains(fault.Message(err), "deadline") {
		t.Errorf("ended with %v, want a timeout that tells of the deadline", err)
	}
	s.wantReleased(t, 1)
}

// One that is to go on does, and says that it was late.
func TestTrainGoesOnAfterItsDeadline(t *testing.T) {
	for deadline, late := range map[time.Duration]bool{-time.Second: true, time.Hour: false} {
		s := &stage{deadline: deadline, goesOn: true}
		if err := s.train(t, s.environment(t), spec.Retry{}); err != nil || s.collected.Late != late {
			t.Errorf("with a deadline in %v: ended with %v, late: %v", deadline, err, s.collected.Late)
		}
	}
}

func TestTrainStopsAtItsDeadlineWithoutCapacity(t *testing.T) {
	s := &stage{deadline: -time.Second}
	err := s.train(t, s.environment(t), spec.Retry{})
	if fault.TypeOf(err) != fault.Timeout || s.acquired != 0 {
		t.Errorf("ended with %v after %d tries, want a timeout", err, s.acquired)
	}
}

// A wait for capacity that makes a history long goes on in a new one.
func TestTrainWaitsOnInANewHistory(t *testing.T) {
	s := &stage{acquire: []error{fault.New(fault.Preempted, "no capacity now", nil)}}
	env := s.environment(t)
	env.SetContinueAsNewSuggested(true)
	err := s.train(t, env, spec.Retry{})
	var again *workflow.ContinueAsNewError
	if !errors.As(err, &again) {
		t.Fatalf("ended with %v, want to go on as new", err)
	}
}

// A run hears of the fewer generations the more there are, and nobody of those of an instance, which runs in a lane.
func TestTrainTellsLess(t *testing.T) {
	for _, unheard := range []bool{false, true} {
		s := &stage{ranks: func(generation int) (protocol.RanksEnded, error) {
			if generation < 20 {
				return protocol.RanksEnded{Code: -1, Signal: 9}, nil
			}
			return protocol.RanksEnded{}, nil
		}}
		env := s.environment(t)
		var told []string
		env.ExecuteWorkflow(func(ctx workflow.Context) error {
			err := workflow.ExecuteChildWorkflow(ctx, contract.TrainWorkflow, contract.TrainInput{
				StepInput: record.StepInput{Run: "r", Step: "fit"}, Unheard: unheard,
				Retry: spec.Retry{Attempts: 100, Backoff: spec.Duration(time.Millisecond), MaxBackoff: spec.Duration(time.Millisecond)}.WithDefaults(),
			}).Get(ctx, nil)
			var note contract.Note
			for notes := workflow.GetSignalChannel(ctx, contract.NoteSignal); notes.ReceiveAsync(&note); {
				told = append(told, note.Text)
			}
			return err
		})
		if err := env.GetWorkflowError(); err != nil {
			t.Fatal(err)
		}
		want := []string{"generation 1 on n", "generation 2 or later", "generation 4 or later", "generation 8 or later", "generation 16 or later"}
		if unheard {
			want = nil
		}
		if diff := cmp.Diff(want, told); diff != "" {
			t.Errorf("told, unheard %v (-want +got):\n%s", unheard, diff)
		}
	}
}

// A gang on on-demand for which no spot is found, however long it runs: once the spot watcher has filled much of the history it pauses between any
// two tries.
func TestScoutGrowsQuiet(t *testing.T) {
	t.Parallel() // the clock does not skip ahead while ranks run
	const grows, after = 100, 5
	enough := make(chan struct{})
	var asked, length, pauses atomic.Int64
	s := &stage{spot: func(int) bool {
		if asked.Add(1) == manyEvents/grows+after {
			close(enough)
		}
		return false
	}}
	s.ranks = func(int) (protocol.RanksEnded, error) {
		<-enough
		return protocol.RanksEnded{}, nil
	}
	env := s.environment(t)
	env.SetOnActivityCompletedListener(func(*activity.Info, converter.EncodedValue, error) {
		env.SetCurrentHistoryLength(int(length.Add(grows)))
	})
	env.SetOnTimerFiredListener(func(string) { pauses.Add(1) })
	env.RegisterWorkflowWithOptions(func(ctx workflow.Context, in contract.TrainInput) (record.StepOutput, error) {
		return Train(durable.Hasten(ctx, 1000), in)
	}, workflow.RegisterOptions{Name: contract.TrainWorkflow, DisableAlreadyRegisteredCheck: true})
	if err := s.train(t, env, spec.Retry{}); err != nil {
		t.Fatal(err)
	}
	if n := pauses.Load(); n < after {
		t.Errorf("the spot watcher made %d pauses in %d tries", n, asked.Load())
	}
}
