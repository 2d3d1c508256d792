package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/store/registry"
)

// compare fills in how the dataset of a clean step differs from its baseline. That is done where the step is evaluated: the baseline
// is the run's and not the step's, so a result that is taken over is compared again, and no cache key hangs on what was accepted since.
func (e *Engine) compare(ctx context.Context, sub *Submitted, at record.StepRef, vars spec.Vars, outputs json.RawMessage) (json.RawMessage, error) {
	var out spec.CleanOutput
	if err := json.Unmarshal(outputs, &out); err != nil {
		return nil, fmt.Errorf("the outputs of %s: %w", at.Step, err)
	}
	resolved, err := sub.Program.Resolve(at.Step, vars)
	if err != nil {
		return nil, fault.New(fault.Invalid, err.Error(), err)
	}
	clean, err := spec.Decode[spec.Clean](resolved.Spec)
	if err != nil {
		return nil, err
	}
	base, err := e.baseline(ctx, at, clean.Drift.Against)
	if err != nil {
		return nil, fmt.Errorf("the dataset that %s is compared with: %w", at.Step, err)
	}
	out.Drift, out.Schema = nil, spec.SchemaChange{Added: []string{}, Removed: []string{}, Retyped: []string{}}
	if base.Statistics != "" && out.Statistics != "" {
		now, err := LoadProfile(ctx, e.Store, out.Statistics)
		if err != nil {
			return nil, err
		}
		before, err := LoadProfile(ctx, e.Store, base.Statistics)
		if err != nil {
			return nil, err
		}
		out.Schema = now.SchemaChange(before)
		out.Drift = &spec.Drift{Against: base.Artifact.Digest, Columns: now.Drift(before)}
	}
	return json.Marshal(out)
}

// checkBaseline demands that the dataset which a clean step is to be compared with is published, or will be by this pipeline: what a
// name that nobody publishes is compared with would never be said.
func (e *Engine) checkBaseline(ctx context.Context, sub *Submitted, sp json.RawMessage, known map[string]artifact.Ref) error {
	var clean struct {
		Drift spec.DriftSpec `json:"drift"`
	}
	if err := json.Unmarshal(sp, &clean); err != nil {
		return fmt.Errorf("the spec of a clean step: %w", err)
	}
	against := clean.Drift.Against
	if _, published := known[against]; published || against == "" || against == spec.LastAccepted {
		return nil
	}
	for _, step := range sub.Program.Pipeline().Steps {
		for _, name := range step.Publish {
			if name == against {
				return nil // the first time there is none
			}
		}
	}
	all, err := registry.Refs(ctx, e.Store, artifact.Dataset) // known has only those that the pipeline reads
	if err != nil {
		return err
	}
	help := "there are " + strings.Join(slices.Sorted(maps.Keys(all)), ", ")
	if len(all) == 0 {
		help = "a step with `publish: {dataset: " + against + "}` publishes it"
	}
	return fault.Errorf(fault.Invalid, "`drift` compares with the dataset %q, but there is no published dataset of that name\nhelp: %s", against, help)
}

// baseline is what a dataset is compared with, as the run's record settled it; without one it is zero.
func (e *Engine) baseline(ctx context.Context, at record.StepRef, against string) (v registry.Published, err error) {
	run, err := e.record(ctx, at.Run)
	if err != nil {
		return v, err
	}
	if against != "" && against != spec.LastAccepted {
		if ref, ok := run.Datasets[against]; ok {
			return findVersion(ctx, e.Store, ref, against)
		}
		return v, nil
	}
	if run.Last == "" {
		return v, nil
	}
	last := at
	last.Run = run.Last
	var rec record.StepRecord
	err = e.Store.GetJSON(ctx, record.Key(last), &rec)
	if errors.Is(err, store.ErrNotFound) || err == nil && !kinds[rec.Kind].cleans {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	if at.Instance != nil { // a place in another list may be about something else
		if same, err := e.isAbout(ctx, *at.Instance, rec); !same || err != nil {
			return v, err
		}
	}
	var out spec.CleanOutput
	isOne := rec.Of == 0 && len(rec.Outputs) > 0 // and not what a fanned-out step gathered
	if rec.Status == spec.StatusSucceeded && isOne {
		err = json.Unmarshal(rec.Outputs, &out)
	}
	return registry.Published{Artifact: out.Dataset, Statistics: out.Statistics}, err
}

// findVersion is the version of a published name that holds an artifact; zero when none does.
func findVersion(ctx context.Context, s *store.Store, ref artifact.Ref, name string) (registry.Published, error) {
	all, err := registry.Versions(ctx, s, ref.Type, name)
	if err != nil {
		return registry.Published{}, err
	}
	for _, v := range all {
		if v.Artifact.Digest == ref.Digest {
			return v, nil
		}
	}
	return registry.Published{}, nil
}

// maxProfile bounds a profile in bytes: of the most columns a dataset may have, each as large as can be.
const maxProfile = 1 << 30

// LoadProfile reads the profile of a dataset by the digest in spec.CleanOutput.Statistics.
func LoadProfile(ctx context.Context, s *store.Store, digest string) (*columns.Profile, error) {
	r, err := s.Blob(ctx, digest)
	if err != nil {
		return nil, fmt.Errorf("the profile %s: %w", digest, err)
	}
	defer r.Close()
	text, err := io.ReadAll(io.LimitReader(r, maxProfile))
	if err != nil {
		return nil, fmt.Errorf("the profile %s: %w", digest, err)
	}
	return columns.ParseProfile(text)
}
