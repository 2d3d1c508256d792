// Package pooltest is the conformance suite that every training.Pool passes.
package pooltest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/training"
)

// limit bounds every wait of the suite.
const limit = 30 * time.Second

// Harness is a driver under test.
type Harness struct {
	// Nodes is how many nodes the pool has: at least 2.
	Nodes int
	// Pool is the pool, empty.
	Pool training.Pool
	// Reopen returns the same pool as another worker sees it, that did not start its gangs. nil: the driver has no such thing.
	Reopen func() training.Pool
	// Kill takes a node of a gang away behind the pool's back.
	Kill func(t *testing.T, key training.Key, node int)
	// Alive counts the nodes of a gang that run, seen from outside.
	Alive func(t *testing.T, key training.Key) int
}

// Run runs the suite; open makes a new pool for each test.
func Run(t *testing.T, open func(t *testing.T) Harness) {
	for _, test := range []struct {
		name string
		run  func(*testing.T, Harness)
	}{
		{"acquire gives what was asked for", testAcquire},
		{"acquire is idempotent", testAcquireTwice},
		{"too much is refused", testRefusals},
		{"as many as there are", testElastic},
		{"watch sees a loss", testWatch},
		{"watch ends with its context", testWatchContext},
		{"what is unknown is lost", testUnknown},
		{"release ends everything", testRelease},
		{"node times", testTimes},
		{"another worker can go on", testReopen},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, open(t)) })
	}
}

func request(generation, minimum, maximum int) training.Request {
	return training.Request{
		Key:      training.Key{Run: "r1", Step: "fit", Generation: generation},
		MinNodes: minimum, MaxNodes: maximum, Workflow: "train/r1/fit",
	}
}

func acquire(t *testing.T, p training.Pool, r training.Request) training.Gang {
	t.Helper()
	gang, err := p.Acquire(bounded(t), r)
	if err != nil {
		t.Fatalf("Acquire(%s): %v", r.Key, err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), limit)
		defer cancel()
		if _, err := p.Release(ctx, r.Key); err != nil {
			t.Errorf("Release(%s): %v", r.Key, err)
		}
	})
	return gang
}

func release(t *testing.T, p training.Pool, k training.Key) []training.Gang {
	t.Helper()
	gangs, err := p.Release(bounded(t), k)
	if err != nil {
		t.Fatalf("Release(%s): %v", k, err)
	}
	return gangs
}

func bounded(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	return ctx
}

func testAcquire(t *testing.T, h Harness) {
	gang := acquire(t, h.Pool, request(1, 2, 2))
	if len(gang.Nodes) != 2 {
		t.Fatalf("%d nodes, want 2", len(gang.Nodes))
	}
	for i, n := range gang.Nodes {
		prefix := request(1, 2, 2).QueuePrefix()
		if n.Index != i || n.Name == "" || n.Address == "" || len(n.Queue) <= len(prefix) || n.Queue[:len(prefix)] != prefix {
			t.Errorf("node %d is %+v", i, n)
		}
	}
	if gang.Nodes[0].Queue == gang.Nodes[1].Queue {
		t.Error("two nodes share a queue")
	}
	if alive := h.Alive(t, request(1, 2, 2).Key); alive != 2 {
		t.Errorf("%d nodes run, want 2", alive)
	}
}

func testAcquireTwice(t *testing.T, h Harness) {
	first := acquire(t, h.Pool, request(1, 2, 2))
	second := acquire(t, h.Pool, request(1, 2, 2))
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("the same key gave another gang (-first +second):\n%s", diff)
	}
	if alive := h.Alive(t, request(1, 2, 2).Key); alive != 2 {
		t.Errorf("%d nodes run, want 2", alive)
	}
}

func testRefusals(t *testing.T, h Harness) {
	if _, err := h.Pool.Acquire(bounded(t), request(1, h.Nodes+1, h.Nodes+1)); !errors.Is(err, training.ErrTooLarge) || training.RefusalOf(err) != training.ErrInvalid {
		t.Errorf("more than the pool has: %v, want ErrTooLarge, which is invalid", err)
	}
	acquire(t, h.Pool, request(1, h.Nodes, h.Nodes))
	if _, err := h.Pool.Acquire(bounded(t), request(2, 1, 1)); training.RefusalOf(err) != training.ErrNoCapacity {
		t.Errorf("more than is free: %v, want ErrNoCapacity", err)
	}
	release(t, h.Pool, request(1, 1, 1).Key)
	acquire(t, h.Pool, request(2, 1, 1))
}

func testElastic(t *testing.T, h Harness) {
	if gang := acquire(t, h.Pool, request(1, 1, h.Nodes+5)); len(gang.Nodes) != h.Nodes {
		t.Errorf("%d nodes, want all %d", len(gang.Nodes), h.Nodes)
	}
}

func testWatch(t *testing.T, h Harness) {
	r := request(1, 2, 2)
	acquire(t, h.Pool, r)
	h.Kill(t, r.Key, 1)
	for range 2 { // the second time for a worker that takes over
		loss, err := h.Pool.Watch(bounded(t), r.Key, unheard(t))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]int{1}, loss.Nodes); diff != "" || loss.Reason == "" {
			t.Errorf("loss %+v, want node 1 and a reason", loss)
		}
	}
}

// unheard is for a watch under which no node is to be taken away with a notice.
func unheard(t *testing.T) func(training.Notice) error {
	return func(n training.Notice) error {
		t.Errorf("there is a notice of what comes without: %+v", n)
		return nil
	}
}

func testWatchContext(t *testing.T, h Harness) {
	r := request(1, 2, 2)
	acquire(t, h.Pool, r)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if loss, err := h.Pool.Watch(ctx, r.Key, unheard(t)); !errors.Is(err, context.Canceled) {
		t.Errorf("Watch returned %+v, %v, want the context's error", loss, err)
	}
}

func testUnknown(t *testing.T, h Harness) {
	loss, err := h.Pool.Watch(bounded(t), request(7, 1, 1).Key, unheard(t))
	if err != nil || loss.Reason == "" {
		t.Errorf("Watch of an unknown gang: %+v, %v, want a loss", loss, err)
	}
	release(t, h.Pool, request(7, 1, 1).Key)
}

func testRelease(t *testing.T, h Harness) {
	r := request(1, 2, 2)
	acquire(t, h.Pool, r)
	for range 2 {
		release(t, h.Pool, r.Key)
		if alive := h.Alive(t, r.Key); alive != 0 {
			t.Errorf("%d nodes run after Release", alive)
		}
	}
	loss, err := h.Pool.Watch(bounded(t), r.Key, unheard(t))
	if err != nil || loss.Reason == "" {
		t.Errorf("Watch after Release: %+v, %v, want a loss", loss, err)
	}
}

// precision is how exactly a pool must know the times of its nodes: providers give whole seconds.
const precision = time.Second

// testTimes: a node is paid for from after the gang was asked for until Release has returned, and what Release says of it can be told to
// belong to the node that Acquire gave.
func testTimes(t *testing.T, h Harness) {
	r := request(1, 2, 2)
	asked := time.Now()
	gang := acquire(t, h.Pool, r)
	got := time.Now()
	gangs := release(t, h.Pool, r.Key)
	released := time.Now()
	ended := map[string]training.Node{}
	for _, g := range gangs {
		for _, n := range g.Nodes {
			ended[n.Queue] = n
		}
	}
	for _, n := range gang.Nodes {
		if n.BeganAt.Before(asked.Add(-precision)) || n.BeganAt.After(got) || !n.EndedAt.IsZero() {
			t.Errorf("node %d began at %v and ended at %v, want a time between %v and %v, and none", n.Index, n.BeganAt, n.EndedAt, asked, got)
		}
		e := ended[n.Queue]
		if !e.BeganAt.Equal(n.BeganAt) || e.EndedAt.Before(got.Add(-precision)) || e.EndedAt.After(released) {
			t.Errorf("node %d began at %v and ended at %v by Release, want %v and a time between %v and %v", n.Index, e.BeganAt, e.EndedAt, n.BeganAt, got, released)
		}
	}
}

func testReopen(t *testing.T, h Harness) {
	if h.Reopen == nil {
		t.Skip("the driver keeps no state that another worker could see")
	}
	r := request(1, 2, 2)
	first := acquire(t, h.Pool, r)
	other := h.Reopen()
	second, err := other.Acquire(bounded(t), r)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(first, second); diff != "" {
		t.Errorf("another worker got another gang for the same key (-first +second):\n%s", diff)
	}
	h.Kill(t, r.Key, 0)
	loss, err := other.Watch(bounded(t), r.Key, unheard(t))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]int{0}, loss.Nodes); diff != "" {
		t.Errorf("nodes lost (-want +got):\n%s", diff)
	}
	release(t, other, r.Key)
	if alive := h.Alive(t, r.Key); alive != 0 {
		t.Errorf("%d nodes run after another worker's Release", alive)
	}
}
