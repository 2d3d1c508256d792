package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"strings"

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

// outlived returns the parts of a step's key with the checkpoint that `resume_from` named in the run that is rerun, for when that checkpoint
// has been removed: the result of the step can still be reused. If the submission differs, the name may mean another checkpoint, and the parts
// stay as they are.
func (e *Engine) outlived(ctx context.Context, in contract.ResolveInput, parts map[string]string) (map[string]string, error) {
	err := e.earlier(ctx, in, func(at record.StepRef) (begun bool, err error) {
		rec, err := e.stepRecord(ctx, at)
		if err != nil || !isBegun(rec) || rec.Parts[resumeFrom] == "" {
			return isBegun(rec), err
		}
		run, err := e.record(ctx, at.Run)
		if err != nil || run.Submission != in.Submission {
			return true, err
		}
		then := maps.Clone(parts)
		if then[resumeFrom] = rec.Parts[resumeFrom]; keyOf(then) == rec.Key {
			parts = then
		}
		return true, nil
	})
	return parts, err
}

// resumeFrom is the key of a train step that names the checkpoint it starts from.
const resumeFrom = "resume_from"

// pinResume puts the checkpoint that `resume_from` means now in its place, and in the key what that holds: the same name may mean another
// one later. Where there is none the step itself says so.
func (e *Engine) pinResume(ctx context.Context, resolved *dsl.Resolved, parts map[string]string) (uncached, error) {
	sp, err := spec.Decode[map[string]json.RawMessage](resolved.Spec)
	if err != nil || sp[resumeFrom] == nil {
		return uncached{}, err
	}
	var reference string
	if err := json.Unmarshal(sp[resumeFrom], &reference); err != nil {
		return uncached{}, err
	}
	m, err := e.findCheckpoint(ctx, reference)
	if errors.Is(err, checkpoint.ErrNone) || errors.Is(err, checkpoint.ErrDamaged) {
		resolved.Cache.Enabled = false
		return uncached{reason: "it would fail: `resume_from`: " + err.Error(), fails: true}, nil
	} else if err != nil {
		return uncached{}, err
	}
	parts[resumeFrom] = ShortDigest(fmt.Appendf(nil, "%s %d %s", m.Checkpoint.Digest, m.Step, m.Metrics))
	if sp[resumeFrom], err = json.Marshal(m.Pinned()); err == nil {
		resolved.Spec, err = json.Marshal(sp)
	}
	return uncached{}, err
}

// findCheckpoint finds the checkpoint that a reference names. A step whose result was reused has those of the step that made the result.
func (e *Engine) findCheckpoint(ctx context.Context, reference string) (*checkpoint.Manifest, error) {
	m, err := checkpoint.Find(ctx, e.Store, reference)
	run, named, isName := strings.Cut(reference, "/")
	if !isName || !errors.Is(err, checkpoint.ErrNone) {
		return m, err
	}
	id, step, isExact := strings.Cut(named, "@")
	at := record.StepRef{Run: run}
	index := 0
	if at.Step, index = record.SplitStep(id); index >= 0 {
		at.Instance = &record.Instance{Index: index}
	}
	switch rec, failed := e.stepRecord(ctx, at); {
	case failed != nil:
		return nil, failed
	case rec.ReusedFrom == "":
		return nil, err
	default:
		if at, failed = e.madeAt(ctx, at, rec.ReusedFrom, rec.Key); failed != nil {
			return nil, failed
		}
	}
	made := at.Run + "/" + at.ID()
	if isExact {
		made += "@" + step
	}
	return checkpoint.Find(ctx, e.Store, made)
}
