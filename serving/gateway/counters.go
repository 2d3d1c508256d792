package gateway

import (
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"

	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/stats"
)

// keepRevisions is how many routing revisions' counts are kept: a rollout looks at the newest only.
const keepRevisions = 16

// outcome is the result of one request.
type outcome string

const (
	answered outcome = "ok"
	wrong    outcome = "wrong"
	failure  outcome = "failure"
	// The release refused the request as its sender's mistake, or the client left before an answer.
	clientError outcome = "client_error"
	clientLeft  outcome = "left"
)

// outcomeOf is that of a request with an error, by the status of its answer: a client's mistake is not the release's. A request that took too
// long, that found no place, or whose client gave up is.
func outcomeOf(status int) outcome {
	switch {
	case status < 400 || status > 499, status == http.StatusRequestTimeout, status == http.StatusTooManyRequests, status == statusLeft:
		return failure
	}
	return clientError
}

// comparison is one mirrored request.
type comparison struct {
	latency                 time.Duration
	candidateErr, stableErr bool
	compared                bool // the stable release gave something to compare with
	noAnswer                bool // both were served, and neither output is an answer
	agree                   bool
	maxAbs                  float64
	hasLoss                 bool // there was a label to measure both answers by
	loss, stableLoss        float64
}

// requestOutcome is the result of one request that chance gave to a version.
type requestOutcome struct {
	outcome  outcome
	labelled bool
	hasLoss  bool
	loss     float64
	latency  time.Duration // 0 where nothing was asked of the version
	tokens   *tokens       // nil where none are looked for
}

// counters counts outcomes per routing revision and version, and in total per version. Rollouts evaluate the revisions; the totals are for
// Prometheus.
type counters struct {
	mu        sync.Mutex
	revisions []*tally
	versions  map[string]stats.Counts
	shadows   map[string]stats.Shadow
}

// tally is what was counted while a revision was served.
type tally struct {
	stats.Revision
	keys *keyCounter    // nil where traffic is not sticky
	open map[int64]bool // the requests that have started and not ended, by their number from 1
}

func newCounters() *counters {
	return &counters{versions: map[string]stats.Counts{}, shadows: map[string]stats.Shadow{}}
}

// begin makes room for a revision that is served from now on, by key where keyed is set.
func (c *counters) begin(revision int64, weights map[string]float64, keyed *stats.Keyed) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.at(revision) != nil {
		return
	}
	for _, r := range c.revisions {
		r.keys.stop()
	}
	begun := stats.Revision{Revision: revision, Weights: weights, Versions: map[string]stats.Counts{}}
	c.revisions = append(c.revisions, &tally{Revision: begun, keys: newKeyCounter(keyed), open: map[int64]bool{}})
	c.revisions = c.revisions[max(0, len(c.revisions)-keepRevisions):]
}

// keep forgets the totals of versions that are neither in these releases nor in the revisions whose counts are kept: each rollout brings
// another version. The answer to a request that was still under way may bring one back, until the next call.
func (c *counters) keep(releases []routing.Release) {
	c.mu.Lock()
	defer c.mu.Unlock()
	kept := map[string]bool{}
	for _, r := range releases {
		kept[r.Version] = true
	}
	for _, r := range c.revisions {
		for version := range r.Versions {
			kept[version] = true
		}
		if r.Shadow != nil {
			kept[r.Shadow.Version] = true
		}
	}
	maps.DeleteFunc(c.versions, func(version string, _ stats.Counts) bool { return !kept[version] })
	maps.DeleteFunc(c.shadows, func(version string, _ stats.Shadow) bool { return !kept[version] })
}

func (c *counters) at(revision int64) *tally {
	for _, r := range c.revisions {
		if r.Revision.Revision == revision {
			return r
		}
	}
	return nil
}

// start counts a request of a revision that begins; end says that it has been counted, or never will be. It may be called again.
func (c *counters) start(revision int64) (end func()) {
	c.mu.Lock()
	defer c.mu.Unlock()
	r := c.at(revision)
	if r == nil {
		return func() {}
	}
	r.Started++
	number := r.Started
	r.open[number] = true
	return func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(r.open, number)
		for r.Settled < r.Started && !r.open[r.Settled+1] {
			r.Settled++
		}
	}
}

// request counts one request that chance, or its key, gave to a version.
func (c *counters) request(a *assignment, one requestOutcome) {
	add := func(counts *stats.Counts) {
		switch one.outcome {
		case answered:
		case wrong:
			counts.Wrong++
		case failure:
			counts.Failures++
		case clientError:
			counts.ClientErrors++
			return
		case clientLeft:
			counts.Left++
			return
		}
		counts.Requests++
		if one.labelled {
			counts.Labelled++
		}
		if one.hasLoss {
			counts.Losses.Add(one.loss)
		}
		if one.latency > 0 {
			counts.Latency.Add(one.latency)
		}
		if took, ok := one.tokens.firstToken(); ok {
			counts.FirstToken.Add(took)
		}
		if took, ok := one.tokens.perToken(); ok {
			counts.PerToken.Add(took)
		}
	}
	c.count(a.revision, a.Version, add)
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.at(a.revision); r != nil {
		r.keys.answer(a.Version, a.drawn, one.outcome, add)
	}
}

// refused counts a request whose label is no class.
func (c *counters) refused(revision int64, version string) {
	c.count(revision, version, func(counts *stats.Counts) { counts.Refused++ })
}

func (c *counters) count(revision int64, version string, add func(*stats.Counts)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.at(revision); r != nil {
		counts := r.Versions[version]
		add(&counts)
		r.Versions[version] = counts
	}
	counts := c.versions[version]
	add(&counts)
	c.versions[version] = counts
}

// compare counts one mirrored request.
func (c *counters) compare(job mirrored, seen comparison) {
	c.shadow(job.revision, job.shadow.Version, func(s *stats.Shadow) {
		s.Mirrored++
		if seen.compared {
			s.Samples++
		}
		if seen.noAnswer {
			s.NoAnswer++
		}
		if seen.agree {
			s.Agree++
		}
		s.MaxAbs = max(s.MaxAbs, seen.maxAbs)
		if seen.hasLoss {
			s.Losses.Add(seen.loss, seen.stableLoss)
		}
		switch {
		case seen.candidateErr && seen.stableErr:
			s.BothErr++
		case seen.candidateErr:
			s.CandidateOnly++
		case seen.stableErr:
			s.StableOnly++
		}
		s.Latency.Add(seen.latency)
	})
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.at(job.revision); r != nil {
		r.keys.compare(job.drawn, seen)
	}
}

// dropped counts a request that was to be mirrored, but the queue was full.
func (c *counters) dropped(revision int64, version string) {
	c.shadow(revision, version, func(s *stats.Shadow) { s.Dropped++ })
}

func (c *counters) shadow(revision int64, version string, count func(*stats.Shadow)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if r := c.at(revision); r != nil {
		if r.Shadow == nil {
			r.Shadow = &stats.Shadow{Version: version}
		}
		count(r.Shadow)
	}
	total := c.shadows[version]
	total.Version = version
	count(&total)
	c.shadows[version] = total
}

// byRevision copies the counts per revision.
func (c *counters) byRevision() []stats.Revision {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]stats.Revision, len(c.revisions))
	for i, r := range c.revisions {
		out[i] = r.Revision
		out[i].Versions = stats.Copy(r.Versions)
		if r.Shadow != nil {
			shadow := stats.Shadow{}.Plus(*r.Shadow)
			out[i].Shadow = &shadow
		}
		if r.keys != nil {
			keyed := r.keys.Copy()
			out[i].Keyed = &keyed
		}
	}
	return out
}

// totals copies the counts per version since the gateway's start, of those that are kept.
func (c *counters) totals() (map[string]stats.Counts, []stats.Shadow) {
	c.mu.Lock()
	defer c.mu.Unlock()
	var shadows []stats.Shadow
	for _, version := range slices.Sorted(maps.Keys(c.shadows)) {
		shadows = append(shadows, stats.Shadow{}.Plus(c.shadows[version]))
	}
	return stats.Copy(c.versions), shadows
}
