package main

import (
	"math"
	"math/rand/v2"
	"strconv"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/rollout"
	"github.com/sluiceml/sluice/serving/stats"
)

const (
	looksPerStage   = 10
	requestsPerLook = 100 // of the candidate
	gateways        = 3

	candidate, stable = "2", "1"
)

// weights of the stages, which the candidate answers 3,000 requests in. With all traffic there is nothing to compare.
var weights = []float64{0.05, 0.25, 0.5}

const maxLooks = 30

// kind is one kind of rollouts.
type kind struct {
	name              string
	candidate, stable float64 // shares of requests that fail
	users             int     // whose traffic is sticky; 0 where it is not
	// Mean losses, as shares of the largest that counts, of answers that are numbers; 0 where requests fail instead.
	candidateLoss, stableLoss float64
	worse                     bool // the candidate is
	apart                     bool // what is shown of all kinds together leaves it out
}

var kinds = []kind{
	{name: "equal", candidate: 0.01, stable: 0.01},
	{name: "errors", candidate: 0.03, stable: 0.01, worse: true},
	{name: "sticky_equal", candidate: 0.01, stable: 0.01, users: 1000},
	{name: "sticky_errors", candidate: 0.03, stable: 0.01, users: 100000, worse: true, apart: true},
	{name: "sticky_errors_few", candidate: 0.03, stable: 0.01, users: 20000, worse: true, apart: true},
	{name: "regression_equal", candidateLoss: 0.1, stableLoss: 0.1},
	{name: "regression", candidateLoss: 0.13, stableLoss: 0.1, worse: true},
}

// The names of our judges.
const (
	ours      = "sluice"
	byRequest = "sluice, each request counted"
)

// simulate makes one rollout of a kind, and returns at which look each judge aborted it.
func simulate(kind kind, seed uint64) map[string]int {
	rng := rand.New(rand.NewPCG(seed, 1))
	asked := newTraffic(kind, rng)
	judges := peers()
	if kind.stableLoss > 0 {
		judges = peersOfLosses()
	}
	judges[ours] = &sluice{sticky: kind.users > 0, losses: kind.stableLoss > 0}
	if kind.users > 0 {
		judges[byRequest] = &sluice{}
	}
	aborted := map[string]int{}
	for name := range judges {
		aborted[name] = 0
	}
	look := 0
	for i, weight := range weights {
		counted := newCounted(i, weight)
		for range looksPerStage {
			look++
			before := counted.both()
			for range int(requestsPerLook / weight) {
				counted.add(rng.IntN(gateways), asked.request(weight))
			}
			now := counted.both()
			for name, judge := range judges {
				if aborted[name] == 0 && judge.aborts(counted, now.minus(before)) {
					aborted[name] = look
				}
			}
		}
	}
	return aborted
}

// traffic is who asks, and what the two releases make of it.
type traffic struct {
	kind kind
	rng  *rand.Rand
	// For sticky traffic: where in the hashes' range each user is, and how prone to errors, from 0 up to 1.
	hashes []uint64
	prone  []float64
}

func newTraffic(kind kind, rng *rand.Rand) *traffic {
	t := &traffic{kind: kind, rng: rng}
	if kind.users > 0 {
		t.hashes, t.prone = make([]uint64, kind.users), make([]float64, kind.users)
		for i := range kind.users {
			t.hashes[i], t.prone[i] = rng.Uint64(), rng.Float64()
		}
	}
	return t
}

// request is one as it was answered.
type request struct {
	hash        uint64
	isCandidate bool
	failed      bool
	loss        float64
}

// request is the next. A user of sticky traffic has many, some users many more than others, and errors come from a few users: half of the
// requests fail of twice as many users as there are to be errors, the same users whichever release answers.
func (t *traffic) request(weight float64) request {
	if t.kind.users == 0 {
		r := request{hash: t.rng.Uint64(), isCandidate: t.rng.Float64() < weight}
		r.failed = t.rng.Float64() < t.rate(r.isCandidate)
		r.loss = min(1, math.Abs(t.rng.NormFloat64())*t.loss(r.isCandidate)*math.Sqrt(math.Pi/2))
		return r
	}
	u := t.rng.Float64()
	user := int(float64(t.kind.users) * u * u)
	r := request{hash: t.hashes[user]}
	r.isCandidate = stats.CellOf(r.hash) < stats.CellsOf(weight)
	r.failed = t.prone[user] < 2*t.rate(r.isCandidate) && t.rng.Float64() < 0.5
	return r
}

func (t *traffic) rate(isCandidate bool) float64 {
	if isCandidate {
		return t.kind.candidate
	}
	return t.kind.stable
}

func (t *traffic) loss(isCandidate bool) float64 {
	if isCandidate {
		return t.kind.candidateLoss
	}
	return t.kind.stableLoss
}

// sample is what one release answered.
type sample struct {
	requests, errors int64
	losses           stats.Losses
}

func (s sample) counts() stats.Counts {
	return stats.Counts{Requests: s.requests, Failures: s.errors, Losses: s.losses}
}

func (s sample) rate() float64 { return float64(s.errors) / float64(max(s.requests, 1)) }

func (s sample) plus(other sample) sample {
	return sample{s.requests + other.requests, s.errors + other.errors, s.losses.Plus(other.losses)}
}

func (s sample) minus(other sample) sample {
	return sample{s.requests - other.requests, s.errors - other.errors, stats.Losses{
		N: s.losses.N - other.losses.N, Sum: s.losses.Sum - other.losses.Sum, Squares: s.losses.Squares - other.losses.Squares,
	}}
}

// both is what both releases answered.
type both struct{ candidate, stable sample }

func (b both) plus(other both) both {
	return both{b.candidate.plus(other.candidate), b.stable.plus(other.stable)}
}

func (b both) minus(other both) both {
	return both{b.candidate.minus(other.candidate), b.stable.minus(other.stable)}
}

// counted is what the gateways have counted in a stage, as they do: serving/gateway.
type counted struct {
	index    int
	weight   float64
	gateways [gateways]struct {
		both
		keyed stats.Keyed
	}
}

func newCounted(index int, weight float64) *counted {
	c := &counted{index: index, weight: weight}
	held := 0.0
	if index > 0 {
		held = weights[index-1]
	}
	for i := range c.gateways {
		c.gateways[i].keyed = stats.Keyed{From: stats.CellsOf(held), To: stats.CellsOf(weight)}
	}
	return c
}

func (c *counted) revision() int64 { return int64(c.index + 1) }

func (c *counted) add(gateway int, r request) {
	seen := &c.gateways[gateway]
	of := &seen.stable
	if r.isCandidate {
		of = &seen.candidate
	}
	of.requests++
	if r.loss > 0 {
		of.losses.Add(r.loss)
	}
	if !r.failed {
		return
	}
	of.errors++
	if cell := stats.CellOf(r.hash); cell >= seen.keyed.From {
		seen.keyed.Erred.Add(cell)
	}
}

// both is the sum of all gateways.
func (c *counted) both() both {
	var sum both
	for _, g := range c.gateways {
		sum = sum.plus(g.both)
	}
	return sum
}

// snapshots are what the gateways report.
func (c *counted) snapshots() []stats.Snapshot {
	all := make([]stats.Snapshot, gateways)
	for i := range c.gateways {
		g := &c.gateways[i]
		all[i] = stats.Snapshot{Epoch: strconv.Itoa(i), Revision: c.revision(), Revisions: []stats.Revision{{
			Revision: c.revision(), Weights: map[string]float64{candidate: c.weight, stable: 1 - c.weight},
			Versions: map[string]stats.Counts{candidate: g.candidate.counts(), stable: g.stable.counts()}, Keyed: &g.keyed,
		}}}
	}
	return all
}

// sluice judges as a rollout does, with the defaults: alpha is 0.01.
type sluice struct {
	sticky bool
	losses bool
	index  int
	state  rollout.State
}

func (s *sluice) aborts(now *counted, _ both) bool {
	if now.index != s.index {
		s.index, s.state = now.index, s.state.NextStage()
	}
	stage := rollout.Stage{
		Spec: spec.Stage{Weight: spec.Share(now.weight), MinSamples: 1 << 40}, Of: len(weights), Candidate: candidate, Stable: stable,
		Revision: now.revision(), Keyed: s.sticky,
	}
	if s.losses {
		stage.Tests.Loss = &spec.LossTest{Bound: 1}
	}
	var look spec.Look
	s.state, look, _ = rollout.EvaluateStage(stage, s.state, now.snapshots(), nil)
	return look.Decision == rollout.Abort
}
