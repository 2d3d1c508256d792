package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// hit is an earlier result of the same step.
type hit struct {
	run    string
	record record.StepRecord
}

// lookup finds a result to reuse: in the run that is rerun, whatever `cache` says, else in the step cache. A result does not count if one
// of its artifacts is missing. Steps after the main ones run in every run, because reusing their results would notify nobody and clean
// nothing up. vars are the variables of the step, for its gate.
func (e *Engine) lookup(
	ctx context.Context, program *dsl.Program, node spec.Node, in contract.ResolveInput, vars spec.Vars, cache spec.Cache, key string,
) (*hit, error) {
	if node.Section != spec.SectionMain || slices.Contains(in.Reuse.Again, in.Step) {
		return nil, nil
	}
	var found *hit
	err := e.earlier(ctx, in, func(at record.StepRef) (begun bool, err error) {
		rec, err := e.stepRecord(ctx, at)
		begun = isBegun(rec)
		if err != nil || rec.Key != key {
			return begun, err
		}
		if kinds[node.Kind].asks {
			if still, err := e.isStillSo(ctx, program, node, at.Run, in.Run); err != nil || !still {
				return begun, err
			}
		}
		if rec, err = e.passesNow(ctx, program, node, vars, rec); err != nil {
			return begun, err
		}
		found, err = e.take(ctx, program, node, at, rec)
		return begun, err
	})
	if found != nil || err != nil {
		return found, err
	}
	if in.Reuse.NoCache || !cache.Enabled {
		return nil, nil
	}
	var entry record.Cached
	switch err := e.Store.GetJSON(ctx, record.CacheKey(key), &entry); {
	case errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) || err == nil && entry.At.Run == "":
		return nil, nil
	case err != nil: // a store that cannot be read for a moment must not have a training done again
		return nil, err
	}
	if age := time.Duration(cache.MaxAge); age > 0 && in.Now.Sub(entry.At.Now) > age {
		return nil, nil
	}
	rec, err := e.madeFrom(ctx, entry.At, key)
	if err != nil {
		return nil, err
	}
	if fits, err := e.fitsInstance(ctx, in.StepRef, entry.At, rec); !fits || err != nil {
		return nil, err
	}
	return e.take(ctx, program, node, entry.At, rec)
}

// fitsInstance reports whether an instance of a fan-out may reuse a result. If nothing that the step reads differs between instances, all have
// the same key, but are meant to be executed: an iteration looks at the world again, and a sibling may draw other random numbers. So an
// instance reuses nothing of its own run or of another step, and of another run only what was made for the same iteration, or for the same
// position, item or combination. Likewise, a step of a child pipeline that is an instance reuses nothing of another such child of its run.
func (e *Engine) fitsInstance(ctx context.Context, now, made record.StepRef, rec record.StepRecord) (bool, error) {
	switch {
	case areSiblings(now.Run, made.Run):
		return false, nil
	case now.Instance == nil:
		return true, nil
	case made.Instance == nil || now.Step != made.Step || now.Run == made.Run:
		return false, nil
	case now.Instance.Index == made.Instance.Index:
		return true, nil
	case now.Instance.List == "":
		return false, nil
	}
	return e.isAbout(ctx, *now.Instance, rec)
}

// isAbout reports whether an instance is of the same item or combination as a record.
func (e *Engine) isAbout(ctx context.Context, of record.Instance, rec record.StepRecord) (bool, error) {
	var wanted record.StepRecord
	err := e.describe(ctx, of, &wanted)
	return bytes.Equal(wanted.Item, rec.Item) && bytes.Equal(wanted.Matrix, rec.Matrix), err
}

// areSiblings reports whether two runs belong to different iterations or instances of steps that run child pipelines, at whatever depth.
// Attempts of one instance are none.
func areSiblings(a, b string) bool {
	as, bs := strings.Split(a, "."), strings.Split(b, ".")
	for i := 1; i < min(len(as), len(bs)) && as[0] == bs[0]; i++ {
		if as[i] == bs[i] {
			continue
		}
		n, isOne := indexOf(as[i])
		m, isOther := indexOf(bs[i])
		if !isOne && !isOther && i+1 < min(len(as), len(bs)) { // of different steps
			_, isOne = indexOf(as[i+1])
			_, isOther = indexOf(bs[i+1])
			return isOne && isOther
		}
		if !isOne || !isOther || n != m {
			return isOne && isOther
		}
	}
	return false
}

// indexOf reads the part of a child run's name that is the index of an instance, and may end with the number of an attempt. A part of the
// name of the run itself is none: a pipeline may be called model.2.
func indexOf(part string) (int, bool) {
	index, attempt, isLater := strings.Cut(part, "-")
	n, err := strconv.Atoi(index)
	if isLater && err == nil {
		_, err = strconv.Atoi(attempt)
	}
	return n, err == nil
}

// passesNow turns the record of a step that only its gate refused into a success if the gate passes in its current form, or asks for an
// approval that nobody gave in time: after a threshold is lowered, or a question missed, a model need not be trained again. The gate is
// evaluated once more when the result is reused.
func (e *Engine) passesNow(
	ctx context.Context, program *dsl.Program, node spec.Node, vars spec.Vars, rec record.StepRecord,
) (record.StepRecord, error) {
	refused := rec.ErrorType == fault.Gate && rec.Verdict != "" // by its own gate, and not a rollout or a child by one of theirs
	if !refused || kinds[node.Kind].undone {
		return rec, nil
	}
	outputs, err := record.LoadOutputs(ctx, e.Store, record.StepOutput{Outputs: rec.Outputs, OutputsRef: rec.OutputsRef})
	if err != nil {
		return rec, err
	}
	undecided := rec.Decision != nil && rec.Decision.By == ""
	if _, verdict := program.EvaluateGate(node.ID, outputs, vars); verdict == spec.VerdictPass || verdict == spec.VerdictHold && undecided {
		rec.Status, rec.Error, rec.ErrorType = spec.StatusSucceeded, "", ""
	}
	return rec, nil
}

// take returns the result at a place, of which there is this record, as that of node, when it succeeded and all files of its artifacts are
// still there.
func (e *Engine) take(ctx context.Context, program *dsl.Program, node spec.Node, at record.StepRef, rec record.StepRecord) (*hit, error) {
	if rec.Status != spec.StatusSucceeded {
		return nil, nil
	}
	for _, ref := range program.Artifacts(node.ID, rec.Outputs) {
		if whole, err := e.Store.HasTree(ctx, ref); !whole || err != nil {
			return nil, err
		}
	}
	return &hit{run: cmp.Or(rec.ReusedFrom, at.Run), record: rec}, nil
}

// madeFrom is the record at a place of a step that did what has this key; zero when there is none.
func (e *Engine) madeFrom(ctx context.Context, at record.StepRef, key string) (record.StepRecord, error) {
	rec, err := e.stepRecord(ctx, at)
	if rec.Key != key {
		return record.StepRecord{}, err
	}
	return rec, err
}

// stepRecord returns the record of a step; zero if there is none.
func (e *Engine) stepRecord(ctx context.Context, at record.StepRef) (rec record.StepRecord, err error) {
	err = e.Store.GetJSON(ctx, record.Key(at), &rec)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
		return record.StepRecord{}, nil
	}
	return rec, err
}

// earlier calls look for the step in the run that is rerun. While the step had not begun there, it goes on to the run which that run was
// itself a rerun of: a rerun that was canceled in a queue has no results of its own. It stops at a run that had to execute the step again.
func (e *Engine) earlier(ctx context.Context, in contract.ResolveInput, look func(record.StepRef) (begun bool, err error)) error {
	return e.eachReuse(ctx, in.Reuse, func(reuse record.Reuse) (stop bool, err error) {
		if reuse.From == "" || slices.Contains(reuse.Again, in.Step) {
			return true, nil
		}
		at := in.StepRef
		at.Run = reuse.From
		return look(at)
	})
}

// withoutCache reports whether a step does without the step cache: as its own run says or, since a rerun finishes what an earlier run was to do,
// as that one says. Otherwise a rerun of a `run --no-cache` that failed would take the results that run was not to take.
func (e *Engine) withoutCache(ctx context.Context, reuse record.Reuse, step string) (without bool, err error) {
	err = e.eachReuse(ctx, reuse, func(reuse record.Reuse) (stop bool, err error) {
		without = reuse.NoCache || slices.Contains(reuse.Again, step)
		return without, nil
	})
	return without, err
}

// eachReuse calls look with what a run reuses, then with what the run that this names was itself to reuse, and so on, until look stops or there
// is no such run.
func (e *Engine) eachReuse(ctx context.Context, reuse record.Reuse, look func(record.Reuse) (stop bool, err error)) error {
	for seen := map[string]bool{}; ; {
		if stop, err := look(reuse); stop || err != nil || reuse.From == "" || seen[reuse.From] {
			return err
		}
		seen[reuse.From] = true
		run, err := e.record(ctx, reuse.From)
		if errors.Is(err, store.ErrNotFound) {
			return nil
		} else if err != nil {
			return err
		}
		reuse = run.Reuse
	}
}

// isBegun reports whether a step had begun, by its record.
func isBegun(rec record.StepRecord) bool {
	return rec.Key != "" && rec.Status != spec.StatusSkipped && rec.Status != spec.StatusCanceled
}

// handOn makes a record's outputs small enough for history.
func (e *Engine) handOn(ctx context.Context, rec record.StepRecord) (record.StepOutput, error) {
	if rec.OutputsRef != "" || rec.Outputs == nil {
		return record.StepOutput{OutputsRef: rec.OutputsRef}, nil
	}
	return record.StoreOutputs(ctx, e.Store, rec.Outputs)
}
