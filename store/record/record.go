// Package record defines what the store keeps about runs: the submission, a record for each run, step and instance, and their keys.
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

// RunKey returns the key of a run's record.
func RunKey(run string) string { return store.RunsPrefix + run + "/run.json" }

// RunOf returns the run whose record has the key. It is the inverse of RunKey. The key of a step that is called run ends the same way.
func RunOf(key string) (run string, ok bool) {
	below, inRuns := strings.CutPrefix(key, store.RunsPrefix)
	run, isRecord := strings.CutSuffix(below, "/run.json")
	return run, inRuns && isRecord && !strings.Contains(run, "/")
}

// StepKey returns the key of a step's record.
func StepKey(run, step string) string { return store.RunsPrefix + run + "/steps/" + step + ".json" }

// Key returns the key of the record of a step or of an instance. Instances have a prefix of their own: there may be many, and listing runs
// should not list them.
func Key(at StepRef) string {
	if at.Instance == nil {
		return StepKey(at.Run, at.Step)
	}
	return instancesPrefix(at.Run, at.Step) + strconv.Itoa(at.Instance.Index) + ".json"
}

// instancesPrefix begins the keys of a step's instances.
func instancesPrefix(run, step string) string { return store.InstancesPrefix + run + "/" + step + "/" }

// OpenOf returns the prefix under which the runs of a submission are numbered. Exactly one process can create the object of a number, so if
// two processes submit the same at once, only one run starts.
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
	all, err := store.RecordsIn[RunRecord](ctx, s, store.RunsPrefix, isRun)
	slices.SortFunc(all, func(a, b RunRecord) int { return b.StartedAt.Compare(a.StartedAt) })
	return all, err
}

// Below reads the records of a run's children, and of theirs.
func Below(ctx context.Context, s *store.Store, run string) ([]RunRecord, error) {
	return store.RecordsIn[RunRecord](ctx, s, store.RunsPrefix+run+".", isRun)
}

// isRun reports whether a key is that of the record of a run.
func isRun(key string) bool {
	_, is := RunOf(key)
	return is
}

// Sweepable returns a time, at most latest, such that no run needs a blob from before it that no record refers to. What an open run has
// made since it started may be known only to Temporal. heldBy is the run that makes the time earlier than latest, if any.
func Sweepable(runs []RunRecord, latest time.Time) (before time.Time, heldBy string) {
	before = latest
	for _, r := range runs {
		if since := r.StartedAt.Add(-store.SweepMargin); r.Status == spec.StatusRunning && since.Before(before) {
			before, heldBy = since, r.Run
		}
	}
	return before, heldBy
}

// Ancestors lists the run that this run repeats (Reuse.From), the one that was repeated by that run, and so on. The run may use what any of
// them has left.
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

// Apart divides runs into top-level runs and those of child pipelines, which are named after their parent's step.
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

// LoadRoot returns the record of the run at the top of a run's chain of parents; for a run that is not a child, its own. A dot may also be
// in the name of a pipeline, so the root is the shortest beginning that is a run.
func LoadRoot(ctx context.Context, s *store.Store, run string) (root RunRecord, err error) {
	for i := range len(run) + 1 {
		if i < len(run) && run[i] != '.' {
			continue
		}
		if err = s.GetJSON(ctx, RunKey(run[:i]), &root); !errors.Is(err, store.ErrNotFound) {
			break
		}
	}
	return root, err
}

// LoadSubmission returns what was submitted under a digest.
func LoadSubmission(ctx context.Context, s *store.Store, digest string) (sub Submission, err error) {
	if err := ReadBlob(ctx, s, digest, &sub); err != nil {
		return sub, fmt.Errorf("submission %s: %w", digest, err)
	}
	return sub, nil
}

// StoreOutputs returns outputs in a form that is small enough for workflow history: inline, or as the digest of a blob.
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
