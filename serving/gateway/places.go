package gateway

import (
	"context"
	"math"
	"sync"
	"sync/atomic"

	"github.com/sluiceml/sluice/serving/oip"
)

// chancePlaces are for what chance gives a release beyond its share. With them placesOf is more than five standard deviations above what
// one of two equal releases has of a gateway that is full, whatever the share.
const chancePlaces = 16

// share is what a release gets of the traffic, and of the places among the inferences under way.
type share struct {
	*release // nil for one that is missing
	weight   float64
	places   int64         // that it may have
	taken    *atomic.Int64 // of them, by requests that chance gave it, or their keys
}

// placesOf is how many of all places a release may have while one is tried: as many as it had if it took twice as long as the other, and
// those for chance. One that is slower than that must not take the places of the other.
func placesOf(weight float64) int64 {
	return min(maxInFlight, int64(math.Ceil(2*weight/(1+weight)*maxInFlight))+chancePlaces)
}

// statusLeft is what servers call a client that left before its answer. It is in logs only.
const statusLeft = 499

// errLeft ends a request whose client has disconnected.
var errLeft = &oip.Error{Status: statusLeft, Message: "the client has disconnected"}

// enter takes a place among the inferences under way; leave gives it back, and so does a client that leaves.
func (g *Gateway) enter(client context.Context) (leave func(), err error) {
	select {
	case g.places <- struct{}{}:
		return leaving(client, func() { <-g.places }), nil
	default:
		return nil, busy("too many requests are in flight")
	}
}

// leaving calls leave once: when the client has left, or by the function that it returns.
func leaving(client context.Context, leave func()) func() {
	leave = sync.OnceFunc(leave)
	stop := context.AfterFunc(client, leave)
	return func() { stop(); leave() }
}

// abandon ends a request whose client leaves. In a rollout it continues, without a place: a client that gives up on a slow release would
// otherwise hide how slow it is. Only so many do, for the work is for nobody. The result is called at the request's end.
func (g *Gateway) abandon(client context.Context, a *assignment, cancel context.CancelCauseFunc) (ended func()) {
	continues, decided := false, make(chan struct{})
	stop := context.AfterFunc(client, func() {
		defer close(decided)
		if a.trial {
			select {
			case g.abandoned <- struct{}{}:
				continues = true
				return
			default:
			}
		}
		cancel(errLeft)
	})
	return func() {
		if stop() {
			return
		}
		if <-decided; continues {
			<-g.abandoned
		}
	}
}

// enterShare takes a place of those that the release of a request may have; leave gives it back. That there is none is the release's
// failure, which is too slow for its share of the traffic, whereas one that enter does not find is nobody's.
func (g *Gateway) enterShare(client context.Context, a *assignment) (leave func(), err error) {
	s := a.share
	if s == nil {
		return func() {}, nil // it was named, or there is no other
	}
	leave = func() { s.taken.Add(-1) }
	if s.taken.Add(1) <= s.places {
		return leaving(client, leave), nil
	}
	leave()
	a.dropShadow()
	g.counters.request(a, requestOutcome{outcome: failure})
	g.log.Warn("a request found no place", "release", a.Version, "places", s.places)
	return nil, busy("too many requests of release %s are in flight for its share of the traffic", a.Version)
}
