package pipelines

import (
	"context"
	"sync"

	"golang.org/x/sync/errgroup"
)

// workers do the work of a DoFn's elements, several at a time, and keep what each came to until the DoFn emits it: only the goroutine that
// Beam calls the DoFn in may call an emitter. Start them for each bundle.
type workers[T any] struct {
	running *errgroup.Group
	ctx     context.Context // ends when one has failed

	mu   sync.Mutex
	done []T
}

// start makes room for n at a time.
func (w *workers[T]) start(ctx context.Context, n int) {
	w.running, w.ctx = errgroup.WithContext(ctx)
	w.running.SetLimit(n)
}

// do has a worker work, as soon as one is free. Once one has failed the others' contexts are canceled, and nothing more is begun.
func (w *workers[T]) do(work func(ctx context.Context) (T, error)) {
	w.running.Go(func() error {
		if err := w.ctx.Err(); err != nil {
			return err
		}
		result, err := work(w.ctx)
		if err != nil {
			return err
		}
		w.mu.Lock()
		defer w.mu.Unlock()
		w.done = append(w.done, result)
		return nil
	})
}

// take returns the results since it was last called.
func (w *workers[T]) take() []T {
	w.mu.Lock()
	defer w.mu.Unlock()
	done := w.done
	w.done = nil
	return done
}

// wait waits for all, and returns the first error.
func (w *workers[T]) wait() error { return w.running.Wait() }
