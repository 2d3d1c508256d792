package rollout

import (
	"cmp"
	"fmt"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/serving/stats"
)

// further makes the loss test, and says why it ends the rollout, "" for not. It also says in the look what both sides' losses are.
func (s *State) further(stage Stage, counts Counts, look *spec.Look) (rejected string) {
	if !stage.HasLoss() {
		return ""
	}
	test := stage.Tests.Loss
	look.Loss = &spec.LossLook{Alpha: stage.LossAlpha(), Samples: losses(stage, counts)}
	candidate, stable := counts.Candidate.Losses, counts.Stable.Losses
	if p := counts.Shadow.Losses; stage.Spec.Shadow > 0 {
		candidate, stable = stats.Losses{N: p.N, Sum: p.Candidate}, stats.Losses{N: p.N, Sum: p.Stable}
	}
	look.Candidate.Loss, look.Stable.Loss = meanLoss(candidate, test.Bound), meanLoss(stable, test.Bound)
	if stage.Keyed {
		s.Loss, look.Loss.Samples = s.keyedLoss(stage, test.Margin/test.Bound)
	} else {
		s.Loss = s.Loss.Look(test.Margin/test.Bound, s.lossSplits(stage)...)
	}
	look.Loss.EValue = s.Loss.Value()
	if stage.Stable == "" || !s.Loss.Rejects(look.Loss.Alpha) {
		return ""
	}
	return fmt.Sprintf("further from the labels than the release that serves: a mean loss of %s over %d answers against %s over %d, margin %s (e-value %s)",
		human.Number(candidate.Mean()*test.Bound), candidate.N, human.Number(stable.Mean()*test.Bound), stable.N,
		human.Number(test.Margin), human.Number(look.Loss.EValue))
}

// losses is how many answers of the candidate have been measured by a label.
func losses(stage Stage, counts Counts) int64 {
	if stage.Spec.Shadow > 0 {
		return counts.Shadow.Losses.N
	}
	return counts.Candidate.Losses.N
}

func meanLoss(l stats.Losses, bound float64) *float64 {
	if l.N == 0 {
		return nil
	}
	mean := l.Mean() * bound
	return &mean
}

// lossSplits are what the loss test compares.
func (s State) lossSplits(stage Stage) []stats.LossSplit {
	tallies := s.byRevision()
	splits := make([]stats.LossSplit, len(tallies))
	for i, t := range tallies {
		splits[i] = stats.LossSplit{Candidate: t.Counts.Candidate.Losses, Stable: t.Counts.Stable.Losses, Share: t.Share}
		if stage.Spec.Shadow > 0 {
			splits[i] = stats.LossSplit{Paired: t.Counts.Shadow.Losses}
		}
	}
	return splits
}

// tooFar says that the mean loss of a release exceeds the absolute limit, or returns "". If the losses of the previous release are known,
// chance must not explain the excess, and that release must have kept to the limit itself.
func tooFar(stage Stage, before Past, candidate stats.Counts) string {
	test := stage.Tests.Loss
	if test == nil {
		return ""
	}
	limit, now := cmp.Or(test.MaxMean, test.Bound/2), candidate.Losses
	over := now.Mean() - limit/test.Bound
	if past := before.Losses; past.N > 0 && (past.Mean()*test.Bound > limit || over <= chance(now.N, stage.LossAlpha())) {
		return ""
	}
	if over > 0 {
		return fmt.Sprintf("the mean loss of %d answers to labelled requests is %s; without a release to compare with, tests.loss.max_mean allows %s",
			now.N, human.Number(now.Mean()*test.Bound), human.Number(limit))
	}
	return ""
}
