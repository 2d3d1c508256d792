package gateway

import (
	"math"
	"sync/atomic"
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

// enter takes a place among the inferences under way; leave gives it back.
func (g *Gateway) enter() (leave func(), err error) {
	select {
	case g.places <- struct{}{}:
		return func() { <-g.places }, nil
	default:
		return nil, busy("too many requests are in flight")
	}
}

// enterShare takes a place of those that the release of a request may have; leave gives it back. That there is none is the release's
// failure, which is too slow for its share of the traffic, whereas one that enter does not find is nobody's.
func (g *Gateway) enterShare(a *assignment) (leave func(), err error) {
	s := a.share
	if s == nil {
		return func() {}, nil // it was named, or there is no other
	}
	leave = func() { s.taken.Add(-1) }
	if s.taken.Add(1) <= s.places {
		return leave, nil
	}
	leave()
	a.dropShadow()
	g.counters.request(a, requestOutcome{outcome: failure})
	g.log.Warn("a request found no place", "release", a.Version, "places", s.places)
	return nil, busy("too many requests of release %s are in flight for its share of the traffic", a.Version)
}
