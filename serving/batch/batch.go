// Package batch puts inference requests that arrive together into one inference. Requests whose tensors differ only in their first
// dimension are joined along it, and the answer is taken apart again.
//
// Nothing waits while the model has nothing to do: a request that finds it free runs at once, on the goroutine of its caller. Requests
// that arrive meanwhile wait in a queue, and run together when an inference has ended. Only after an inference of several requests do the
// next ones wait, for a moment, for as many: their clients are about to ask again.
package batch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluiceml/sluice/serving/oip"
)

// ErrClosed is returned by Infer after Close.
var ErrClosed = errors.New("the model has been unloaded")

// Model is what runs the inferences. Its methods may be called concurrently; Close is called once, last.
type Model interface {
	Inputs() []oip.TensorMetadata
	Outputs() []oip.TensorMetadata
	// Check returns one request's inputs in the order of Inputs, or an oip.Error with status 400 for inputs that do not fit.
	Check(inputs []oip.Tensor) ([]oip.Tensor, error)
	// Run makes an inference of inputs that Check returned, or of several joined. It returns all outputs, in the order of Outputs. When ctx
	// ends, it stops and returns ctx's cause.
	Run(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error)
	Close() error
}

// Options configure a Batcher.
type Options struct {
	// Instances is how many inferences run at once. Default 1.
	Instances int
	// MaxBatch bounds the rows of an inference of several requests. 0 or 1: requests are never joined.
	MaxBatch int
	// Trusted says that the model's answers are known not to depend on other rows, or that it is accepted that they do: WarmUp then finds out just
	// whether the first dimension is that of the rows.
	Trusted bool
	// MaxDelay bounds how long requests wait for others while an instance is free.
	MaxDelay time.Duration
	// Preferred sizes, in rows: what waits is cut to the largest of them that it fills.
	Preferred []int
	// MaxQueue bounds how many requests wait. Default 256.
	MaxQueue int
	// TargetP99 of the time of inferences. MaxBatch is lowered while they take longer. 0: none.
	TargetP99 time.Duration
	Logger    *slog.Logger
}

const defaultQueue = 256

// delayShare bounds the wait for more requests by the time that an inference takes: a model that answers in microseconds gains nothing by
// a wait of milliseconds.
const delayShare = 4

// Batcher makes inferences of one model. It implements gateway.Upstream.
type Batcher struct {
	model Model
	opts  Options
	joins bool // requests may be joined; set by WarmUp before the first request

	mu      sync.Mutex
	free    int // instances with nothing to do
	queue   []*request
	gather  *gather // the instance that waits for more requests; nil for none
	usual   time.Duration
	limit   limit
	counts  Stats
	closed  bool
	running sync.WaitGroup // of inferences and of waits for more requests
}

// request waits for its answer. Its outcome may be read when done is closed.
type request struct {
	ctx     context.Context //nolint:containedctx // it is the caller's, who waits
	inputs  []oip.Tensor
	rows    int64 // 0: it cannot be joined with others
	arrived time.Time
	done    chan struct{}
	outputs []oip.Tensor
	err     error
}

// gather is an instance's wait for more requests.
type gather struct {
	requests int // that are worth waiting for
	ended    bool
	full     chan struct{} // closed when ended
}

// New makes a Batcher, which owns the model. It joins no requests before WarmUp has found that the model's answers allow it.
func New(model Model, opts Options) *Batcher {
	opts.Instances = max(opts.Instances, 1)
	opts.MaxQueue = cmp.Or(opts.MaxQueue, defaultQueue)
	opts.MaxBatch = max(opts.MaxBatch, 1)
	return &Batcher{model: model, opts: opts, free: opts.Instances, limit: newLimit(opts.MaxBatch, opts.TargetP99)}
}

// Inputs describes the model's inputs.
func (b *Batcher) Inputs() []oip.TensorMetadata { return b.model.Inputs() }

// Outputs describes the model's outputs.
func (b *Batcher) Outputs() []oip.TensorMetadata { return b.model.Outputs() }

// Batching is how requests are joined, and whether they are.
func (b *Batcher) Batching() (opts Options, joins bool) { return b.opts, b.joins }

// Infer returns the model's answer. Inputs that do not fit the model are an oip.Error with status 400, and a request for which the queue
// has no room is one with status 429. When ctx ends, a request that still waits is dropped.
func (b *Batcher) Infer(ctx context.Context, inputs []oip.Tensor) ([]oip.Tensor, error) {
	ordered, err := b.model.Check(inputs)
	if err != nil {
		return nil, err
	}
	r := &request{ctx: ctx, inputs: ordered, arrived: time.Now()}
	if b.joins {
		r.rows = rowsOf(ordered)
	}
	b.mu.Lock()
	switch {
	case b.closed:
		b.mu.Unlock()
		return nil, ErrClosed
	case b.free > 0 && b.gather == nil:
		b.free--
		b.running.Add(1)
		b.mu.Unlock()
		b.runAlone(r)
		return r.outputs, r.err
	case len(b.queue) >= b.opts.MaxQueue:
		b.counts.fail(r.arrived, time.Now())
		b.mu.Unlock()
		return nil, &oip.Error{
			Status: http.StatusTooManyRequests, RetryAfter: time.Second,
			Message: fmt.Sprintf("%d requests wait for the model already", b.opts.MaxQueue),
		}
	}
	r.done = make(chan struct{})
	b.queue = append(b.queue, r)
	if b.gather != nil {
		b.gather.check(b.queue, b.limit.rows)
	}
	b.mu.Unlock()
	select {
	case <-r.done:
		return r.outputs, r.err
	case <-ctx.Done():
		b.mu.Lock()
		b.dropGone()
		b.mu.Unlock()
		return nil, context.Cause(ctx)
	}
}

// dropGone takes requests whose callers have gone out of the queue; the caller holds the lock.
func (b *Batcher) dropGone() {
	b.queue = slices.DeleteFunc(b.queue, func(r *request) bool {
		gone := r.ctx.Err() != nil
		if gone {
			b.counts.fail(r.arrived, time.Now())
		}
		return gone
	})
}

// runAlone runs a request that found an instance free, and then what has arrived meanwhile, if anything, on a goroutine of its own.
func (b *Batcher) runAlone(r *request) {
	b.execute([]*request{r})
	b.mu.Lock()
	defer b.mu.Unlock()
	if len(b.queue) > 0 && b.gather == nil {
		go b.work(1)
		return
	}
	b.free++
	b.running.Done()
}

// work is an instance that has run an inference of so many requests: it runs inferences until nothing waits.
func (b *Batcher) work(last int) {
	defer b.running.Done()
	for {
		batch := b.next(last)
		if len(batch) == 0 {
			return
		}
		b.execute(batch)
		last = len(batch)
	}
}

// next returns what the instance runs next, after an inference of so many requests. With nothing to run, the instance is free.
func (b *Batcher) next(last int) []*request {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.wait(last + len(b.queue))
	var batch []*request
	if b.gather == nil { // else what waits is for the instance that gathers it
		batch = b.take()
	}
	if len(batch) == 0 {
		b.free++
		return nil
	}
	for ; b.free > 0 && len(b.queue) > 0; b.free-- { // there is more than one inference can hold
		b.running.Add(1)
		go b.work(0)
	}
	return batch
}

// wait waits until so many requests are there, for a while; the caller holds the lock, which is released meanwhile.
func (b *Batcher) wait(requests int) {
	delay := min(b.opts.MaxDelay, b.usual/delayShare)
	if !b.joins || b.closed || b.gather != nil || requests < 2 || delay <= 0 {
		return
	}
	g := &gather{requests: requests, full: make(chan struct{})}
	b.gather = g
	g.check(b.queue, b.limit.rows)
	b.mu.Unlock()
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-g.full:
	case <-timer.C:
	}
	b.mu.Lock()
	b.gather = nil
}

// check ends the wait when enough requests are there.
func (g *gather) check(queue []*request, most int) {
	var rows int64
	for _, r := range queue {
		rows += r.rows
	}
	if len(queue) >= g.requests || rows >= int64(most) {
		g.end()
	}
}

func (g *gather) end() {
	if !g.ended {
		g.ended = true
		close(g.full)
	}
}

// take takes the oldest request that waits, and those that can be joined with it, out of the queue; the caller holds the lock. Requests
// whose callers have gone are dropped.
func (b *Batcher) take() []*request {
	b.dropGone()
	if len(b.queue) == 0 {
		return nil
	}
	first := b.queue[0]
	var rows int64
	for _, r := range b.queue {
		if r == first || joinable(first, r) {
			rows += r.rows
		}
	}
	most := b.most(rows)
	batch, rest := []*request{first}, b.queue[:0]
	rows = first.rows
	for _, r := range b.queue[1:] {
		if joinable(first, r) && rows+r.rows <= most {
			batch, rows = append(batch, r), rows+r.rows
		} else {
			rest = append(rest, r)
		}
	}
	clear(b.queue[len(rest):])
	b.queue = rest
	return batch
}

// most is how many rows the next inference may have, when so many wait.
func (b *Batcher) most(waiting int64) int64 {
	most := min(waiting, int64(b.limit.rows))
	var preferred int64
	for _, size := range b.opts.Preferred {
		if int64(size) <= most {
			preferred = max(preferred, int64(size))
		}
	}
	return cmp.Or(preferred, most)
}

// execute makes one inference of some requests, and gives each its outcome.
func (b *Batcher) execute(batch []*request) {
	began := time.Now()
	if len(batch) == 1 {
		b.run(batch[0], began)
		return
	}
	outputs, parts, err := b.runJoined(batch)
	took := time.Since(began)
	if err != nil && !allGone(batch) {
		// Whatever it was in one of the requests, or in all of them together, that failed: the others are not to suffer for it.
		for _, r := range batch {
			b.run(r, time.Now())
		}
		return
	}
	for i, r := range batch {
		r.err = err
		if err == nil {
			r.outputs = outputs[i]
		}
	}
	b.finish(batch, began, took, parts)
}

// run runs a request by itself.
func (b *Batcher) run(r *request, began time.Time) {
	r.outputs, r.err = guarded(func() ([]oip.Tensor, error) { return b.model.Run(r.ctx, r.inputs) })
	took := time.Since(began)
	b.finish([]*request{r}, began, took, Parts{Ran: took})
}

// runJoined makes one inference of several requests and returns the outputs of each. It goes on until the last of them is not waited for.
func (b *Batcher) runJoined(batch []*request) (outputs [][]oip.Tensor, parts Parts, err error) {
	ctx, cancel := context.WithCancelCause(context.WithoutCancel(batch[0].ctx))
	defer cancel(nil)
	var waiting sync.Mutex
	left := len(batch)
	for _, r := range batch {
		stop := context.AfterFunc(r.ctx, func() {
			waiting.Lock()
			defer waiting.Unlock()
			if left--; left == 0 {
				cancel(context.Cause(r.ctx))
			}
		})
		defer stop()
	}
	outputs, err = guarded(func() ([][]oip.Tensor, error) {
		began := time.Now()
		joined := join(batch)
		ready := time.Now()
		all, err := b.model.Run(ctx, joined)
		if err != nil {
			return nil, err
		}
		ran := time.Now()
		apart, err := split(batch, all)
		parts = Parts{Joined: ready.Sub(began), Ran: ran.Sub(ready), Split: time.Since(ran)}
		return apart, err
	})
	return outputs, parts, err
}

// guarded calls the model: one that panics has failed.
func guarded[T any](call func() (T, error)) (result T, err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("the model panicked: %v", p)
		}
	}()
	return call()
}

func allGone(batch []*request) bool {
	return !slices.ContainsFunc(batch, func(r *request) bool { return r.ctx.Err() == nil })
}

// finish counts an inference that has ended, and tells those who wait for it.
func (b *Batcher) finish(batch []*request, began time.Time, took time.Duration, parts Parts) {
	b.mu.Lock()
	now := time.Now()
	b.usual += (took - b.usual) / 4
	b.counts.add(batch, began, took, parts, now)
	b.limit.add(len(batch), took)
	p99, changed := b.limit.adjust(now)
	rows := b.limit.rows
	b.mu.Unlock()
	if changed {
		b.opts.Logger.Info("the largest batch was changed", "rows", rows, "p99", p99, "target_p99", b.opts.TargetP99)
	}
	for _, r := range batch {
		if r.done != nil {
			close(r.done)
		}
	}
}

// Close unloads the model after the inferences under way have ended. Requests that wait fail with ErrClosed. Closing twice is no error.
func (b *Batcher) Close() error {
	b.mu.Lock()
	closed := b.closed
	b.closed = true
	for _, r := range b.queue {
		r.err = ErrClosed
		close(r.done)
	}
	b.queue = nil
	if b.gather != nil {
		b.gather.end()
	}
	b.mu.Unlock()
	b.running.Wait()
	if closed {
		return nil
	}
	return b.model.Close()
}
