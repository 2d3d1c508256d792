package gateway

import (
	"context"
	"time"
)

// sweeper remembers what Options.Sweep was told. Guarded by Gateway.mu.
type sweeper struct {
	leaving  int   // dropped releases whose inferences have not ended
	done     int64 // the revision that was swept for
	sweeping bool
	failedAt time.Time
}

// sweep calls Options.Sweep in the background once a revision is served and nothing uses what it dropped; the caller holds the lock.
func (g *Gateway) sweep(ctx context.Context) {
	s, doc := &g.sweeper, g.doc
	due := g.opts.Sweep != nil && doc.Revision > 0 && s.done != doc.Revision && !s.sweeping && s.leaving == 0 &&
		g.table != nil && g.table.revision == doc.Revision && time.Since(s.failedAt) >= retryAfter
	if !due {
		return
	}
	for version := range g.releases {
		if _, wanted := doc.Release(version); !wanted {
			return // it is about to be dropped
		}
	}
	s.sweeping = true
	g.background.Go(func() {
		err := g.opts.Sweep(ctx, doc)
		g.mu.Lock()
		defer g.mu.Unlock()
		s.sweeping = false
		switch {
		case ctx.Err() != nil:
		case err != nil:
			s.failedAt = time.Now()
			g.log.Error("the servers of dropped releases may not have been removed", "revision", doc.Revision, "error", err)
		default:
			s.done = doc.Revision
		}
		g.Poke()
	})
}
