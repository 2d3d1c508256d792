package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
)

// fakePool gives a gang after so many refusals.
type fakePool struct {
	training.Pool
	refusals []error
	asked    []training.Request
	released int
}

func (p *fakePool) Acquire(_ context.Context, r training.Request) (training.Gang, error) {
	p.asked = append(p.asked, r)
	if len(p.refusals) >= len(p.asked) {
		return training.Gang{}, fmt.Errorf("nothing to be had: %w", p.refusals[len(p.asked)-1])
	}
	return training.Gang{Nodes: []training.Node{{Name: "n"}}, USDPerHour: 2.5}, nil
}

func (p *fakePool) Release(context.Context, training.Key) error {
	p.released++
	return nil
}

// promise: docs/training.md#p-without-deadline
// promise: docs/operations.md#p-dies-pool-api
func TestAcquireTakesTheFirstThatIsToBeHad(t *testing.T) {
	none, never, broken := training.ErrNoCapacity, training.ErrTooLarge, context.DeadlineExceeded
	ever := slices.Repeat([]error{none}, 100)
	for _, tt := range []struct {
		name       string
		gpu, burst []error // refusals
		patience   time.Duration
		want       string // pool, or the type of the error
		askedGPU   int
	}{
		{"the first", nil, nil, time.Minute, "gpu", 1},
		{"the second where there is none of the first", ever, nil, time.Minute, "burst", 1},
		{"the second where the first fails", slices.Repeat([]error{broken}, 100), nil, time.Minute, "burst", 1},
		{"again", []error{none}, ever, time.Minute, "gpu", 2},
		{"as long as there is hope of one", slices.Repeat([]error{never}, 100), []error{none}, time.Minute, "burst", 2},
		{"until the patience ends", ever, ever, 0, fault.Preempted, 1},
		{"no longer than it makes sense", slices.Repeat([]error{never}, 100), slices.Repeat([]error{never}, 100), time.Minute, fault.Invalid, 1},
		{"until a pool that is away is back", slices.Repeat([]error{never}, 100), []error{broken}, time.Minute, "burst", 2},
		{"of pools that are away until the patience ends", slices.Repeat([]error{never}, 100), slices.Repeat([]error{broken}, 100), 0, fault.Infrastructure, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel() // a second try comes after a while
			pools := map[string]*fakePool{"gpu": {refusals: tt.gpu}, "burst": {refusals: tt.burst}}
			got, err := acquire(t, pools, contract.AcquireInput{
				Offers: []contract.Offer{gpuSpot, burst}, Pools: []string{"gpu", "burst"}, Patience: tt.patience, Tick: time.Second,
			})
			if len(pools["gpu"].asked) != tt.askedGPU || pools["gpu"].asked[0].Capacity != spec.CapacitySpot {
				t.Errorf("the first pool was asked %+v, want %d times for spot", pools["gpu"].asked, tt.askedGPU)
			}
			if err != nil {
				if typ := fault.TypeOf(err); typ != tt.want || !strings.Contains(fault.Message(err), "pool gpu: nothing to be had") {
					t.Errorf("ended with %v (%s), want %s and why", err, typ, tt.want)
				}
				return
			}
			if got.Offer.Pool != tt.want || got.Offer.USDPerHour != 2.5 || got.At.IsZero() {
				t.Errorf("got %+v, want a gang of %s at the pool's own price", got, tt.want)
			}
			for name, p := range pools {
				if want := map[bool]int{true: 0, false: 1}[name == tt.want]; p.released != want {
					t.Errorf("pool %s was told %d times that it is not needed, want %d", name, p.released, want)
				}
			}
		})
	}
}

func acquire(t *testing.T, pools map[string]*fakePool, in contract.AcquireInput) (contract.Acquired, error) {
	t.Helper()
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	submission, err := json.Marshal(record.Submission{
		File: "p.yaml", EnvFile: "e.yaml",
		Pipeline:    []byte("sluice: pipeline/v1\nname: t\nsteps: {a: {run: {command: [echo]}}}\n"),
		Environment: []byte("sluice: environment/v1\nname: t\npools: {gpu: {local: {nodes: 1}}, burst: {local: {nodes: 1}}}\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	if in.Submission, _, err = s.PutBlob(t.Context(), bytes.NewReader(submission)); err != nil {
		t.Fatal(err)
	}
	env := flowtest.Activities()
	trainings := &Trainings{
		Store: s, Engine: engine.NewEngine(s),
		Pool: func(_ context.Context, name string, _ spec.Pool) (training.Pool, error) { return pools[name], nil },
	}
	env.RegisterActivity(trainings.Acquire)
	value, err := env.ExecuteActivity(trainings.Acquire, in)
	if err != nil {
		return contract.Acquired{}, err
	}
	var got contract.Acquired
	return got, value.Get(&got)
}

// promise: docs/training.md#p-without-deadline
// promise: docs/training.md#p-waits-for-spot
func TestOffers(t *testing.T) {
	both := []string{spec.CapacitySpot, spec.CapacityOnDemand}
	price := func(spot, onDemand float64) spec.Prices { return spec.Prices{Spot: spot, OnDemand: onDemand} }
	env := &spec.Environment{Pools: map[string]spec.Pool{
		"gpu": {Capacity: both, USDPerHour: price(1, 3)}, "dear": {Capacity: both, USDPerHour: price(2, 6)}, "unpriced": {Capacity: both},
		"plain": {Runtime: spec.Runtime{Image: "pool"}},
	}}
	for _, tt := range []struct {
		name string
		spec spec.Train
		want []string
	}{
		{"the cheapest first", spec.Train{Pool: []string{"dear", "gpu"}}, []string{"gpu spot", "dear spot", "gpu on_demand", "dear on_demand"}},
		{"in order where a price is not known", spec.Train{Pool: []string{"unpriced", "gpu"}}, []string{"unpriced spot", "unpriced on_demand", "gpu spot", "gpu on_demand"}},
		{"spot alone", spec.Train{Pool: []string{"gpu", "plain"}, Capacity: spec.CapacitySpot}, []string{"gpu spot"}},
		{"on-demand alone", spec.Train{Pool: []string{"gpu", "plain"}, Capacity: spec.CapacityOnDemand}, []string{"gpu on_demand", "plain on_demand"}},
		{"nothing", spec.Train{Pool: []string{"plain"}, Capacity: spec.CapacitySpot}, nil},
		{"no such pool", spec.Train{Pool: []string{"gone"}}, nil},
		{"no pool", spec.Train{}, nil},
	} {
		t.Run(tt.name, func(t *testing.T) {
			offers, err := offersOf(env, tt.spec)
			if (err != nil) != (tt.want == nil) {
				t.Fatalf("%v, %v", offers, err)
			}
			var got []string
			for _, o := range offers {
				got = append(got, o.Pool+" "+o.Capacity)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("offers (-want +got):\n%s", diff)
			}
		})
	}
}
