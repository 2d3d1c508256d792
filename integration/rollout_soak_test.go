package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/internal/testing/fleet"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/onnx/onnxtest"
)

// periods are what may have served when: of a change of traffic it is known when it was asked for, and when the one before was no longer
// in effect anywhere.
type periods struct {
	mu  sync.Mutex
	all []period
}

type period struct {
	releases []string
	from, to time.Time // to is zero while it may be in effect
}

// change notes that other releases are about to get the traffic; done that they have it.
func (p *periods) change(releases ...string) (done func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	before := len(p.all)
	p.all = append(p.all, period{releases: releases, from: time.Now()})
	return func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		for i := range before {
			if p.all[i].to.IsZero() {
				p.all[i].to = time.Now()
			}
		}
	}
}

// allowed reports whether a release may have answered a request that was under way for that time.
func (p *periods) allowed(release string, from, to time.Time) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, period := range slices.Backward(p.all) {
		if period.from.Before(to) && (period.to.IsZero() || period.to.After(from)) && slices.Contains(period.releases, release) {
			return true
		}
	}
	return false
}

// balanced is clients behind a load balancer: it sends requests to replicas that say that they are ready, and a request to another one when
// there was no answer.
type balanced struct {
	*fleet.Fleet
	periods periods
	down    []atomic.Bool
	next    atomic.Int64

	answers, again atomic.Int64
	mu             sync.Mutex
	failures       []string
	said           map[string]string // by release
}

func (b *balanced) fail(format string, args ...any) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.failures = append(b.failures, fmt.Sprintf(format, args...))
}

// check asks for the readiness of replicas as a load balancer does.
func (b *balanced) check(ctx context.Context) {
	for range poll.Every(ctx, 100*time.Millisecond) {
		for i, r := range b.Replicas {
			b.down[i].Store(!r.Ready(ctx))
		}
	}
}

// ask has one client ask again and again.
func (b *balanced) ask(ctx context.Context) {
	web := fleet.NewHTTP(10 * time.Second)
	defer web.CloseIdleConnections()
	for range poll.Every(ctx, 20*time.Millisecond) {
		b.request(ctx, web)
	}
}

func (b *balanced) request(ctx context.Context, web *http.Client) {
	var last error
	trying, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for range poll.Every(trying, 5*time.Millisecond) {
		i := int(b.next.Add(1)) % len(b.Replicas)
		if b.down[i].Load() {
			continue
		}
		from := time.Now()
		release, status, said, err := fleet.Ask(ctx, web, b.Replicas[i].URL)
		to := time.Now()
		switch {
		case ctx.Err() != nil:
			return
		case err != nil:
			b.again.Add(1)
			b.down[i].Store(true)
			last = err
			continue
		case status != http.StatusOK:
			b.fail("replica %d: status %d: %s", i, status, said)
			return
		case !b.periods.allowed(release, from, to):
			b.fail("replica %d: release %s answered, which had no traffic", i, release)
		}
		b.answers.Add(1)
		_, outputs, _ := strings.Cut(said, `"outputs"`)
		b.mu.Lock()
		if before, known := b.said[release]; known && before != outputs {
			b.failures = append(b.failures, fmt.Sprintf("release %s says %s and %s", release, before, outputs))
		}
		b.said[release] = outputs
		b.mu.Unlock()
		return
	}
	if ctx.Err() == nil {
		b.fail("no replica answers: %v", last)
	}
}

// move changes the traffic.
func (b *balanced) move(ctx context.Context, split gateway.Split) error {
	var releases []string
	for release, weight := range split.Weights {
		if weight > 0 {
			releases = append(releases, release)
		}
	}
	done := b.periods.change(releases...)
	err := b.Split(ctx, split)
	done()
	return err
}

// rollOut releases a model beside the stable one, which it promotes or takes back, and returns what serves in the end. Some releases that
// were promoted are rolled back after that.
func (b *balanced) rollOut(ctx context.Context, stable, model, run string) (string, error) {
	candidate, err := b.Load(ctx, "../serving/onnx/onnxtest/"+model+".onnx", run)
	if err != nil {
		return "", err
	}
	err = b.move(ctx, gateway.Split{Weights: map[string]float64{stable: 0.5, candidate: 0.5}, Candidate: candidate, Stable: stable})
	if err != nil {
		return "", err
	}
	if rand.N(2) == 0 {
		return stable, b.move(ctx, gateway.Split{Weights: map[string]float64{stable: 1}})
	}
	if err := b.move(ctx, gateway.Split{Weights: map[string]float64{stable: 0, candidate: 1}}); err != nil {
		return "", err
	}
	if rand.N(2) == 0 {
		return candidate, nil
	}
	return stable, b.move(ctx, gateway.Split{Weights: map[string]float64{stable: 1, candidate: 0}})
}

// killOne kills a replica without a word, and starts it again.
func (b *balanced) killOne(ctx context.Context) error {
	r := b.Replicas[rand.N(len(b.Replicas))]
	if err := r.Kill(); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case <-time.After(2 * time.Second):
	}
	return r.Start(ctx)
}

// TestReplicasUnderLoad: three replicas answer for five minutes while releases are promoted and rolled back all the time, and one of them is
// killed every 20 seconds. A client that asks another replica when it has no answer sees no failure, and no release answers that has no
// traffic.
func TestReplicasUnderLoad(t *testing.T) {
	if os.Getenv(soakVariable) == "" {
		t.Skip(soakVariable + " is not set")
	}
	path, err := sluicePath()
	if err != nil {
		t.Fatal(err)
	}
	f, err := fleet.Start(t.Context(), path, t.TempDir(), 3)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	b := &balanced{Fleet: f, down: make([]atomic.Bool, len(f.Replicas)), said: map[string]string{}}
	stable, err := b.Load(t.Context(), "../serving/onnx/onnxtest/"+onnxtest.Text+".onnx", "first")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.move(t.Context(), gateway.Split{Weights: map[string]float64{stable: 1}}); err != nil {
		t.Fatal(err)
	}
	const kills = 20 * time.Second
	ctx, stop := context.WithTimeout(t.Context(), 5*time.Minute)
	defer stop()
	var running sync.WaitGroup
	running.Go(func() { b.check(ctx) })
	for range 8 {
		running.Go(func() { b.ask(ctx) })
	}
	killed := 0
	running.Go(func() {
		for range poll.Every(ctx, kills) {
			if err := b.killOne(ctx); err != nil && ctx.Err() == nil {
				b.fail("kill a replica: %v", err)
			}
			killed++
		}
	})
	rollouts := 0
	for ctx.Err() == nil {
		model := []string{onnxtest.TextClose, onnxtest.Text}[rollouts%2]
		rollouts++
		if stable, err = b.rollOut(t.Context(), stable, model, fmt.Sprint("rollout-", rollouts)); err != nil {
			b.fail("rollout %d: %v", rollouts, err)
			break
		}
	}
	stop()
	running.Wait()
	t.Logf("%d answers, %d requests asked again, %d rollouts with %d changes of traffic, %d kills", b.answers.Load(), b.again.Load(), rollouts, len(b.periods.all), killed)
	if len(b.failures) > 0 {
		t.Errorf("%d failures: %s", len(b.failures), strings.Join(b.failures[:min(10, len(b.failures))], "\n"))
	}
	if rollouts < 10 || killed < 10 || b.again.Load() == 0 {
		t.Error("too little has happened")
	}
}

// killed is a rollout to a gateway of its own process, by a worker of its own process, either of which is killed whenever the rollout
// changes the document.
type killed struct {
	*sandbox
	worker, gateway *command
	stop            func()
}

func newKilled(t *testing.T) *killed {
	t.Helper()
	s := newRelease(t)
	s.edit("environment.yaml", fmt.Sprintf("{port: %d}", s.port), fmt.Sprintf("{port: %d, url: 'http://127.0.0.1:%[1]d'}", s.port))
	s.edit("pipeline.yaml", "{weight: 100%}", "{shadow: 100%, min_samples: 5}, {weight: 50%, min_samples: 5, bake: 2s}, {weight: 100%, min_samples: 5}")
	s.env = append(s.env, state.StoreVariable+"=file://"+filepath.Join(s.state, "store"))
	s.serve()
	k := &killed{sandbox: s}
	k.work()
	k.open()
	ctx, cancel := context.WithCancel(t.Context())
	var asking sync.WaitGroup
	asking.Go(func() {
		for range poll.Every(ctx, 20*time.Millisecond) {
			_, _ = s.infer()
		}
	})
	k.stop = func() { cancel(); asking.Wait() }
	t.Cleanup(k.stop)
	return k
}

func (k *killed) work() {
	k.worker = k.start("worker", "--stateless", "--state", filepath.Join(k.dir, "worker"))
	k.worker.awaits("Ctrl-C stops")
}

func (k *killed) open() {
	k.gateway = k.start("serve", "-e", "environment.yaml", "--state", filepath.Join(k.dir, "gateway"))
	k.gateway.awaits("words at ")
}

// strike kills the worker or the gateway, and starts it again.
func (k *killed) strike(who string) {
	k.t.Helper()
	c, again := k.worker, k.work
	if who == "gateway" {
		c, again = k.gateway, k.open
	}
	kill(k.t, c.cmd.Process.Pid, syscall.SIGKILL)
	<-c.done
	again()
}

// follow strikes at each change of the document until a run ends. When a release is at half of the traffic, act is called.
func (k *killed) follow(run *command, who string, act func()) (strikes int) {
	k.t.Helper()
	content := func() string { // a change that is made again is a revision of the same content
		doc := k.routing()
		return fmt.Sprintf("%v %s %v", doc.Releases, doc.Candidate, doc.Shadow)
	}
	before := content()
	ctx, cancel := context.WithTimeout(k.t.Context(), 10*time.Minute)
	defer cancel()
	for range poll.Every(ctx, 20*time.Millisecond) {
		select {
		case <-run.done:
			return strikes
		default:
		}
		now := content()
		if now == before {
			continue
		}
		before = now
		if serving, _ := k.routing().Serving(); serving.Weight == 0.5 && act != nil {
			act()
		}
		k.strike(who)
		strikes++
	}
	k.t.Fatal("the run does not end")
	return 0
}

// TestKillsInRollout: the worker, or the gateway, is killed at each transition of a rollout that is promoted and of one that is aborted. Both
// end as if nothing had happened.
func TestKillsInRollout(t *testing.T) {
	if os.Getenv(soakVariable) == "" {
		t.Skip(soakVariable + " is not set")
	}
	for _, who := range []string{"worker", "gateway"} {
		t.Run(who, func(t *testing.T) {
			k := newKilled(t)
			k.run().expect(0) // the first release
			second := k.run()
			if strikes := k.follow(second, who, nil); strikes < 4 {
				t.Errorf("struck %d times only", strikes)
			}
			second.expect(0)
			k.serves(map[string]float64{"1": 0, "2": 1})

			third := k.run()
			k.follow(third, who, func() { k.start("rollout", "abort", "words") })
			third.expect(4)
			k.serves(map[string]float64{"2": 1})
			if _, err := control.RollBack(t.Context(), k.store(), "words", "1", "user:test", ""); err != nil {
				t.Errorf("roll back afterwards: %v", err)
			}
		})
	}
}

// serves checks the document and what its gateway answers.
func (k *killed) serves(want map[string]float64) {
	k.t.Helper()
	doc := k.routing()
	got := map[string]float64{}
	for _, r := range doc.Releases {
		got[r.Version] = r.Weight
	}
	serving, _ := doc.Serving()
	if diff := cmp.Diff(want, got); diff != "" || doc.Candidate != "" || doc.Shadow != nil {
		k.t.Errorf("the document %+v (-want +got):\n%s", doc, diff)
	}
	k.await("an answer of release "+serving.Version, func() bool { got, err := k.infer(); return err == nil && got == serving.Version })
}
