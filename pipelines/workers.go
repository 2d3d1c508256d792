package pipelines

import (
	"context"
	"encoding/json"
	"fmt"
	"runtime/debug"
	"sync"

	"github.com/apache/beam/sdks/v2/go/pkg/beam"
	"golang.org/x/sync/errgroup"

	"github.com/sluiceml/sluice/pipelines/account"
	"github.com/sluiceml/sluice/pipelines/spill"
)

// workersFn is what the DoFns share that have workers do the work of their elements, several at a time. What each came to is kept until the
// DoFn emits it: only the goroutine that Beam calls the DoFn in may call an emitter.
type workersFn struct {
	// Job is the job's JSON. Beam carries the exported fields.
	Job []byte

	job     Job
	session *session
	running *errgroup.Group
	ctx     context.Context // ends when a worker has failed

	mu   sync.Mutex
	done []outcome
}

// outcome is what a worker came to: what is to be emitted, by key, and counts.
type outcome struct {
	packs  []spill.Pack
	counts account.Ledger
}

// Setup finds the session.
func (f *workersFn) Setup(context.Context) error {
	if err := json.Unmarshal(f.Job, &f.job); err != nil {
		return err
	}
	f.session = sessionOf(f.job.WorkDir)
	return nil
}

// StartBundle starts the workers.
func (f *workersFn) StartBundle(ctx context.Context, _ func(string, []byte)) {
	f.running, f.ctx = errgroup.WithContext(ctx)
	f.running.SetLimit(f.job.Parallelism)
}

// FinishBundle waits for the workers and emits the rest.
func (f *workersFn) FinishBundle(ctx context.Context, emit func(string, []byte)) error {
	err := f.running.Wait()
	f.emit(ctx, emit)
	return err
}

// do has a worker work, as soon as one is free, and keeps its counts under a name of the work's own. Once one has failed the others'
// contexts are canceled, and nothing more is begun.
func (f *workersFn) do(name string, work func(ctx context.Context) (outcome, error)) {
	f.running.Go(func() (err error) {
		defer func() {
			if p := recover(); p != nil {
				err = fmt.Errorf("panic in %s: %v\n%s", name, p, debug.Stack())
			}
			err = f.session.failed(err)
		}()
		if err := f.ctx.Err(); err != nil {
			return err
		}
		result, err := work(f.ctx)
		if err != nil {
			return err
		}
		if err := result.counts.Keep(f.job.WorkDir, name); err != nil {
			return err
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		f.done = append(f.done, result)
		return nil
	})
}

// group has a worker work on what is grouped under a key, when there is room for it in memory, and emits what others have finished.
func (f *workersFn) group(
	ctx context.Context, name string, packed func(*[]byte) bool, emit func(string, []byte), work func(context.Context, []spill.Reference) (outcome, error),
) error {
	refs, err := spill.Collect(packed)
	if err != nil {
		return f.session.failed(err)
	}
	f.do(name, func(ctx context.Context) (outcome, error) {
		done, err := f.session.turn(ctx)
		if err != nil {
			return outcome{}, err
		}
		defer done()
		return work(ctx, refs)
	})
	f.emit(ctx, emit)
	return nil
}

// emit emits what is done, and adds the counts to Beam's.
func (f *workersFn) emit(ctx context.Context, emit func(string, []byte)) {
	f.mu.Lock()
	done := f.done
	f.done = nil
	f.mu.Unlock()
	for _, o := range done {
		for _, p := range o.packs {
			emit(p.Key, p.Data)
		}
		for at, n := range o.counts {
			beam.NewCounter(at[0], at[1]).Inc(ctx, n)
		}
	}
}
