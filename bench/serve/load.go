package main

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/bench/internal/compare"
)

// measureFor is how long each load lasts, after a tenth of that to warm up.
const measureFor = 10 * time.Second

// ask makes one inference.
type ask func(ctx context.Context) error

// errBusy says that a server has no place for a request now: 429.
var errBusy = errors.New("the server has too many requests")

// askAgain spaces the attempts of a request that is refused with errBusy. A server says in whole seconds when to come back, which would be
// all that is measured.
const askAgain = 10 * time.Millisecond

// insist asks until there is another answer than errBusy, as clients do, for at most as long as a request may take. It counts the refusals.
func (do ask) insist(ctx context.Context, refused *atomic.Int64) error {
	began := time.Now()
	for {
		err := do(ctx)
		if !errors.Is(err, errBusy) || time.Since(began) > answerWithin {
			return err
		}
		refused.Add(1)
		time.Sleep(askAgain)
	}
}

// tell says how many requests a load had refused.
func tell(refused *atomic.Int64) {
	if n := refused.Load(); n > 0 {
		compare.Say("%d answers were 429; the requests were repeated, and their times go on until they were answered", n)
	}
}

// load is what came of a load.
type load struct {
	took   []time.Duration // sorted
	lasted time.Duration
}

func (l load) rate() float64 { return float64(len(l.took)) / l.lasted.Seconds() }

func (l load) quantile(q float64) float64 {
	return float64(l.took[int(q*float64(len(l.took)-1))]) / float64(time.Millisecond)
}

// closedLoop asks with some clients, each of which asks again when it has its answer.
func closedLoop(ctx context.Context, clients int, do ask) (load, error) {
	var refused atomic.Int64
	defer func() { tell(&refused) }()
	one := func(lasts time.Duration) (load, error) {
		var mu sync.Mutex
		var all load
		var failed error
		began := time.Now()
		var group sync.WaitGroup
		for range clients {
			group.Go(func() {
				var took []time.Duration
				var err error
				for err == nil && time.Since(began) < lasts {
					asked := time.Now()
					err = do.insist(ctx, &refused)
					took = append(took, time.Since(asked))
				}
				mu.Lock()
				defer mu.Unlock()
				all.took, failed = append(all.took, took...), errors.Join(failed, err)
			})
		}
		group.Wait()
		all.lasted = time.Since(began)
		slices.Sort(all.took)
		return all, failed
	}
	if _, err := one(measureFor / 10); err != nil {
		return load{}, err
	}
	return one(measureFor)
}

// openLoop asks so many times a second, at random times, whether or not there are answers. A request's time begins when it was due.
func openLoop(ctx context.Context, rate float64, do ask) (load, error) {
	var refused atomic.Int64
	defer func() { tell(&refused) }()
	chance := rand.New(rand.NewPCG(1, 1)) //nolint:gosec // the same load for everybody
	var mu sync.Mutex
	var all load
	var failed error
	var group sync.WaitGroup
	began := time.Now()
	for due := began; time.Since(began) < measureFor; {
		due = due.Add(time.Duration(chance.ExpFloat64() / rate * float64(time.Second)))
		time.Sleep(time.Until(due))
		group.Go(func() {
			err := do.insist(ctx, &refused)
			took := time.Since(due)
			mu.Lock()
			defer mu.Unlock()
			all.took, failed = append(all.took, took), errors.Join(failed, err)
		})
	}
	group.Wait()
	all.lasted = time.Since(began)
	slices.Sort(all.took)
	return all, failed
}
