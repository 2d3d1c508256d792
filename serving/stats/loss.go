package stats

import "math"

// Losses are sums over answers with a label: how far each was off, as a share of the largest loss that counts, from 0 to 1. Sums of different
// gateways, epochs and revisions can be added.
type Losses struct {
	N       int64   `json:"n,omitempty"`
	Sum     float64 `json:"sum,omitempty"`
	Squares float64 `json:"squares,omitempty"`
}

// Add counts one loss. What is out of [0, 1] counts as the nearer end: the test holds for bounded losses alone.
func (l *Losses) Add(loss float64) {
	loss = clip(loss)
	l.N++
	l.Sum += loss
	l.Squares += loss * loss
}

// Plus adds the losses of other answers.
func (l Losses) Plus(other Losses) Losses {
	return Losses{N: l.N + other.N, Sum: l.Sum + other.Sum, Squares: l.Squares + other.Squares}
}

// Mean is the mean loss, 0 when there is none.
func (l Losses) Mean() float64 {
	if l.N == 0 {
		return 0
	}
	return l.Sum / float64(l.N)
}

// around is the sum of squared distances from a centre.
func (l Losses) around(centre float64) float64 {
	return l.Squares - 2*centre*l.Sum + centre*centre*float64(l.N)
}

// PairedLosses are sums over requests with a label that both releases answered.
type PairedLosses struct {
	N         int64   `json:"n,omitempty"`
	Candidate float64 `json:"candidate,omitempty"`
	Stable    float64 `json:"stable,omitempty"`
	// Squares is the sum of the squared differences.
	Squares float64 `json:"squares,omitempty"`
}

// Add counts the losses of both answers to one request, each clipped to [0, 1].
func (p *PairedLosses) Add(candidate, stable float64) {
	candidate, stable = clip(candidate), clip(stable)
	p.N++
	p.Candidate += candidate
	p.Stable += stable
	p.Squares += (candidate - stable) * (candidate - stable)
}

// Plus adds the losses of other requests.
func (p PairedLosses) Plus(other PairedLosses) PairedLosses {
	return PairedLosses{
		N: p.N + other.N, Candidate: p.Candidate + other.Candidate, Stable: p.Stable + other.Stable, Squares: p.Squares + other.Squares,
	}
}

func clip(loss float64) float64 {
	if math.IsNaN(loss) {
		return 1
	}
	return max(0, min(1, loss))
}

// The mixture of LogLossEvidence. How large losses are and how far apart is not known in advance; a factor of three between two centres, and
// of two between two rates, costs little beside the best.
var (
	centres = []float64{0.01, 0.03, 0.1, 0.3, 0.7}
	rates   = []float64{1. / 2, 1. / 4, 1. / 8, 1. / 16, 1. / 32, 1. / 64, 1. / 128, 1. / 256}
)

// LogLossEvidence returns ln E, the evidence that a candidate's mean loss is above the stable release's by more than margin, when each request
// went to the candidate with probability share. Losses and margin are shares of the largest loss.
//
// For a request with loss x and a centre c let z be (x-c)/θ if it went to the candidate and -(x-c)/(1-θ) if not: whatever the request, the
// mean of z over chance's choice is the difference of the losses that the two releases would make. z-margin is at least
// -b = -(max(c/θ, (1-c)/(1-θ)) + margin), so that for ξ = (z-margin)/b
//
//	exp(λ·ξ - ψ(λ)·ξ²) ≤ 1 + λ·ξ,  ψ(λ) = -ln(1-λ) - λ,  0 ≤ λ < 1
//
// (Fan, Grama, Liu: Exponential Inequalities for Martingales with Applications, Electronic Journal of Probability 2015, which is the empirical
// Bernstein bound of Howard, Ramdas, McAuliffe, Sekhon: Time-Uniform, Nonparametric, Nonasymptotic Confidence Sequences, Annals of Statistics
// 2021, and of Waudby-Smith, Ramdas: Estimating Means of Bounded Random Variables by Betting, JRSS B 2024; with the importance weights of
// Waudby-Smith, Wu, Ramdas, Karampatziakis, Mineiro: Anytime-Valid Off-Policy Inference for Contextual Bandits, 2024.) The product over
// requests is a supermartingale that starts at 1 while the candidate is not worse, however losses change over the day, and so is the mean of
// such products over a fixed set of c and λ: it ever reaches 1/α with probability at most α, however often it is looked at. With c and λ fixed
// the product needs no more than the sums of x and x², so that it is a function of cumulative counts as the error test is.
//
// At a share of 0 or 1 there is nothing to compare, and the evidence is 0.
func LogLossEvidence(candidate, stable Losses, share, margin float64) float64 {
	n := float64(candidate.N + stable.N)
	if share <= 0 || share >= 1 || n == 0 {
		return 0
	}
	terms := make([]float64, 0, len(centres)*len(rates))
	for _, c := range centres {
		sum := (candidate.Sum-c*float64(candidate.N))/share - (stable.Sum-c*float64(stable.N))/(1-share)
		squares := candidate.around(c)/(share*share) + stable.around(c)/((1-share)*(1-share))
		terms = appendBets(terms, n, sum, squares, margin, max(c/share, (1-c)/(1-share)))
	}
	return logMean(terms)
}

// LogPairedEvidence is LogLossEvidence for requests that both releases answered: z is then the difference of the two losses, at least -1.
func LogPairedEvidence(p PairedLosses, margin float64) float64 {
	return logMean(appendBets(nil, float64(p.N), p.Candidate-p.Stable, p.Squares, margin, 1))
}

// appendBets appends the logarithm of the product for each rate, of n values z that are at least -low, by their sum and the sum of their squares.
func appendBets(terms []float64, n, sum, squares, margin, low float64) []float64 {
	b := low + margin
	t, v := (sum-n*margin)/b, (squares-2*margin*sum+n*margin*margin)/(b*b)
	for _, rate := range rates {
		terms = append(terms, rate*t+(math.Log1p(-rate)+rate)*max(v, 0))
	}
	return terms
}

// logMean is the logarithm of the mean of e to the terms.
func logMean(terms []float64) float64 {
	top := math.Inf(-1)
	for _, t := range terms {
		top = max(top, t)
	}
	var sum float64
	for _, t := range terms {
		sum += math.Exp(t - top)
	}
	return top + math.Log(sum/float64(len(terms)))
}

// LossSplit is what was counted while one share of the traffic went to the candidate; Paired where requests were mirrored instead.
type LossSplit struct {
	Candidate, Stable Losses
	Share             float64
	Paired            PairedLosses
}

// LossEvidence is the loss test's state over the stages of a rollout. The zero value is the start.
type LossEvidence struct {
	// Finished is ln of the product of what earlier stages left, and Stage ln E of the current stage's newest look.
	Finished float64 `json:"finished"`
	Stage    float64 `json:"stage"`
}

// Look takes the current stage's cumulative losses, by the splits of the traffic that it has had. Evidence of different splits is of
// different requests, so it is multiplied, as that of stages is.
func (e LossEvidence) Look(margin float64, splits ...LossSplit) LossEvidence {
	e.Stage = 0
	for _, s := range splits {
		e.Stage += LogLossEvidence(s.Candidate, s.Stable, s.Share, margin)
		if s.Paired.N > 0 {
			e.Stage += LogPairedEvidence(s.Paired, margin)
		}
	}
	return e
}

// Next ends the current stage. The test is one-sided, so that what a stage found for the candidate never turns against it.
func (e LossEvidence) Next() LossEvidence { return LossEvidence{Finished: e.Finished + e.Stage} }

// Value is the evidence so far as an e-value, capped where JSON's numbers end.
func (e LossEvidence) Value() float64 { return math.Exp(min(e.Finished+e.Stage, 690)) }

// Rejects reports whether the candidate must be taken for worse by more than the margin: one that is not is ever rejected with probability at
// most alpha.
func (e LossEvidence) Rejects(alpha float64) bool { return e.Finished+e.Stage >= -math.Log(alpha) }
