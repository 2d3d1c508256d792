package record

import (
	"context"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/store"
)

// Accepted is a run that became its pipeline's last accepted one.
type Accepted struct {
	Run     string    `json:"run"`
	EndedAt time.Time `json:"ended_at"`
}

// newer reports whether a was accepted after b, which may be zero. It compares the times of their ends, then their names, so that all
// processes agree on the last one. A run whose end is in the future is older than any other.
func (a Accepted) newer(b Accepted, now time.Time) bool {
	switch c := a.EndedAt.Compare(b.EndedAt); {
	case b.Run == "":
		return true
	case a.isAhead(now) != b.isAhead(now):
		return b.isAhead(now)
	case c != 0:
		return c > 0
	}
	return a.Run > b.Run
}

// isAhead reports whether the end of a run is in the future. The clock was wrong then, and no later run would be newer.
func (a Accepted) isAhead(now time.Time) bool { return a.EndedAt.After(now.Add(clockSkew)) }

const (
	// clockSkew is the difference between clocks above which one of them is considered wrong.
	clockSkew = time.Hour
	// acceptedTime is the format of the end of a run at the start of an acceptance's key, so that keys are in the order of time.
	acceptedTime = "20060102T150405.000000000Z"
	// acceptancesLeft is how many acceptances are kept of a family of runs, and of all others. The last one would do; the others are for
	// readers that list the folder while it changes.
	acceptancesLeft = 4
)

// acceptancesOf begins the keys of a pipeline's acceptances.
func acceptancesOf(pipeline string) string { return store.AcceptancesPrefix + pipeline + "/" }

// Accept makes a run its pipeline's last accepted one, unless a newer one is already. Concurrent calls are safe: each acceptance is an object
// of its own, and the newest is the last accepted run. Accept only removes acceptances that newer ones replace, and those that were written
// with a wrong clock.
func Accept(ctx context.Context, s *store.Store, run RunRecord) error {
	mine := Accepted{Run: run.Run, EndedAt: run.EndedAt.UTC()}
	key := acceptancesOf(run.Pipeline) + mine.EndedAt.Format(acceptedTime) + "/" + run.Run + ".json"
	if err := s.PutJSON(ctx, key, mine, store.WriteOptions{}); err != nil {
		return err
	}
	keys, err := s.Keys(ctx, acceptancesOf(run.Pipeline)) // the newest is last
	if err != nil {
		return err
	}
	ahead := len(keys) // the index of the first key with a time in the future
	if now := time.Now(); !mine.isAhead(now) {
		ahead, _ = slices.BinarySearch(keys, acceptancesOf(run.Pipeline)+now.Add(clockSkew).UTC().Format(acceptedTime))
	}
	family, err := Family(ctx, s, run)
	if err != nil {
		return err
	}
	replaced, left := keys[ahead:], map[bool]int{}
	for _, older := range slices.Backward(keys[:ahead]) { // runs of a family need those of another
		within := InFamily(strings.TrimSuffix(path.Base(older), ".json"), family)
		if left[within]++; left[within] > acceptancesLeft {
			replaced = append(slices.Clip(replaced), older)
		}
	}
	for _, old := range replaced {
		if err := s.Driver().Delete(ctx, old); err != nil {
			return err
		}
	}
	return nil
}

// Family returns the run at the top of a run's chain of parents, which begins the names of all that are below it.
func Family(ctx context.Context, s *store.Store, run RunRecord) (string, error) {
	if run.Parent.Run == "" {
		return run.Run, nil
	}
	root, err := LoadRoot(ctx, s, run.Run)
	return root.Run, err
}

// InFamily reports whether a run belongs to a family.
func InFamily(run, family string) bool { return run == family || strings.HasPrefix(run, family+".") }

// LastAccepted returns the last accepted run of a pipeline, except those of a family, if one is given. It is zero if there is none.
func LastAccepted(ctx context.Context, s *store.Store, pipeline, except string) (last Accepted, err error) {
	keys, err := s.Keys(ctx, acceptancesOf(pipeline))
	if err != nil {
		return last, err
	}
	found, err := store.Records[Accepted](ctx, s, keys)
	if err != nil {
		return last, err
	}
	now := time.Now()
	for _, one := range found {
		if one != nil && one.newer(last, now) && (except == "" || !InFamily(one.Run, except)) {
			last = *one
		}
	}
	return last, nil
}
