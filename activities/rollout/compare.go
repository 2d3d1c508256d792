package rollout

import (
	"context"
	"fmt"
	"strings"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/answer"
	"github.com/sluiceml/sluice/serving/gateway"
	"github.com/sluiceml/sluice/serving/replay"
)

// comparable reports why the answers of the candidate, or of the serving release, cannot be compared as the rollout requires. It is called
// before the candidate gets any traffic.
func (r *Rollouts) comparable(ctx context.Context, sp spec.Rollout, opened contract.RolloutOpened, target *gateway.Target) error {
	rules, byLabel, byEachOther := answer.Rules(sp.Compare), sp.Traffic.Label != "" || sp.Tests.Loss != nil, readsAgreement(sp) && opened.Previous != ""
	if len(rules) == 0 && !byLabel && !byEachOther {
		return nil
	}
	client, err := r.client(target, sp.Target)
	if err != nil {
		return err
	}
	for _, version := range []string{opened.Version, opened.Previous} {
		if version == "" {
			continue
		}
		outputs, err := replay.Outputs(ctx, client, version)
		if err != nil {
			return unfit(ctx, err)
		}
		err = rules.Check(outputs)
		if err == nil && byLabel {
			err = rules.CheckLabels(outputs)
		}
		if err == nil && byEachOther {
			err = rules.CheckAgreement(outputs)
		}
		if err != nil {
			return unfit(ctx, fmt.Errorf("%w: release %s of %s: %w", replay.ErrIncomparable, version, sp.Target, err))
		}
	}
	return nil
}

// readsAgreement reports whether a check of a stage depends on whether answers agree.
func readsAgreement(sp spec.Rollout) bool {
	for _, stage := range sp.Stages {
		for _, check := range stage.Checks {
			if strings.Contains(string(check), "delta.agreement") {
				return true
			}
		}
	}
	return false
}
