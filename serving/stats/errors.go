package stats

import "math"

// priorWeight is how many errors the e-process's prior is worth. It has its centre at the share expected of equal models.
const priorWeight = 20

// LogEvidence returns ln E, the evidence that a candidate's error rate differs from the stable release's, of `candidate` and
// `stable` errors seen while each request went to the candidate with probability share:
//
//	E = B(a+S, b+F) / (B(a, b) · θ^S · (1-θ)^F)
//
// with S and F the errors, θ the share, a = 20θ, b = 20(1-θ). While the models are equally good each error is the candidate's with
// probability θ, whatever the requests are, and E is a martingale that starts at 1: it ever reaches 1/α with probability at most α,
// however often it is looked at. (Lindon, Malek: Anytime-Valid Inference for
// Multinomial Count Data, NeurIPS 2022.)
//
// At a share of 0 or 1 there is nothing to compare, and the evidence is 0.
func LogEvidence(candidate, stable int64, share float64) float64 {
	if share <= 0 || share >= 1 {
		return 0
	}
	a, b := priorWeight*share, priorWeight*(1-share)
	s, f := float64(candidate), float64(stable)
	return logBeta(a+s, b+f) - logBeta(a, b) - s*math.Log(share) - f*math.Log1p(-share)
}

// Split is what was counted while one share of the traffic went to the candidate.
type Split struct {
	Candidate int64 // errors
	Stable    int64
	Share     float64
}

// surplus is how many errors the candidate has beyond its share.
func (s Split) surplus() float64 { return float64(s.Candidate) - s.Share*float64(s.Candidate+s.Stable) }

// Carried is ln E of a split that has ended: evidence that the candidate is better counts for nothing.
func (s Split) Carried() float64 {
	evidence := LogEvidence(s.Candidate, s.Stable, s.Share)
	if s.surplus() <= 0 {
		return min(evidence, 0)
	}
	return evidence
}

// ErrorEvidence is the error test's state over the stages of a rollout. The zero value is the start.
type ErrorEvidence struct {
	// Finished is ln of the product of what earlier stages left.
	Finished float64 `json:"finished"`
	// Late is how much that has changed since by requests of these stages which ended later.
	Late float64 `json:"late,omitempty"`
	// Stage is ln E of the current stage's newest look.
	Stage float64 `json:"stage"`
	// Worse says that the candidate has more than its share of the current stage's errors.
	Worse bool `json:"worse"`
}

// Look takes the current stage's cumulative errors, by the splits of the traffic that it has had, the newest last. Errors of different
// splits are not added up, for the share expected of an equal candidate differs: their evidence is multiplied, as that of stages is. An
// earlier split's evidence that the candidate is better counts for nothing; see Next.
func (e ErrorEvidence) Look(splits ...Split) ErrorEvidence {
	e.Stage = 0
	var surplus float64
	for i, s := range splits {
		if i < len(splits)-1 {
			e.Stage += s.Carried()
		} else {
			e.Stage += LogEvidence(s.Candidate, s.Stable, s.Share)
		}
		surplus += s.surplus()
	}
	e.Worse = surplus > 0
	return e
}

// Next ends the current stage. Stages are multiplied, which keeps the test valid; evidence that the candidate is better is not
// carried along, or a later stage's noise could turn it against the candidate.
func (e ErrorEvidence) Next() ErrorEvidence {
	carried := e.Stage
	if !e.Worse {
		carried = min(carried, 0)
	}
	return ErrorEvidence{Finished: e.Finished + e.Late + carried}
}

// Value is the evidence so far as an e-value, capped where JSON's numbers end.
func (e ErrorEvidence) Value() float64 { return math.Exp(min(e.Finished+e.Late+e.Stage, 690)) }

// Rejects reports whether the candidate must be taken for worse: an equal one is ever rejected with probability at most alpha.
// Late errors may reject it alone, but not with what the current stage found for it.
func (e ErrorEvidence) Rejects(alpha float64) bool {
	limit, earlier := -math.Log(alpha), e.Finished+e.Late
	return e.Worse && earlier+e.Stage >= limit || e.Late > 0 && earlier+min(e.Stage, 0) >= limit
}

func logBeta(a, b float64) float64 {
	la, _ := math.Lgamma(a)
	lb, _ := math.Lgamma(b)
	lab, _ := math.Lgamma(a + b)
	return la + lb - lab
}
