// Package record is what the store keeps of runs: what was submitted, a record for each run, step and instance, and where they lie.
package record

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
)

// RunKey is where a run's record is in the store.
func RunKey(run string) string { return store.RunsPrefix + run + "/run.json" }

// RunOf is the run whose record has a key: the inverse of RunKey. A step may be called run, too.
func RunOf(key string) (run string, ok bool) {
	below, inRuns := strings.CutPrefix(key, store.RunsPrefix)
	run, isRecord := strings.CutSuffix(below, "/run.json")
	return run, inRuns && isRecord && !strings.Contains(run, "/")
}

// StepKey is where a step's record is.
func StepKey(run, step string) string { return store.RunsPrefix + run + "/steps/" + step + ".json" }

// Key is where the record of a step, or of an instance of one, is. Instances lie apart: there may be many, and whoever lists
// runs does not want them.
func Key(at StepRef) string {
	if at.Instance == nil {
		return StepKey(at.Run, at.Step)
	}
	return instancesPrefix(at.Run, at.Step) + strconv.Itoa(at.Instance.Index) + ".json"
}

// instancesPrefix begins the keys of a step's instances.
func instancesPrefix(run, step string) string { return store.InstancesPrefix + run + "/" + step + "/" }

// OpenOf is where the runs of a submission are counted: each in an object of its own that exactly one process can create, so that two who
// submit the same at once start one run.
func OpenOf(submission string) string {
	return store.OpenPrefix + strings.TrimPrefix(submission, "sha256:") + "/"
}

// Run is a run's record with those of its steps, in graph order.
type Run struct {
	RunRecord
	Steps []StepRecord `json:"steps"`
}

// LoadRun reads a run's records. Steps that have not ended have none in the store; they are pending here.
func LoadRun(ctx context.Context, s *store.Store, run string) (Run, error) {
	var r Run
	if err := s.GetJSON(ctx, RunKey(run), &r.RunRecord); err != nil {
		return r, fmt.Errorf("run %s: %w", run, err)
	}
	r.Steps = make([]StepRecord, len(r.Graph))
	return r, store.Each(ctx, len(r.Graph), func(ctx context.Context, i int) error {
		node := r.Graph[i]
		r.Steps[i] = StepRecord{Step: node.ID, Kind: node.Kind, Status: spec.StatusPending}
		err := s.GetJSON(ctx, StepKey(run, node.ID), &r.Steps[i])
		if errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
}

// Runs reads the records of all runs, newest first.
func Runs(ctx context.Context, s *store.Store) ([]RunRecord, error) {
	all, err := store.RecordsIn[RunRecord](ctx, s, store.RunsPrefix, func(key string) bool {
		_, ok := RunOf(key)
		return ok
	})
	slices.SortFunc(all, func(a, b RunRecord) int { return b.StartedAt.Compare(a.StartedAt) })
	return all, err
}

// Sweepable is the time before which nothing was written that a run may need and no record refers to: what an open run has made since it
// began may be known to Temporal alone. heldBy is the run that makes it earlier than a time.
func Sweepable(runs []RunRecord, latest time.Time) (before time.Time, heldBy string) {
	before = latest
	for _, r := range runs {
		if since := r.StartedAt.Add(-store.SweepMargin); r.Status == spec.StatusRunning && since.Before(before) {
			before, heldBy = since, r.Run
		}
	}
	return before, heldBy
}

// Ancestors are the run that a run does again, the one which that did again, and so on: what any of them left may be used.
func Ancestors(all []RunRecord, run RunRecord) []string {
	var names []string
	for from := run.Reuse.From; from != "" && !slices.Contains(names, from); {
		names = append(names, from)
		i := slices.IndexFunc(all, func(r RunRecord) bool { return r.Run == from })
		if i < 0 {
			break
		}
		from = all[i].Reuse.From
	}
	return names
}

// Apart divides runs into those that stand for themselves and those of child pipelines, which are named after their parent's step.
func Apart(all []RunRecord) (own, children []RunRecord) {
	names := make(map[string]bool, len(all))
	for _, r := range all {
		names[r.Run] = true
	}
	for _, r := range all {
		child := false
		for i, c := range r.Run {
			child = child || c == '.' && names[r.Run[:i]]
		}
		if child {
			children = append(children, r)
		} else {
			own = append(own, r)
		}
	}
	return own, children
}

// LoadSubmission returns what was submitted under a digest.
func LoadSubmission(ctx context.Context, s *store.Store, digest string) (sub Submission, err error) {
	if err := ReadBlob(ctx, s, digest, &sub); err != nil {
		return sub, fmt.Errorf("submission %s: %w", digest, err)
	}
	return sub, nil
}

// StoreOutputs makes outputs small enough for history.
func StoreOutputs(ctx context.Context, s *store.Store, outputs any) (StepOutput, error) {
	raw, err := json.Marshal(outputs)
	if err != nil {
		return StepOutput{}, fmt.Errorf("encode outputs: %w", err)
	}
	if len(raw) <= InlineLimit {
		return StepOutput{Outputs: raw}, nil
	}
	digest, _, err := s.PutBlob(ctx, bytes.NewReader(raw))
	return StepOutput{OutputsRef: digest}, err
}

// LoadOutputs is the inverse of StoreOutputs.
func LoadOutputs(ctx context.Context, s *store.Store, out StepOutput) (json.RawMessage, error) {
	if out.OutputsRef == "" {
		return out.Outputs, nil
	}
	var raw json.RawMessage
	if err := ReadBlob(ctx, s, out.OutputsRef, &raw); err != nil {
		return nil, fmt.Errorf("outputs %s: %w", out.OutputsRef, err)
	}
	return raw, nil
}
