package routing

import (
	"context"
	"fmt"
	"time"

	"github.com/sluiceml/sluice/internal/poll"
	"github.com/sluiceml/sluice/store"
)

const lookEvery = 500 * time.Millisecond // while a gateway is behind

// AwaitRevision waits until no gateway of a target sends requests by an earlier revision. A gateway that has fallen silent is not waited for after
// its lease. One that continues for longer, for example because a release does not load, is an error.
func AwaitRevision(ctx context.Context, s *store.Store, target string, revision int64, lease time.Duration) error {
	began := time.Now()
	beats := map[string]int64{} // as they were seen first
	for now := range poll.Every(ctx, lookEvery) {
		reports, err := ListReports(ctx, s, target)
		if err != nil {
			return err
		}
		behind, going := false, Report{}
		for _, r := range reports {
			if r.Closed || r.Revision >= revision {
				continue
			}
			behind = true
			if first, seen := beats[r.Epoch]; !seen {
				beats[r.Epoch] = r.Beat
			} else if r.Beat > first {
				going = r
			}
		}
		switch {
		case !behind:
			return nil
		case now.Sub(began) <= lease:
		case going.Epoch != "":
			return fmt.Errorf("the gateway on %s still serves revision %d of the routing: its models stay loaded until it serves revision %d or has ended",
				going.Host, going.Revision, revision)
		default:
			return nil
		}
	}
	return context.Cause(ctx)
}
