package gang

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
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/ledger"
)

// fakePool gives a gang after so many refusals.
type fakePool struct {
	training.Pool
	refusals []error
	asked    []training.Request
	released int
	keeps    []error         // why it cannot release at first
	gang     training.Gang   // that it gives; zero: one node
	ends     []training.Gang // what it says of it when it is released
}

func (p *fakePool) Acquire(_ context.Context, r training.Request) (training.Gang, error) {
	p.asked = append(p.asked, r)
	if len(p.refusals) >= len(p.asked) {
		return training.Gang{}, fmt.Errorf("nothing to be had: %w", p.refusals[len(p.asked)-1])
	}
	if len(p.gang.Nodes) > 0 {
		return p.gang, nil
	}
	return training.Gang{Nodes: []training.Node{{Name: "n"}}, USDPerHour: 2.5}, nil
}

func (p *fakePool) Release(context.Context, training.Key) ([]training.Gang, error) {
	if p.released++; p.released <= len(p.keeps) {
		return nil, p.keeps[p.released-1]
	}
	return p.ends, nil
}

func TestAcquireTakesTheFirstThatIsToBeHad(t *testing.T) {
	none, never, passing, broken := training.ErrNoCapacity, training.ErrTooLarge, training.ErrNotStarted, context.DeadlineExceeded
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
		{"after a refusal that passes", []error{passing}, slices.Repeat([]error{never}, 100), time.Minute, "gpu", 2},
		{"of pools that are away until the patience ends", slices.Repeat([]error{never}, 100), slices.Repeat([]error{broken}, 100), 0, fault.Preempted, 1},
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

// TestRefusalsThatMayPass: a step goes on asking for as long as the pool says, however many activities that takes, and the time in which
// a pool had no capacity does not count.
func TestRefusalsThatMayPass(t *testing.T) {
	ago := func(d time.Duration) time.Time { return time.Now().Add(-d) }
	hour := func(o contract.Offer) contract.Offer { o.RetryFor = time.Hour; return o }
	for _, tt := range []struct {
		name    string
		refusal error
		in      contract.AcquireInput
		want    string
		blocked bool // the error says since when
	}{
		{"now first", training.ErrNotStarted, contract.AcquireInput{Offers: []contract.Offer{gpuSpot}}, fault.Preempted, true},
		{"for long", training.ErrNotStarted, contract.AcquireInput{Offers: []contract.Offer{gpuSpot}, BlockedSince: ago(29 * time.Minute)}, fault.Preempted, true},
		{"for too long", training.ErrNotStarted, contract.AcquireInput{Offers: []contract.Offer{gpuSpot}, BlockedSince: ago(31 * time.Minute)}, fault.Infrastructure, false},
		{"for as long as the pool says", training.ErrNotStarted, contract.AcquireInput{Offers: []contract.Offer{hour(gpuSpot)}, BlockedSince: ago(59 * time.Minute)}, fault.Preempted, true},
		{"for longer than the pool says", training.ErrNotStarted, contract.AcquireInput{Offers: []contract.Offer{hour(gpuSpot)}, BlockedSince: ago(61 * time.Minute)}, fault.Infrastructure, false},
		{"a pool that is away", context.DeadlineExceeded, contract.AcquireInput{Offers: []contract.Offer{gpuSpot}, BlockedSince: ago(31 * time.Minute)}, fault.Infrastructure, false},
		{"while on-demand could be had", training.ErrNotStarted, contract.AcquireInput{Offers: []contract.Offer{gpuSpot}, BlockedSince: ago(31 * time.Minute), Waits: true}, fault.Preempted, true},
		{"no capacity meanwhile", training.ErrNoCapacity, contract.AcquireInput{Offers: []contract.Offer{gpuSpot}, BlockedSince: ago(31 * time.Minute)}, fault.Preempted, false},
		{"a quota", training.ErrQuota, contract.AcquireInput{Offers: []contract.Offer{gpuSpot}}, fault.Preempted, true},
		{"a quota for too long", training.ErrQuota, contract.AcquireInput{Offers: []contract.Offer{gpuSpot}, BlockedSince: ago(31 * time.Minute)}, fault.Infrastructure, false},
		{"a price meanwhile", training.ErrPrice, contract.AcquireInput{Offers: []contract.Offer{gpuSpot}, BlockedSince: ago(31 * time.Minute)}, fault.Preempted, false},
		{"a permission", training.ErrPermission, contract.AcquireInput{Offers: []contract.Offer{gpuSpot}}, fault.Invalid, false},
		{"for good", training.ErrInvalid, contract.AcquireInput{Offers: []contract.Offer{gpuSpot}}, fault.Invalid, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			tt.in.Pools, tt.in.Tick = []string{"gpu"}, time.Second
			_, err := acquire(t, map[string]*fakePool{"gpu": {refusals: slices.Repeat([]error{tt.refusal}, 100)}}, tt.in)
			if typ := fault.TypeOf(err); typ != tt.want {
				t.Fatalf("%v (%s), want %s", err, typ, tt.want)
			}
			if !strings.Contains(fault.Message(err), tt.refusal.Error()) {
				t.Errorf("%v, want it to say %q", err, tt.refusal)
			}
			var blocked contract.Blocked
			if json.Unmarshal(fault.Outputs(err), &blocked) == nil != tt.blocked {
				t.Fatalf("the error carries %s, want since when: %v", fault.Outputs(err), tt.blocked)
			}
			if since := tt.in.BlockedSince; tt.blocked && !since.IsZero() && !blocked.Since.Equal(since) {
				t.Errorf("refused since %v, want %v", blocked.Since, since)
			}
			if tt.want == fault.Infrastructure && !strings.Contains(fault.Message(err), "retry_for") {
				t.Errorf("%v, want the setting to be named", err)
			}
		})
	}
}

// A node that does not start costs each time, and a quota is not raised within a second, so their offers are left alone for a while; the others
// are not.
func TestOffersRest(t *testing.T) {
	for _, tt := range []struct {
		refusal error
		asked   int
	}{{training.ErrNotStarted, 1}, {training.ErrQuota, 1}, {training.ErrPrice, 3}, {context.DeadlineExceeded, 3}} {
		t.Run(tt.refusal.Error(), func(t *testing.T) {
			t.Parallel()
			pools := map[string]*fakePool{
				"gpu": {refusals: slices.Repeat([]error{tt.refusal}, 100)}, "burst": {refusals: slices.Repeat([]error{training.ErrNoCapacity}, 2)},
			}
			_, err := acquire(t, pools, contract.AcquireInput{
				Offers: []contract.Offer{gpuSpot, burst}, Pools: []string{"gpu", "burst"}, Patience: time.Minute, Tick: time.Second,
			})
			if err != nil || len(pools["gpu"].asked) != tt.asked || len(pools["burst"].asked) != 3 {
				t.Errorf("%v: the pool that refuses was asked %d times, the other %d, want %d and 3", err, len(pools["gpu"].asked), len(pools["burst"].asked), tt.asked)
			}
		})
	}
}

// slowPool never gets ready.
type slowPool struct{ fakePool }

func (p *slowPool) Acquire(ctx context.Context, _ training.Request) (training.Gang, error) {
	p.asked = append(p.asked, training.Request{})
	<-ctx.Done()
	return training.Gang{}, ctx.Err()
}

// Spot that does not get ready in time leaves on-demand the time that it needs.
func TestSpotIsBoundedByTheDeadline(t *testing.T) {
	onDemand := &fakePool{}
	in := contract.AcquireInput{
		Offers: []contract.Offer{gpuSpot, burst}, Pools: []string{"gpu", "burst"}, Patience: time.Minute, Tick: time.Second, SpotWithin: 50 * time.Millisecond,
	}
	got, err := acquire(t, map[string]training.Pool{"gpu": &slowPool{}, "burst": onDemand}, in)
	if err != nil || got.Offer.Pool != "burst" {
		t.Errorf("got %+v, %v, want on-demand after the time for spot", got, err)
	}
	// Where on-demand is not to be had at first, spot does not get that time again.
	spot := &slowPool{}
	got, err = acquire(t, map[string]training.Pool{"gpu": spot, "burst": &fakePool{refusals: []error{training.ErrNoCapacity}}}, in)
	if err != nil || got.Offer.Pool != "burst" || len(spot.asked) != 1 {
		t.Errorf("got %+v, %v after asking for spot %d times, want on-demand and one", got, err, len(spot.asked))
	}
	in.Offers, in.Patience = in.Offers[:1], 0
	_, err = acquire(t, map[string]training.Pool{"gpu": &slowPool{}}, in)
	if fault.TypeOf(err) != fault.Preempted || !strings.Contains(fault.Message(err), "the deadline leaves no more time") {
		t.Errorf("spot alone: %v, want to be asked again, and why", err)
	}
}

func acquire[P training.Pool](t *testing.T, pools map[string]P, in contract.AcquireInput) (contract.Acquired, error) {
	t.Helper()
	trainings := trainingsWith(t, pools, &in)
	env := flowtest.Activities()
	env.RegisterActivity(trainings.Acquire)
	value, err := env.ExecuteActivity(trainings.Acquire, in)
	if err != nil {
		return contract.Acquired{}, err
	}
	var got contract.Acquired
	return got, value.Get(&got)
}

// trainingsWith are the activities with these pools, and a submission for the input that names them.
func trainingsWith[P training.Pool](t *testing.T, pools map[string]P, in *contract.AcquireInput) *Trainings {
	t.Helper()
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	in.Submission = submit(t, s, "pools: {gpu: {local: {nodes: 1}}, burst: {local: {nodes: 1}}}")
	return &Trainings{
		Store: s, Engine: engine.NewEngine(s),
		Pool: func(_ context.Context, name string, _ *spec.Environment) (training.Pool, error) {
			return pools[name], nil
		},
	}
}

// submit stores a submission with an environment that has some pools.
func submit(t *testing.T, s *store.Store, pools string) string {
	t.Helper()
	submission, err := json.Marshal(record.Submission{
		File: "p.yaml", EnvFile: "e.yaml",
		Pipeline:    []byte("sluice: pipeline/v1\nname: t\nsteps: {a: {run: {command: [echo]}}}\n"),
		Environment: []byte("sluice: environment/v1\nname: t\n" + pools + "\n"),
	})
	if err != nil {
		t.Fatal(err)
	}
	digest, _, err := s.PutBlob(t.Context(), bytes.NewReader(submission))
	if err != nil {
		t.Fatal(err)
	}
	return digest
}

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
		{"the cheapest first", spec.Train{Placement: spec.Placement{Pool: []string{"dear", "gpu"}}}, []string{"gpu spot", "dear spot", "gpu on_demand", "dear on_demand"}},
		{"in order where a price is not known", spec.Train{Placement: spec.Placement{Pool: []string{"unpriced", "gpu"}}}, []string{"unpriced spot", "unpriced on_demand", "gpu spot", "gpu on_demand"}},
		{"spot alone", spec.Train{Placement: spec.Placement{Pool: []string{"gpu", "plain"}, Capacity: spec.CapacitySpot}}, []string{"gpu spot"}},
		{"on-demand alone", spec.Train{Placement: spec.Placement{Pool: []string{"gpu", "plain"}, Capacity: spec.CapacityOnDemand}}, []string{"gpu on_demand", "plain on_demand"}},
		{"nothing", spec.Train{Placement: spec.Placement{Pool: []string{"plain"}, Capacity: spec.CapacitySpot}}, nil},
		{"no such pool", spec.Train{Placement: spec.Placement{Pool: []string{"gone"}}}, nil},
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

// A local pool is this machine, which is paid for; what another costs nobody knows if nobody says it.
func TestPriceOfOffers(t *testing.T) {
	priced := spec.Prices{OnDemand: 2}
	for _, tt := range []struct {
		name string
		pool spec.Pool
		want contract.Offer
	}{
		{"local", spec.Pool{Local: &spec.LocalPool{}}, contract.Offer{}},
		{"local with a price", spec.Pool{Local: &spec.LocalPool{}, USDPerHour: priced}, contract.Offer{USDPerHour: 2}},
		{"remote", spec.Pool{Kubernetes: &spec.KubernetesPool{}}, contract.Offer{PriceUnknown: true}},
		{"remote with a price", spec.Pool{Kubernetes: &spec.KubernetesPool{}, USDPerHour: priced}, contract.Offer{USDPerHour: 2}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			env := &spec.Environment{Pools: map[string]spec.Pool{"p": tt.pool}}
			tt.want.Pool, tt.want.Capacity = "p", spec.CapacityOnDemand
			got, err := offersOf(env, spec.Train{Placement: spec.Placement{Pool: []string{"p"}}})
			if diff := cmp.Diff([]contract.Offer{tt.want}, got, cmpopts.IgnoreFields(contract.Offer{}, "RetryFor", "StartWithin")); err != nil || diff != "" {
				t.Errorf("%v, offers (-want +got):\n%s", err, diff)
			}
		})
	}
}

// What was paid for before a gang was there is known to whoever gets one, and stays in the ledger; so does what is given back.
func TestAcquireAndReleaseEnterWhatTheyPaidFor(t *testing.T) {
	began := time.Now().UTC().Add(-2 * time.Hour)
	node := func(name string, began, ended time.Time) training.Node {
		return training.Node{Name: name, Queue: name, Type: "g6", Zone: "a", BeganAt: began, EndedAt: ended}
	}
	failed := training.Gang{USDPerHour: 3, Nodes: []training.Node{node("a", began, began.Add(time.Hour))}}
	pool := &fakePool{
		refusals: []error{training.FailedStart(training.ErrNotStarted, failed)},
		gang:     training.Gang{USDPerHour: 2.5, Nodes: []training.Node{node("b", began.Add(time.Hour), time.Time{})}},
	}
	pool.ends = []training.Gang{{USDPerHour: 2.5, Nodes: []training.Node{node("b", began.Add(time.Hour), began.Add(2*time.Hour))}}}
	key := training.Key{Run: "r", Step: "fit", Generation: 1}
	in := contract.AcquireInput{
		Offers: []contract.Offer{gpuSpot, burst}, Pools: []string{"gpu"}, Patience: time.Minute, Tick: time.Second, Request: training.Request{Key: key},
	}
	trainings := trainingsWith(t, map[string]*fakePool{"gpu": pool, "burst": {refusals: slices.Repeat([]error{training.ErrNoCapacity}, 100)}}, &in)
	env := flowtest.Activities()
	env.RegisterActivity(trainings.Acquire)
	env.RegisterActivity(trainings.Release)
	var got contract.Acquired
	value, err := env.ExecuteActivity(trainings.Acquire, in)
	if err == nil {
		err = value.Get(&got)
	}
	if err != nil || got.Before.USD != 3 {
		t.Errorf("got %+v, %v, want a gang before which $3 were paid", got, err)
	}
	var released contract.Released
	value, err = env.ExecuteActivity(trainings.Release, contract.ReleaseInput{Pools: []string{"gpu"}, Submission: in.Submission, Key: key})
	if err == nil {
		err = value.Get(&released)
	}
	if err != nil || released.Paid.USD != 5.5 {
		t.Errorf("released %+v, %v, want $5.5 to have been paid", released, err)
	}
	entries, err := ledger.Load(t.Context(), trainings.Store, "r", "fit")
	if err != nil || len(entries) != 2 || entries[0].Whole || !entries[1].Whole || entries[1].Gang.Nodes[0].EndedAt.IsZero() {
		t.Errorf("entries %+v, %v, want a gang that failed to start and one that was released", entries, err)
	}
}

// A gang is released when its pool's API is back, and the others are not asked again; a pool that refuses is not asked again either.
func TestReleaseWaitsForThePool(t *testing.T) {
	for reason, tries := range map[error]int{context.DeadlineExceeded: 2, training.ErrInvalid: 1} {
		var in contract.AcquireInput
		pools := map[string]*fakePool{"gpu": {keeps: []error{reason}}, "burst": {}}
		trainings := trainingsWith(t, pools, &in)
		env := flowtest.Activities()
		env.RegisterActivity(trainings.Release)
		_, err := env.ExecuteActivity(trainings.Release, contract.ReleaseInput{
			Pools: []string{"gpu", "burst"}, Submission: in.Submission, Key: training.Key{Run: "r", Step: "fit", Generation: 1},
		})
		if released := err == nil; released != (tries > 1) || pools["gpu"].released != tries || pools["burst"].released != 1 {
			t.Errorf("%v: %v after %d and %d tries, want %d and one", reason, err, pools["gpu"].released, pools["burst"].released, tries)
		}
	}
}
