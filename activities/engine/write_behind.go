package engine

import (
	"context"
	"sync"

	"go.temporal.io/sdk/activity"
)

// writeBehind performs writes that nobody waits for until Sync. What is not written when the process ends can be written again: see Record.
type writeBehind struct {
	mu   sync.Mutex
	open map[string]*sync.WaitGroup // by run
}

// do runs write in the background.
func (b *writeBehind) do(ctx context.Context, run string, write func(context.Context) error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.open == nil {
		b.open = map[string]*sync.WaitGroup{}
	}
	if b.open[run] == nil {
		b.open[run] = &sync.WaitGroup{}
	}
	ctx = context.WithoutCancel(ctx)
	b.open[run].Go(func() {
		if err := write(ctx); err != nil && activity.IsActivity(ctx) {
			activity.GetLogger(ctx).Warn("a record has not been written yet", "run", run, "error", err)
		}
	})
}

// wait returns when all writes of a run are done.
func (b *writeBehind) wait(run string) {
	b.mu.Lock()
	group := b.open[run]
	delete(b.open, run)
	b.mu.Unlock()
	if group != nil {
		group.Wait()
	}
}
