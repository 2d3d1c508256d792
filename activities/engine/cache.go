package engine

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// explain keeps the parts of a key for the step's record.
func (e *Engine) explain(key string, parts map[string]string) { e.keys.put(key, parts) }

// hit is an earlier result of what a step is about to do.
type hit struct {
	run    string
	record record.StepRecord
}

// lookup finds a result to take over: in the run that is done again, whatever `cache` says of the step, else in the step cache. A
// result is none when an artifact that it hands on is gone. What follows the main steps is done in every run: nobody is told, and nothing
// is cleared away, by a step that is taken over.
func (e *Engine) lookup(
	ctx context.Context, program *dsl.Program, node spec.Node, in contract.ResolveInput, cache spec.Cache, key string,
) (*hit, error) {
	if node.Section != spec.SectionMain || slices.Contains(in.Reuse.Again, in.Step) {
		return nil, nil
	}
	take := func(at record.StepRef) (*hit, error) { return e.take(ctx, program, node, at, key) }
	if in.Reuse.From != "" {
		at := in.StepRef
		at.Run = in.Reuse.From
		if h, err := take(at); h != nil || err != nil {
			return h, err
		}
	}
	if in.Reuse.NoCache || !cache.Enabled {
		return nil, nil
	}
	var entry record.Cached
	if err := e.Store.GetJSON(ctx, record.CacheKey(key), &entry); err != nil || entry.At.Run == "" {
		return nil, nil //nolint:nilerr // an entry that is absent or broken is a miss
	}
	if age := time.Duration(cache.MaxAge); age > 0 && in.Now.Sub(entry.At.Now) > age {
		return nil, nil
	}
	return take(entry.At)
}

// take returns the result at a place as that of node, when it succeeded, was made from the same and is still whole.
func (e *Engine) take(ctx context.Context, program *dsl.Program, node spec.Node, at record.StepRef, key string) (*hit, error) {
	rec, err := e.madeFrom(ctx, at, key)
	if err != nil || rec.Status != spec.StatusSucceeded {
		return nil, err
	}
	if whole, err := e.isWhole(ctx, program.Artifacts(node.ID, rec.Outputs)); !whole || err != nil {
		return nil, err
	}
	return &hit{run: cmp.Or(rec.ReusedFrom, at.Run), record: rec}, nil
}

// madeFrom is the record at a place of a step that did what has this key; zero when there is none.
func (e *Engine) madeFrom(ctx context.Context, at record.StepRef, key string) (record.StepRecord, error) {
	var rec record.StepRecord
	err := e.Store.GetJSON(ctx, record.Key(at), &rec)
	if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) || err == nil && rec.Key != key {
		return record.StepRecord{}, nil
	}
	return rec, err
}

// handOn makes a record's outputs small enough for history.
func (e *Engine) handOn(ctx context.Context, rec record.StepRecord) (record.StepOutput, error) {
	if rec.OutputsRef != "" || rec.Outputs == nil {
		return record.StepOutput{OutputsRef: rec.OutputsRef}, nil
	}
	return record.StoreOutputs(ctx, e.Store, rec.Outputs)
}

// isWhole reports whether artifacts are in the store with all their files.
func (e *Engine) isWhole(ctx context.Context, refs []artifact.Ref) (bool, error) {
	for _, ref := range refs {
		manifest, err := e.Store.Manifest(ctx, ref)
		if errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) {
			return false, nil
		} else if err != nil {
			return false, err
		}
		digests := make([]string, len(manifest.Files))
		for i, f := range manifest.Files {
			digests[i] = f.Digest
		}
		if all, err := e.Store.HasBlobs(ctx, digests); !all {
			return false, err
		}
	}
	return true, nil
}
