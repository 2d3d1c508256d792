package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

const (
	// firstRetry and lastRetry are the pauses between tries to reach a store that is away.
	firstRetry = 200 * time.Millisecond
	lastRetry  = 5 * time.Second
	// noticed is how long a store may be silent before that is said.
	noticed = 10 * time.Second
)

// Patience makes a store wait for its medium.
type Patience struct {
	// Limit is for how long what cannot be reached is tried again: ErrUnavailable after that.
	Limit time.Duration
	// Waiting, unless it is nil, is told when the caller of ctx begins to wait, and why, and returns what is called when the wait is over.
	Waiting func(ctx context.Context, why error) (over func())
}

// Patient returns the store as one that waits for a medium that cannot be reached. What is refused, or is wrong, fails at once. A write
// waits only where its content can be read again (io.Seeker).
func (s *Store) Patient(p Patience) *Store {
	if d, ok := s.driver.(*bucketDriver); ok {
		return New(&bucketDriver{bucket: d.bucket, at: d.at, patience: &p}, s.url).Near(s.near)
	}
	return s // a file system is there or fails
}

// errSilent is why a caller waits of whom no try has ended yet.
var errSilent = errors.New("no answer yet")

// retry does op, and again while it says ErrUnavailable. A nil p does it once.
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

// wait tells once that a caller waits, and once that the wait is over.
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
