package gateway

import (
	"cmp"
	"math/rand/v2"
	"net/http"
	"slices"
	"sync/atomic"
	"time"

	"github.com/sluiceml/sluice/serving/answer"
	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
)

// table is one routing revision as it is served. It is immutable.
type table struct {
	revision int64
	releases []weighted
	missing  []routing.Release // those with traffic that failed to load: their share is not served
	shadow   *release
	share    float64 // of requests that are mirrored
	// rules compare answers: those of the release that is tried, else of the one that serves.
	rules     answer.Rules
	lossBound float64
	// trial: a rollout is trying a release beside the one that is stable; see Gateway.lapsed.
	trial     bool
	stable    string
	candidate string
	sticky    *routing.Sticky
	// shares are what is drawn from: the candidate's first, so that with a larger share it keeps the keys that it had.
	shares []share
}

type weighted struct {
	*release
	weight float64
}

func (t *table) uses(r *release) bool {
	return t != nil && (t.shadow == r || t.trial && t.stable == r.Version || slices.ContainsFunc(t.releases, func(w weighted) bool { return w.release == r }))
}

func (t *table) equal(other *table) bool {
	return t != nil && other != nil && t.revision == other.revision && t.shadow == other.shadow && slices.Equal(t.releases, other.releases)
}

// pick is the share that a request falls in; nil for that of a release that is missing, which nobody else gets: a candidate that has a
// tenth of the traffic must not get all of it because the release it is compared with is not there.
func (t *table) pick(d drawn) *share {
	if len(t.shares) == 0 {
		return nil
	}
	at := t.place(d)
	picked := len(t.shares) - 1 // where rounding leaves it open
	for i, share := range t.shares {
		if at < share.weight {
			picked = i
			break
		}
		at -= share.weight
	}
	if t.shares[picked].release == nil {
		return nil
	}
	return &t.shares[picked]
}

// give gives a release its share, the next one or, if it is the candidate, the first.
func (t *table) give(wanted routing.Release, r *release) {
	next := share{release: r, weight: wanted.Weight, places: maxInFlight, taken: &atomic.Int64{}}
	if t.trial {
		next.places = placesOf(wanted.Weight)
	}
	at := len(t.shares)
	if wanted.Version == t.candidate {
		at = 0
	}
	t.shares = slices.Insert(t.shares, at, next)
}

// inherit leaves the requests that are under way from the table before their places.
func (t *table) inherit(before *table) {
	if before == nil {
		return
	}
	for i, s := range t.shares {
		had := slices.IndexFunc(before.shares, func(b share) bool { return b.release != nil && b.release == s.release })
		if had >= 0 {
			t.shares[i].taken = before.shares[had].taken
		}
	}
}

func (t *table) heaviest() *release {
	return slices.MaxFunc(t.releases, func(a, b weighted) int { return cmp.Compare(a.weight, b.weight) }).release
}

func (t *table) weights() map[string]float64 {
	weights := make(map[string]float64, len(t.releases))
	for _, w := range t.releases {
		weights[w.Version] = w.weight
	}
	return weights
}

// active are the versions that get requests, copies included.
func (t *table) active() []string {
	var versions []string
	for _, w := range t.releases {
		versions = append(versions, w.Version)
	}
	if t.shadow != nil && !slices.Contains(versions, t.shadow.Version) {
		versions = append(versions, t.shadow.Version)
	}
	return versions
}

// complete reports whether the whole of the traffic is served.
func (t *table) complete() bool { return t != nil && len(t.releases) > 0 && len(t.missing) == 0 }

// switchTable serves the document's newest revision, if all it needs has been loaded or has failed to. When a release with traffic has
// failed, what serves goes on serving if it serves all traffic; else, as after a restart, the share of that release is not served. What
// an incomplete table serves is no comparison, so it is not counted for its revision.
func (g *Gateway) switchTable() {
	next := &table{revision: g.doc.Revision, trial: g.doc.Candidate != "", stable: g.doc.Stable, candidate: g.doc.Candidate, sticky: g.doc.Sticky}
	if judged, ok := g.doc.Judged(); ok {
		next.rules, next.lossBound = judged.Compare, judged.LossBound
	}
	for _, wanted := range g.doc.Releases {
		r := g.releases[wanted.Version]
		isShadow := g.doc.Shadow != nil && g.doc.Shadow.Version == wanted.Version
		if wanted.Weight == 0 && !isShadow {
			continue
		}
		switch {
		case r.state == Loading:
			return
		case r.state == Failed:
			if wanted.Weight > 0 {
				next.missing = append(next.missing, wanted)
				next.give(wanted, nil)
			}
			continue
		case isShadow:
			next.shadow, next.share = r, g.doc.Shadow.Share
		}
		if wanted.Weight > 0 {
			next.releases = append(next.releases, weighted{r, wanted.Weight})
			next.give(wanted, r)
		}
	}
	if !g.followed || next.equal(g.table) || len(next.missing) > 0 && g.table.complete() {
		return
	}
	next.inherit(g.table)
	g.table = next
	if len(next.missing) > 0 {
		g.log.Error("part of the traffic is not served", "revision", next.revision, "error", g.trouble())
		return
	}
	g.counters.begin(next.revision, next.weights(), next.keyed())
	g.counters.keep(g.doc.Releases)
	g.log.Info("routing revision in effect", "revision", next.revision)
}

// assignment is a release that was given a request, and must be told when it is done with it.
type assignment struct {
	*release
	revision int64
	// counted: chance chose the release, or the request's key, so its outcome may be compared.
	counted bool
	// trial: a rollout is trying a release.
	trial bool
	drawn drawn
	// share has the places that the request is to take one of; nil where neither chance nor its key chose from the table.
	share *share
	// outputs describes what labels are compared with: of the release that was named, else of the one with the most traffic, so that a
	// label is refused or taken whatever release chance chooses.
	outputs []oip.TensorMetadata
	// rules compare its answer with the label, and with that of a shadow release.
	rules answer.Rules
	// lossBound is routing.Release.LossBound.
	lossBound float64
	// shadow is the release that gets a copy; nil for none.
	shadow *release
}

// dropShadow lets go of the release that was to get a copy.
func (a *assignment) dropShadow() {
	if a.shadow != nil {
		a.shadow.inflight.Done()
		a.shadow = nil
	}
}

// assign finds the release for a request: the named version, or else one by its key, or by chance when that is empty, too.
func (g *Gateway) assign(version, key string) (*assignment, error) {
	g.mu.RLock()
	defer g.mu.RUnlock()
	return g.assigned(version, key)
}

// assigned is assign for a caller that holds mu.
func (g *Gateway) assigned(version, key string) (*assignment, error) {
	t := g.table
	if t != nil && t.trial && g.lapsed() {
		return g.assignStable(t.stable, version)
	}
	a := &assignment{}
	if version != "" {
		r, ok := g.releases[version]
		if !ok || r.state != Ready {
			return nil, g.noVersion(version)
		}
		a.release, a.outputs, a.rules = r, r.upstream.Outputs(), r.Compare
	} else {
		if t == nil || len(t.releases) == 0 {
			return nil, g.unavailable()
		}
		a.drawn = t.draw(g.opts.Target, key)
		if a.share = t.pick(a.drawn); a.share == nil {
			return nil, g.unavailable()
		}
		a.release = a.share.release
		a.revision, a.counted, a.trial, a.outputs, a.rules = t.revision, true, t.trial, t.heaviest().upstream.Outputs(), t.rules
		a.lossBound = t.lossBound
		if t.shadow != nil && t.shadow != a.release && rand.Float64() < t.share {
			a.shadow = t.shadow
			a.shadow.inflight.Add(1)
		}
	}
	a.release.inflight.Add(1)
	return a, nil
}

func (g *Gateway) noVersion(version string) error {
	return &oip.Error{Status: http.StatusNotFound, Message: g.opts.Target + " has no version " + version + " that is serving"}
}

// started counts that a request begins which chance, or its key, gave to a release; the result says that it has ended.
func (g *Gateway) started(a *assignment) (ended func()) {
	if !a.counted {
		return func() {}
	}
	return g.counters.start(a.revision)
}

// loadingAgain is after how long it is worth asking again while a release is being loaded.
const loadingAgain = time.Second

// unavailable is the answer to a request that no release serves; the caller holds the lock.
func (g *Gateway) unavailable() error {
	e := &oip.Error{Status: http.StatusServiceUnavailable, Message: "no release of " + g.opts.Target + " serves yet"}
	serving, released := g.doc.Serving()
	switch err := g.trouble(); {
	case err != nil:
		e.Message = g.opts.Target + " is not served: " + err.Error()
	case !g.followed:
		e.Message, e.RetryAfter = "the routing of "+g.opts.Target+" is being read", loadingAgain
	case released:
		e.Message, e.RetryAfter = "release "+serving.Version+" of "+g.opts.Target+" is being loaded", loadingAgain
		if r := g.releases[serving.Version]; r != nil && r.waiting != "" {
			e.Message += ", which waits for " + r.waiting
		}
	}
	return e
}
