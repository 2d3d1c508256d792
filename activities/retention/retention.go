// Package retention removes what is kept of runs that have ended. The contents that nothing refers to then are for store.Garbage.
package retention

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/checkpoint"
)

// Needed says of those of all runs that must stay, why. A run stays with its parent.
func Needed(ctx context.Context, s *store.Store, all []record.RunRecord) (map[string]string, error) {
	needed := map[string]string{}
	need := func(run, why string) {
		if _, known := needed[run]; run != "" && !known {
			needed[run] = why
		}
	}
	pipelines := map[string]bool{}
	for _, r := range all {
		pipelines[r.Pipeline] = true
		if r.Status != spec.StatusRunning {
			continue
		}
		need(r.Run, "it is open")
		for _, other := range slices.Concat(slices.Collect(maps.Values(r.Serving)), []string{r.Last}, record.Ancestors(all, r)) {
			need(other, "run "+r.Run+" is open and reads it")
		}
		sources, err := checkpoint.Sources(ctx, s, r.Run)
		if err != nil {
			return nil, err
		}
		for _, other := range sources {
			need(other, "run "+r.Run+" is open and resumed from its checkpoint")
		}
	}
	for pipeline := range pipelines {
		last, err := record.LastAccepted(ctx, s, pipeline, "")
		if err != nil {
			return nil, err
		}
		need(last.Run, "it is the last accepted run of "+pipeline)
	}
	targets, err := routing.Targets(ctx, s)
	if err != nil {
		return nil, err
	}
	for _, target := range targets {
		doc, err := routing.Current(ctx, s, target)
		if err != nil {
			return nil, err
		}
		for _, release := range doc.Releases {
			if release.Weight > 0 || doc.Shadow != nil && doc.Shadow.Version == release.Version {
				need(release.Run, "target "+target+" serves its release")
			}
		}
		for _, release := range doc.Releases {
			need(release.Run, "target "+target+" keeps its release in reserve, for a rollback")
		}
	}
	names := make(map[string]bool, len(all))
	for _, r := range all {
		names[r.Run] = true
	}
	for _, run := range slices.Collect(maps.Keys(needed)) {
		for i, c := range run {
			if c == '.' && names[run[:i]] {
				need(run[:i], "its child run "+run+" cannot be removed: "+needed[run])
			}
		}
	}
	return needed, nil
}

// Expired lists the runs of a pipeline that are to go, the oldest first. A run stays that is needed, and as long as keep names it by its place
// or by its age.
func Expired(all []record.RunRecord, needed map[string]string, pipeline string, keep spec.Keep, now time.Time) []record.RunRecord {
	own, _ := record.Apart(all) // newest first
	var expired []record.RunRecord
	ended := 0
	for _, r := range own {
		if r.Pipeline != pipeline || r.Status == spec.StatusRunning {
			continue
		}
		ended++
		young := keep.Days > 0 && now.Sub(r.EndedAt) < time.Duration(keep.Days)*24*time.Hour
		if ended > keep.Runs && !young && needed[r.Run] == "" {
			expired = append(expired, r)
		}
	}
	slices.Reverse(expired)
	return expired
}

// Spare removes from a list of runs to delete those whose checkpoints are the source of another run's training, if that run stays and did not
// succeed: its rerun resumes from these checkpoints until it has its own.
func Spare(ctx context.Context, s *store.Store, all, expired []record.RunRecord) ([]record.RunRecord, error) {
	if leave, err := leaveCheckpoints(ctx, s, expired); !leave {
		return expired, err
	}
	isPartOf := func(run string) func(record.RunRecord) bool {
		return func(r record.RunRecord) bool { return r.Run == run || strings.HasPrefix(run, r.Run+".") }
	}
	spared := map[string]bool{}
	for _, r := range all {
		if r.Status == spec.StatusSucceeded || slices.ContainsFunc(expired, isPartOf(r.Run)) {
			continue
		}
		sources, err := checkpoint.Sources(ctx, s, r.Run)
		if err != nil {
			return nil, err
		}
		for _, from := range sources {
			if i := slices.IndexFunc(expired, isPartOf(from)); i >= 0 {
				spared[expired[i].Run] = true
			}
		}
	}
	return slices.DeleteFunc(expired, func(r record.RunRecord) bool { return spared[r.Run] }), nil
}

// leaveCheckpoints reports whether any of the runs may have checkpoints. Most have none, and the seals of all other runs need not be read then.
func leaveCheckpoints(ctx context.Context, s *store.Store, runs []record.RunRecord) (bool, error) {
	for _, r := range runs {
		for _, err := range s.Driver().List(ctx, store.CheckpointsPrefix+r.Run) { // also those of its children
			return err == nil, err
		}
	}
	return false, nil
}

// Children lists the runs of child pipelines that are part of a run.
func Children(all []record.RunRecord, run string) []record.RunRecord {
	return slices.DeleteFunc(slices.Clone(all), func(r record.RunRecord) bool { return !strings.HasPrefix(r.Run, run+".") })
}

// prefixes are where a run's records, checkpoints and logs are, all but the entries of the cache. That of its own record is the last.
func prefixes(run string) []string {
	return []string{
		store.PartsPrefix + store.CheckpointsPrefix + run + "/", store.CheckpointsPrefix + run + "/", store.HandoverPrefix + run + "/",
		store.LogsPrefix + run + "/", store.InstancesPrefix + run + "/", store.RunsPrefix + run + "/",
	}
}

// Size is what a run's records, checkpoints and logs in the store take, without its children.
func Size(ctx context.Context, s *store.Store, run string) (bytes int64, err error) {
	for _, prefix := range prefixes(run) {
		for info, err := range s.Driver().List(ctx, prefix) {
			if err != nil {
				return 0, err
			}
			bytes += info.Bytes
		}
	}
	return bytes, nil
}

// Remove removes all that is kept of a run and of its children, but what was published and the contents of artifacts. all are the runs there
// are, logs is the folder of this machine's logs, or empty. What a later run took over stays in the cache, as that run's. Where it is interrupted the run
// is still there, and can be removed again.
func Remove(ctx context.Context, s *store.Store, all []record.RunRecord, run record.RunRecord, logs string) error {
	for _, r := range append(Children(all, run.Run), run) {
		err := remove(ctx, s, all, r, logs)
		if err != nil {
			return fmt.Errorf("remove run %s: %w", r.Run, err)
		}
	}
	return nil
}

func remove(ctx context.Context, s *store.Store, all []record.RunRecord, run record.RunRecord, logs string) error {
	var records, keys []string
	for _, prefix := range prefixes(run.Run) {
		for info, err := range s.Driver().List(ctx, prefix) {
			if err != nil {
				return err
			}
			if info.Key == record.RunKey(run.Run) {
				continue
			}
			if strings.HasPrefix(info.Key, store.RunsPrefix) || strings.HasPrefix(info.Key, store.InstancesPrefix) {
				records = append(records, info.Key)
			} else {
				keys = append(keys, info.Key)
			}
		}
	}
	heirs := heirsOf(all, run)
	err := store.Each(ctx, len(records), func(ctx context.Context, i int) error { return bequeath(ctx, s, records[i], run.Run, heirs) })
	if err != nil {
		return err
	}
	submitted, err := submissionsOf(ctx, s, run)
	if err != nil {
		return err
	}
	err = store.Each(ctx, len(keys), func(ctx context.Context, i int) error { return s.Driver().Delete(ctx, keys[i]) })
	if err != nil {
		return err
	}
	if folder := filepath.Join(logs, run.Run); logs != "" && filepath.Dir(folder) == filepath.Clean(logs) {
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	// The run's own record is the last: as long as it is there the run is listed, and is removed by whoever tries again.
	return s.Forget(ctx, append(append(submitted, records...), record.RunKey(run.Run))...)
}

// submissionsOf lists where a run is counted among those of its submission. Such a record refers to the submission as long as it is there.
func submissionsOf(ctx context.Context, s *store.Store, run record.RunRecord) ([]string, error) {
	prefix := record.OpenOf(run.Submission)
	var keys []string
	for info, err := range s.Driver().List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		var noted record.RunRecord
		if err := s.GetJSON(ctx, info.Key, &noted); err != nil && !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if noted.Run == run.Run {
			keys = append(keys, info.Key)
		}
	}
	return keys, nil
}

// maxHeirs is how many later runs are asked whether they took a result over, the newest.
const maxHeirs = 5

// heirsOf are the newest other runs of the pipeline.
func heirsOf(all []record.RunRecord, run record.RunRecord) []string {
	var heirs []string
	for _, r := range all {
		if r.Pipeline == run.Pipeline && r.Run != run.Run && r.StartedAt.After(run.StartedAt) && len(heirs) < maxHeirs {
			heirs = append(heirs, r.Run)
		}
	}
	return heirs
}

// bequeath sees to the entry of the cache for the result in a run's record: a later run that took the result over has it from now on, as old
// as it is; where there is none the entry goes, since it refers to what the result is made of.
func bequeath(ctx context.Context, s *store.Store, key, run string, heirs []string) error {
	var result record.Result
	switch err := s.GetJSON(ctx, key, &result); {
	case errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt) || err == nil && result.Key == "":
		return nil
	case err != nil:
		return err
	}
	entry := record.CacheKey(result.Key)
	var cached record.Cached
	switch err := s.GetJSON(ctx, entry, &cached); {
	case errors.Is(err, store.ErrNotFound) || err == nil && cached.At.Run != run:
		return nil
	case err != nil && !errors.Is(err, store.ErrCorrupt):
		return err
	}
	for _, heir := range heirs {
		at := cached.At
		at.Run = heir
		var taken record.StepRecord
		err := s.GetJSON(ctx, record.Key(at), &taken)
		if err == nil && taken.Key == result.Key && taken.Status == spec.StatusSucceeded {
			return s.PutJSON(ctx, entry, record.Result{StepRecord: taken, Cached: record.Cached{At: at}}, store.WriteOptions{})
		}
		if err != nil && !errors.Is(err, store.ErrNotFound) && !errors.Is(err, store.ErrCorrupt) {
			return err
		}
	}
	return s.Driver().Delete(ctx, entry)
}

// RemoveCheckpoints removes the checkpoints of the trainings of a run and its children that succeeded: nothing resumes from them. It keeps
// the checkpoints of a run from which a training of an open run started, because that training may need them again.
func RemoveCheckpoints(ctx context.Context, s *store.Store, all []record.RunRecord, run string) error {
	started := map[string]bool{}
	for _, r := range all {
		if r.Status != spec.StatusRunning || r.Run == run {
			continue
		}
		sources, err := checkpoint.Sources(ctx, s, r.Run)
		if err != nil {
			return err
		}
		for _, from := range sources {
			started[from] = true
		}
	}
	for _, r := range append(Children(all, run), record.RunRecord{Run: run}) {
		if started[r.Run] {
			continue
		}
		if err := removeCheckpoints(ctx, s, r.Run); err != nil {
			return fmt.Errorf("remove the checkpoints of run %s: %w", r.Run, err)
		}
	}
	return nil
}

func removeCheckpoints(ctx context.Context, s *store.Store, run string) error {
	trainings := map[string]bool{} // by the ID of the step or instance
	prefix := store.CheckpointsPrefix + run + "/"
	for info, err := range s.Driver().List(ctx, prefix) {
		if err != nil {
			return err
		}
		id, _, _ := strings.Cut(strings.TrimPrefix(info.Key, prefix), "/")
		trainings[id] = true
	}
	for id := range trainings {
		at := record.StepRef{Run: run, Step: id}
		if step, index := record.SplitStep(id); index >= 0 {
			at.Step, at.Instance = step, &record.Instance{Index: index}
		}
		var step record.StepRecord
		if err := s.GetJSON(ctx, record.Key(at), &step); err != nil && !errors.Is(err, store.ErrNotFound) {
			return err
		}
		if step.Status != spec.StatusSucceeded {
			continue
		}
		for _, below := range []string{prefix + id + "/", store.PartsPrefix + prefix + id + "/"} { // the manifests first: what remains is no commit
			if err := s.RemoveAll(ctx, below); err != nil {
				return err
			}
		}
	}
	return nil
}
