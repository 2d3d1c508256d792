// Package ledger keeps what the nodes of trainings cost: who they were, when their pools began to pay for them, and when they were released
// or lost. The worker's activities write it, so that it holds whatever becomes of the workflow, and also nodes that no generation ran on.
//
// Each gang that was started, wholly or in part, has an object of its own in the store, under checkpoints/<run>/<step>/nodes/g<g>/.
package ledger

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"path"
	"slices"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/training"
)

// Entry is a gang that was paid for.
type Entry struct {
	// Generation is the one that it was bought for.
	Generation int    `json:"generation"`
	Pool       string `json:"pool"`
	// Gang has the price, and the times of the nodes. Those that may still be there have no end.
	Gang training.Gang `json:"gang"`
	// PriceUnknown: nobody says what a node costs.
	PriceUnknown bool `json:"price_unknown,omitempty"`
	// Whole: the gang was handed out, and did not fail to start.
	Whole bool `json:"whole,omitempty"`
}

// Lost says which nodes of a gang were seen to be gone before it was released, and when.
type Lost struct {
	Queues []string  `json:"queues,omitempty"`
	At     time.Time `json:"at,omitzero"`
}

func folder(run, step string) string {
	return path.Join(store.CheckpointsPrefix, run, step, "nodes") + "/"
}

func generation(k training.Key) string {
	return folder(k.Run, k.Step) + "g" + strconv.Itoa(k.Generation) + "/"
}

// Load returns all of a step's gangs, by generation and time.
func Load(ctx context.Context, s *store.Store, run, step string) ([]Entry, error) {
	return load(ctx, s, folder(run, step))
}

func load(ctx context.Context, s *store.Store, prefix string) ([]Entry, error) {
	all, err := store.RecordsIn[Entry](ctx, s, prefix, nil)
	all = slices.DeleteFunc(all, func(e Entry) bool { return len(e.Gang.Nodes) == 0 })
	slices.SortFunc(all, func(a, b Entry) int {
		return cmp.Or(cmp.Compare(a.Generation, b.Generation), a.began().Compare(b.began()), cmp.Compare(a.Gang.Nodes[0].Queue, b.Gang.Nodes[0].Queue))
	})
	return all, err
}

// put writes an entry. A queue is one node's for good, so that nobody else's entry has its name.
func put(ctx context.Context, s *store.Store, k training.Key, e Entry) error {
	name := sha256.Sum256([]byte(e.Gang.Nodes[0].Queue))
	return s.PutJSON(ctx, generation(k)+hex.EncodeToString(name[:8])+".json", e, store.WriteOptions{})
}

// Open enters a gang that was handed out. What its pool has had of the key before ended at the latest when this one began, for it has one
// gang at a time. It returns what those gangs of the key have cost that have ended.
func Open(ctx context.Context, s *store.Store, k training.Key, e Entry) (fault.Costs, error) {
	e.Generation, e.Whole = k.Generation, true
	known, err := load(ctx, s, generation(k))
	if err != nil || slices.ContainsFunc(known, func(old Entry) bool { return old.has(e.Gang.Nodes[0].Queue) }) {
		return paid(known), err // an earlier attempt of the activity has entered it
	}
	var before []Entry
	for _, gang := range e.Gang.Ended {
		before = append(before, Entry{Gang: gang, PriceUnknown: e.PriceUnknown})
	}
	if known, err = closeAll(ctx, s, k, e.Pool, known, before, Lost{}, e.began()); err != nil {
		return fault.Costs{}, err
	}
	return paid(known), put(ctx, s, k, e)
}

// Close enters that a pool has nothing of a key any more: the gangs that it ended, as far as it knows them, and the ends of all that was
// open, at the latest now. It may be called again. It returns what the gangs of the key have cost, those of other pools included.
func Close(ctx context.Context, s *store.Store, k training.Key, pool string, ended []Entry, lost Lost, now time.Time) (fault.Costs, error) {
	known, err := load(ctx, s, generation(k))
	if err == nil {
		known, err = closeAll(ctx, s, k, pool, known, ended, lost, now)
	}
	return paid(known), err
}

// closeAll ends the open ones of a pool among the gangs that are known, and adds those that ended and are not. It returns all.
func closeAll(ctx context.Context, s *store.Store, k training.Key, pool string, known, ended []Entry, lost Lost, now time.Time) ([]Entry, error) {
	ends := endsOf(ended, lost)
	for i := range known {
		if e := &known[i]; e.Pool == pool && e.close(ends, now) {
			if err := put(ctx, s, k, *e); err != nil {
				return nil, err
			}
		}
	}
	all := slices.Clone(known)
	for _, e := range ended {
		e.Generation, e.Pool = k.Generation, pool
		e.Gang.Nodes = slices.DeleteFunc(slices.Clone(e.Gang.Nodes), func(n training.Node) bool {
			return n.BeganAt.IsZero() || slices.ContainsFunc(known, func(old Entry) bool { return old.has(n.Queue) })
		})
		if len(e.Gang.Nodes) == 0 {
			continue
		}
		e.close(ends, now)
		if err := put(ctx, s, k, e); err != nil {
			return nil, err
		}
		all = append(all, e)
	}
	return all, nil
}

// endsOf are the ends of nodes, by queue: the earlier where both the pool and the workflow have seen one.
func endsOf(ended []Entry, lost Lost) map[string]time.Time {
	ends := map[string]time.Time{}
	for _, e := range ended {
		for _, n := range e.Gang.Nodes {
			ends[n.Queue] = n.EndedAt
		}
	}
	for _, queue := range lost.Queues {
		if end := ends[queue]; end.IsZero() || lost.At.Before(end) {
			ends[queue] = lost.At
		}
	}
	return ends
}

// close sets the ends that are missing, and reports whether any was.
func (e *Entry) close(ends map[string]time.Time, now time.Time) (changed bool) {
	e.Gang.Nodes = slices.Clone(e.Gang.Nodes)
	for i := range e.Gang.Nodes {
		n := &e.Gang.Nodes[i]
		end := ends[n.Queue]
		if end.IsZero() {
			end = now
		}
		if n.EndedAt.IsZero() {
			n.EndedAt, changed = end, true
		}
		if n.EndedAt.Before(n.BeganAt) { // by another clock
			n.EndedAt = n.BeganAt
		}
	}
	return changed
}

// has reports whether a node is one of the gang's.
func (e *Entry) has(queue string) bool {
	return slices.ContainsFunc(e.Gang.Nodes, func(n training.Node) bool { return n.Queue == queue })
}

// began is when the first node did.
func (e *Entry) began() time.Time {
	return slices.MinFunc(e.Gang.Nodes, func(a, b training.Node) int { return a.BeganAt.Compare(b.BeganAt) }).BeganAt
}

// paid is what the nodes that have ended have cost.
func paid(entries []Entry) fault.Costs {
	var sum fault.Costs
	for _, e := range entries {
		for _, n := range e.Gang.Nodes {
			if !n.EndedAt.IsZero() {
				sum.USD += n.EndedAt.Sub(n.BeganAt).Hours() * e.Gang.USDPerHour
			}
		}
		sum.Unknown = sum.Unknown || e.PriceUnknown
	}
	return sum
}
