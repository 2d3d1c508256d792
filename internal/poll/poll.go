// Package poll asks again and again.
package poll

import (
	"context"
	"iter"
	"time"
)

// Every yields now, and then every d until ctx ends. A time that passes while the body of the loop is at work is left out.
func Every(ctx context.Context, d time.Duration) iter.Seq[time.Time] {
	return func(yield func(time.Time) bool) {
		ticks := time.Tick(d)
		for now := time.Now(); yield(now); {
			select {
			case <-ctx.Done():
				return
			case now = <-ticks:
			}
		}
	}
}
