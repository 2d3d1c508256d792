package servingtest

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/stats"
	"github.com/sluiceml/sluice/store"
)

// Neighbour is another gateway of a target, as far as the store shows it.
type Neighbour struct {
	Report routing.Report
	t      *testing.T
	store  *store.Store
}

// NewNeighbour makes one that has read one revision of the target's document, and serves another.
func NewNeighbour(t *testing.T, s *store.Store, target string, read, serving int64) *Neighbour {
	snapshot := stats.Snapshot{Target: target, Epoch: "another", Revision: serving}
	return &Neighbour{Report: routing.Report{Snapshot: snapshot, Host: "there", Read: read}, t: t, store: s}
}

// Beat reports once.
func (n *Neighbour) Beat() {
	n.Report.Beat++
	if err := routing.PutReport(n.t.Context(), n.store, n.Report); err != nil {
		n.t.Error(err)
	}
}

// During reports once, and then again and again while f runs.
func (n *Neighbour) During(f func() error) error {
	n.Beat()
	ctx, stop := context.WithCancel(n.t.Context())
	var beating sync.WaitGroup
	beating.Go(func() {
		for range poll.Every(ctx, 10*time.Millisecond) {
			n.Beat()
		}
	})
	defer beating.Wait()
	defer stop()
	return f()
}
