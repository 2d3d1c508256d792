package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// unfinished finds the checkpoint from which a step resumes, and the run that has it: the last one of the run that is rerun, if its step did
// the same and did not succeed, or of an earlier run in that chain. The cache key covers everything that the step gets, so a checkpoint is
// never resumed by another program or with other data. If the gate failed, the training itself had finished, and resuming would produce the
// same model. It returns nil if there is none.
func (e *Engine) unfinished(
	ctx context.Context, node spec.Node, in contract.ResolveInput, key string,
) (newest *checkpoint.Manifest, run string, err error) {
	if !kindOf(node).resumes || node.Section != spec.SectionMain {
		return nil, "", nil
	}
	err = e.earlier(ctx, in, func(at record.StepRef) (begun bool, err error) {
		rec, err := e.stepRecord(ctx, at)
		switch {
		case err != nil || rec.Key == "":
			return false, err
		case rec.Key != key || !GoesOn(rec):
			return true, nil
		}
		newest, err = checkpoint.NewestOf(ctx, e.Store, at.Run, at.ID(), nil)
		run = at.Run
		return newest != nil, err // it may have ended before it had looked for one
	})
	return newest, run, err
}

// GoesOn reports whether a rerun that does the same resumes what a training left, by its record.
func GoesOn(rec record.StepRecord) bool {
	return rec.Key != "" && rec.Status != spec.StatusSucceeded && rec.ErrorType != fault.Gate
}

// pinResume puts the checkpoint that `resume_from` means now in its place, and in the key what that holds: the same name may mean another
// one later. Where there is none the step itself says so.
func (e *Engine) pinResume(ctx context.Context, resolved *dsl.Resolved, parts map[string]string) (uncached, error) {
	const key = "resume_from"
	sp, err := spec.Decode[map[string]json.RawMessage](resolved.Spec)
	if err != nil || sp[key] == nil {
		return uncached{}, err
	}
	var reference string
	if err := json.Unmarshal(sp[key], &reference); err != nil {
		return uncached{}, err
	}
	m, err := checkpoint.Find(ctx, e.Store, reference)
	if errors.Is(err, checkpoint.ErrNone) || errors.Is(err, checkpoint.ErrDamaged) {
		resolved.Cache.Enabled = false
		return uncached{reason: "it would fail: `resume_from`: " + err.Error(), fails: true}, nil
	} else if err != nil {
		return uncached{}, err
	}
	parts[key] = ShortDigest(fmt.Appendf(nil, "%s %d %s", m.Checkpoint.Digest, m.Step, m.Metrics))
	if sp[key], err = json.Marshal(m.Pinned()); err == nil {
		resolved.Spec, err = json.Marshal(sp)
	}
	return uncached{}, err
}
