package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// firstRetry and lastRetry are the first and the longest pause between attempts to reach an unavailable store.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Second
	// noticed is how long an operation may take before Patience.Waiting is called.
	noticed = 10 * time.Second
)

// Patience says how a store waits for a medium that cannot be reached.
type Patience struct {
	// Limit is how long to retry. After that the error is ErrUnavailable.
	Limit time.Duration
	// Waiting, if not nil, is called with the reason when the caller of ctx begins to wait. The function that it returns is called when the
	// wait is over.
	Waiting func(ctx context.Context, why error) (over func())
}

// Patient returns a Store that waits for a bucket that cannot be reached. All other errors are returned at once. A write waits only if its
// content can be read again (io.Seeker). A store that is not in a bucket is returned as it is.
func (s *Store) Patient(p Patience) *Store {
	if d, ok := s.driver.(*bucketDriver); ok {
		return New(&bucketDriver{bucket: d.bucket, at: d.at, patience: &p}, s.url).Near(s.near)
	}
	return s // there is nothing to wait for in a file system
}

// errSilent is the reason for a wait while no attempt has ended yet.
var errSilent = errors.New("no answer yet")

// retry calls op until it returns something other than ErrUnavailable, or the limit is reached. A nil p calls it once.
func (p *Patience) retry(ctx context.Context, op func() error) error {
	if p == nil {
		return op()
	}
	w := &wait{p: p, ctx: ctx}
	defer w.end()
	silent := time.AfterFunc(noticed, func() { w.begin(errSilent) })
	defer silent.Stop()
	begun := time.Now()
	for pause := firstRetry; ; pause = min(2*pause, lastRetry) {
		err := op()
		if !errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		if left := p.Limit - time.Since(begun); left < pause {
			return fmt.Errorf("%w (waited %v for it)", err, time.Since(begun).Round(time.Second))
		}
		w.begin(err)
		select {
		case <-time.After(pause):
		case <-ctx.Done():
			return err
		}
	}
}

// wait calls Patience.Waiting at most once, and once the wait is over the function that Waiting returned.
type wait struct {
	p   *Patience
	ctx context.Context

	mu    sync.Mutex
	over  func()
	ended bool
}

func (w *wait) begin(why error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.p.Waiting != nil && w.over == nil && !w.ended {
		w.over = w.p.Waiting(w.ctx, why)
	}
}

func (w *wait) end() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.ended = true; w.over != nil {
		w.over()
	}
}
