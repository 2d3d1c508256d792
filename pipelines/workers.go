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

// workersFn is what DoFns that process several elements at a time with a pool of workers have in common. Results are kept until the DoFn
// emits them: only the goroutine in which Beam calls the DoFn may call an emitter.
type workersFn struct {
	// Job is the job as JSON. Beam serializes exported fields.
	Job []byte

	job     Job
	session *session
	running *errgroup.Group
	ctx     context.Context // canceled when a worker has failed

	mu   sync.Mutex
	done []outcome
}

// outcome is the result of a worker: packs to emit, and counts.
type outcome struct {
	packs  []spill.Pack
	counts account.Ledger
}

// Setup decodes the job and finds its session.
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

// do runs work as soon as a worker is free, and stores its counts under name, which must be unique to the work. When one worker fails, the
// others' contexts are canceled and no more work starts.
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

// group runs work on the marks that are grouped under a key, as soon as memory allows, and emits the results that other workers have
// finished.
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

// emit emits the finished results, and adds their counts to Beam's counters.
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
