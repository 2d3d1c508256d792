package gateway

import (
	"net/http"
	"time"

	"github.com/sluiceml/sluice/serving/oip"
)

const (
	// Lease is how long a gateway acts on what it has read. After that time a change of the routing is in effect, whatever the state of a
	// gateway: a gateway that was frozen, or cannot reach the store, serves only the stable release when it wakes up.
	Lease = 5 * time.Second
	// readTimeout bounds one look at the document, so that one that hangs leaves time for others.
	readTimeout = 2 * time.Second
	// firstReadTimeout bounds the first one, which looks for the newest of all revisions.
	firstReadTimeout = 30 * time.Second
	// uncompared is the revision of requests that chance did not give to a release.
	uncompared = -1
)

// lapsed reports whether the gateway cannot know whether the document it serves is current; the caller holds the lock.
func (g *Gateway) lapsed() bool { return age(g.current, time.Now()) > Lease }

// age is how long ago a time was, by whichever clock says more: the one that is never set stands still while a machine sleeps.
func age(t, now time.Time) time.Duration { return max(now.Sub(t), now.Round(0).Sub(t.Round(0))) }

// assignStable gives a request to the stable release of a rollout; the caller holds the lock.
func (g *Gateway) assignStable(stable, wanted string) (*assignment, error) {
	r := g.releases[stable]
	if r == nil || r.state != Ready || wanted != "" && wanted != stable {
		e := &oip.Error{
			Status: http.StatusServiceUnavailable, RetryAfter: loadingAgain,
			Message: "this gateway of " + g.opts.Target + " could not read what to serve for " + Lease.String() + ", during a rollout",
		}
		if stable != "" {
			e.Message += "; it serves release " + stable + " only"
		}
		return nil, e
	}
	r.inflight.Add(1)
	return &assignment{release: r, revision: uncompared, counted: wanted == "", outputs: r.upstream.Outputs(), rules: r.Compare}, nil
}
