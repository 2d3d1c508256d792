package gang

import (
	"context"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/activities/contract"
	gangactivities "github.com/sluiceml/sluice/activities/gang"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/fault/boundary"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
	"github.com/sluiceml/sluice/training/protocol"
)

// world plays a market, its pools and a training on one node, in the clock of the test environment: every activity that takes time ends by a
// timer. What to buy is decided by the real activity, on what the training leaves in a store.
type world struct {
	random *rand.Rand
	env    *testsuite.TestWorkflowEnvironment
	decide *gangactivities.Trainings
	began  time.Time

	// The training: its steps, what one takes, after how many it saves, and the work that the step declares.
	steps, every int64
	pace, hint   time.Duration
	// within is the deadline, acquire the bound that on-demand keeps, with failed calls, and prepare how long a node needs to get ready.
	within, acquire, prepare time.Duration
	// turns are when spot comes and goes, beginning without.
	turns []time.Duration
	// failures is how many calls of Acquire in a row may fail.
	failures int

	// mu is held for what follows, and random: activities run side by side.
	mu        sync.Mutex
	failed    int
	gangs     map[int]*gang // by generation
	gang      *gang         // the newest
	committed int64         // the newest checkpoint
	finished  time.Time
}

// gang is the node of a generation.
type gang struct {
	index int
	from  int64
	ran   time.Time // when its ranks were started; zero: not yet
	ended time.Time // when they were stopped or lost; zero: not yet
	ranks []byte    // the token of the activity in which they run
}

// draw is a time of whole seconds up to the most.
func (w *world) draw(most time.Duration) time.Duration {
	return time.Duration(w.random.Int64N(int64(most/time.Second)+1)) * time.Second
}

// spotAt reports whether there is spot at a time, and until when that stays so.
func (w *world) spotAt(at time.Time) (up bool, until time.Time) {
	for i, turn := range w.turns {
		if end := w.began.Add(turn); at.Before(end) {
			return i%2 == 1, end
		}
	}
	return false, w.began.Add(1000 * time.Hour)
}

// later completes an activity after a time by the environment's clock.
func later(ctx context.Context, env *testsuite.TestWorkflowEnvironment, after time.Duration, result func() (any, error)) error {
	token := activity.GetInfo(ctx).TaskToken
	env.RegisterDelayedCallback(func() {
		v, err := result()
		if err := env.CompleteActivity(token, v, boundary.Failure(err)); err != nil {
			panic(err)
		}
	}, max(after, time.Millisecond))
	return activity.ErrResultPending
}

// later is later, with w.mu held for the result.
func (w *world) later(ctx context.Context, after time.Duration, result func() (any, error)) error {
	return later(ctx, w.env, after, func() (any, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		return result()
	})
}

// gangOf is the gang of a generation. It starts from the newest checkpoint when it is first asked for: by its watch or by its ranks, whichever
// comes first.
func (w *world) gangOf(generation int) *gang {
	g := w.gangs[generation]
	if g == nil {
		g = &gang{index: generation, from: w.committed}
		w.gangs[generation], w.gang = g, g
	}
	return g
}

// step is how far a gang has come.
func (w *world) step(g *gang) int64 {
	if g.ran.IsZero() {
		return g.from
	}
	at := w.env.Now()
	if !g.ended.IsZero() {
		at = g.ended
	}
	return min(g.from+int64(at.Sub(g.ran)/w.pace), w.steps)
}

// save leaves in the store what the agent would have by now.
func (w *world) save() {
	g := w.gang
	if g == nil || g.ran.IsZero() {
		return
	}
	key := training.Key{Run: "r", Step: "fit", Generation: g.index}
	step := w.step(g)
	for at := (g.from/w.every + 1) * w.every; at <= step; at += w.every {
		w.commit(key, at)
	}
	if step > g.from {
		p := checkpoint.Progress{
			Step: step, Of: w.steps, FirstStep: g.from + 1, FirstAt: g.ran.Add(w.pace), At: g.ran.Add(time.Duration(step-g.from) * w.pace),
		}
		w.must(checkpoint.PutProgress(context.Background(), w.decide.Store, key, p))
	}
}

func (w *world) commit(key training.Key, step int64) {
	if step <= w.committed {
		return
	}
	w.committed = step
	w.must(checkpoint.Commit(context.Background(), w.decide.Store, key, checkpoint.Manifest{Generation: key.Generation, Step: step}))
}

func (w *world) must(err error) {
	if err != nil {
		panic(err)
	}
}

func (w *world) plan(_ context.Context, in contract.PlanInput) (contract.TrainPlan, error) {
	return contract.TrainPlan{
		MinNodes: 1, MaxNodes: 1, TotalSteps: w.steps, Work: w.hint, Deadline: in.BeganAt.Add(w.within),
		Offers: []contract.Offer{
			{Pool: "q", Capacity: spec.CapacitySpot, USDPerHour: 1}, {Pool: "p", Capacity: spec.CapacityOnDemand, USDPerHour: 3, StartWithin: w.acquire},
		},
	}, nil
}

func (w *world) choose(ctx context.Context, in contract.DecideInput) (contract.Choice, error) {
	w.mu.Lock()
	w.save()
	w.mu.Unlock()
	return w.decide.Decide(ctx, in)
}

func (w *world) seal(_ context.Context, in contract.SealInput) (contract.SealOutput, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	out := contract.SealOutput{Seal: checkpoint.Seal{Generation: in.Generation}, Exact: true}
	if w.gang != nil {
		w.save()
		out.Reached = w.step(w.gang)
	}
	if w.committed > 0 {
		out.Seal.Resume = &checkpoint.Manifest{Generation: in.Generation - 1, Step: w.committed}
	}
	return out, nil
}

// get is one call of Acquire: it asks for what is offered in that order, spot within the time that it has.
func (w *world) get(ctx context.Context, in contract.AcquireInput) (contract.Acquired, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	asked := w.env.Now()
	if w.failed < w.failures && w.random.IntN(2) == 0 {
		w.failed++
		took := w.draw(w.acquire / 8)
		return contract.Acquired{}, w.later(ctx, took, func() (any, error) {
			return nil, fault.New(fault.Infrastructure, "the pool's API went away", nil)
		})
	}
	w.failed = 0
	got := func(o contract.Offer, waited time.Duration) func() (any, error) {
		return func() (any, error) {
			node := training.Node{Name: "n", Queue: in.Request.Key.Queue(0, "x"), Address: "a"}
			return contract.Acquired{At: asked.Add(waited), Gang: training.Gang{Nodes: []training.Node{node}}, Offer: o}, nil
		}
	}
	spent := time.Duration(0)
	for _, o := range in.Offers {
		if o.Capacity == spec.CapacityOnDemand {
			return contract.Acquired{}, w.later(ctx, spent+w.draw(w.acquire/2), got(o, spent))
		}
		most := in.Patience
		if in.SpotWithin > 0 {
			most = min(most, in.SpotWithin)
		}
		waits := time.Duration(0)
		up, until := w.spotAt(asked)
		if !up && len(in.Offers) == 1 { // it is asked for until it comes
			waits = until.Sub(asked)
			up, until = w.spotAt(until)
		}
		takes := waits + w.draw(w.acquire)
		if up && takes <= most && asked.Add(takes).Before(until) {
			return contract.Acquired{}, w.later(ctx, takes, got(o, waits))
		}
		if up || len(in.Offers) == 1 {
			spent = most
		}
	}
	return contract.Acquired{}, w.later(ctx, spent, func() (any, error) { return nil, fault.New(fault.Preempted, "no spot", nil) })
}

func (w *world) watch(ctx context.Context, in contract.GangInput) (training.Loss, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.gangOf(in.Key.Generation)
	if in.Gang.Capacity != spec.CapacitySpot {
		return training.Loss{}, activity.ErrResultPending
	}
	up, until := w.spotAt(w.env.Now())
	if !up {
		until = w.env.Now()
	}
	return training.Loss{}, w.later(ctx, until.Sub(w.env.Now()), func() (any, error) {
		if g.ended.IsZero() {
			g.ended = w.env.Now()
		}
		return training.Loss{Nodes: []int{0}, Reason: "spot was taken away"}, nil
	})
}

func (w *world) getReady(ctx context.Context, _ protocol.PrepareInput) (protocol.PrepareOutput, error) {
	return protocol.PrepareOutput{}, w.later(ctx, w.prepare, func() (any, error) {
		return protocol.PrepareOutput{MasterPort: 1}, nil
	})
}

func (w *world) run(ctx context.Context, in protocol.RunRanksInput) (protocol.RanksEnded, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.gangOf(in.Generation)
	g.ran, g.ranks = w.env.Now(), activity.GetInfo(ctx).TaskToken
	left := time.Duration(w.steps-g.from) * w.pace
	return protocol.RanksEnded{}, w.later(ctx, left, func() (any, error) {
		if !g.ended.IsZero() {
			return nil, fault.New(fault.Infrastructure, "the ranks were over", nil) // nobody hears it
		}
		g.ended = w.env.Now()
		w.finished = w.env.Now()
		return protocol.RanksEnded{Step: w.steps}, nil
	})
}

// stop lets the ranks save, and end.
func (w *world) stop(_ context.Context, in protocol.StopInput) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	g := w.gangOf(in.Generation)
	if g.ended.IsZero() {
		w.save()
		g.ended = w.env.Now()
		step := w.step(g)
		w.commit(training.Key{Run: "r", Step: "fit", Generation: g.index}, step)
		w.must(w.env.CompleteActivity(g.ranks, protocol.RanksEnded{Code: exitStopped, Stopped: true, Step: step, CommittedStep: w.committed}, nil))
	}
	return nil
}

func (w *world) play() error {
	w.env.RegisterWorkflowWithOptions(Train, workflow.RegisterOptions{Name: contract.TrainWorkflow})
	for name, f := range map[string]any{
		contract.PlanActivity: w.plan, contract.DecideActivity: w.choose, contract.SealActivity: w.seal, contract.AcquireActivity: w.get,
		contract.WatchActivity: w.watch, protocol.PrepareActivity: w.getReady, protocol.RunRanksActivity: w.run, protocol.StopActivity: w.stop,
		contract.ReleaseActivity: func(context.Context, contract.ReleaseInput) error { return nil },
		contract.CollectActivity: func(context.Context, contract.CollectInput) (record.StepOutput, error) {
			return record.StepOutput{Outputs: []byte(`{}`)}, nil
		},
		contract.AccountActivity: func(_ context.Context, in contract.AccountInput) (spec.TrainOutput, error) {
			return spec.TrainOutput{Generations: in.Generations}, nil
		},
	} {
		w.env.RegisterActivityWithOptions(f, activity.RegisterOptions{Name: name})
	}
	w.began = w.env.Now()
	w.env.ExecuteWorkflow(contract.TrainWorkflow, contract.TrainInput{StepInput: record.StepInput{Run: "r", Step: "fit"}, Retry: spec.Retry{}.WithDefaults()})
	return w.env.GetWorkflowError()
}

// Whatever the market, the pools and the training do within their bounds, a deadline that on-demand from the start would keep is kept.
func TestTrainMissesNoDeadline(t *testing.T) {
	played, folder := 0, t.TempDir() // what is played again, to shrink it, begins with nothing
	rapid.Check(t, func(t *rapid.T) {
		played++
		s, err := store.Open(context.Background(), "mem://"+folder+strconv.Itoa(played))
		if err != nil {
			t.Fatal(err)
		}
		w := &world{env: flowtest.New(), decide: &gangactivities.Trainings{Store: s}, gangs: map[int]*gang{}}
		w.random = rand.New(rand.NewPCG(rapid.Uint64().Draw(t, "seed"), 0))
		w.pace = time.Duration(rapid.IntRange(1, 60).Draw(t, "seconds a step")) * time.Second
		w.steps = rapid.Int64Range(20, 600).Draw(t, "steps")
		w.every = rapid.SampledFrom([]int64{1, 10, 100, 1000}).Draw(t, "saves every")
		work := time.Duration(w.steps) * w.pace
		if rapid.Bool().Draw(t, "declares its work") {
			w.hint = work + w.draw(work/4)
		}
		w.acquire = w.draw(work / 10)
		w.failures = rapid.IntRange(0, 2).Draw(t, "failures")
		w.within = work + w.acquire + w.draw(2*work) + time.Minute
		w.prepare = w.draw(w.within / 20)
		w.within += w.prepare
		for at := time.Duration(0); at < 2*w.within; {
			at += time.Second + w.draw([]time.Duration{time.Minute, time.Hour, w.within}[w.random.IntN(3)])
			w.turns = append(w.turns, at)
		}
		if err := w.play(); err != nil {
			t.Fatal(err)
		}
		if late := w.finished.Sub(w.began.Add(w.within)); late > 0 {
			t.Fatalf("%v late", late)
		}
	})
}
