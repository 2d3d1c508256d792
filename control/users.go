package control

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/store/registry"
)

// UsersOf describes what refers to some files.
func UsersOf(ctx context.Context, s *store.Store, digests []string) (map[string][]string, error) {
	users := map[string][]string{}
	if len(digests) == 0 {
		return users, nil
	}
	referrers, err := s.Referrers(ctx, digests)
	if err != nil {
		return nil, err
	}
	for _, digest := range digests {
		users[digest] = []string{}
		for _, r := range referrers[digest] {
			for _, user := range userOf(ctx, s, r) {
				if !slices.Contains(users[digest], user) {
					users[digest] = append(users[digest], user)
				}
			}
		}
		if len(users[digest]) == 0 { // what userOf leaves out may be all that is left
			for _, r := range referrers[digest] {
				users[digest] = append(users[digest], "record "+r.Key)
			}
		}
	}
	return users, nil
}

// minor are records that name what runs and versions name, too.
var minor = []string{
	store.HistoryPrefix, store.TagsPrefix, store.RegistryPrefix, store.CachePrefix, store.OpenPrefix,
}

// userOf describes a record that refers to a file. There is nothing to say of a minor one.
func userOf(ctx context.Context, s *store.Store, r store.Referrer) []string {
	if below, ok := strings.CutPrefix(r.Key, store.RunsPrefix); ok {
		run, name, _ := strings.Cut(below, "/")
		if step, ok := strings.CutPrefix(name, "steps/"); ok {
			return outputsNaming(ctx, s, r, run, strings.TrimSuffix(step, ".json"))
		}
		return workspaceNaming(ctx, s, r, run)
	}
	if below, ok := strings.CutPrefix(r.Key, store.InstancesPrefix); ok {
		run, instance, _ := strings.Cut(below, "/")
		return outputsNaming(ctx, s, r, run, strings.ReplaceAll(strings.TrimSuffix(instance, ".json"), "/", "."))
	}
	if strings.HasPrefix(r.Key, store.RegistryPrefix) {
		var v registry.Published
		if s.GetJSON(ctx, r.Key, &v) == nil && v.Artifact.Digest == r.Via[0] {
			return []string{fmt.Sprintf("%s %s@%s", v.Artifact.Type, v.Name, artifact.ShortVersion(v.Artifact.Digest))}
		}
	}
	if slices.ContainsFunc(minor, func(prefix string) bool { return strings.HasPrefix(r.Key, prefix) }) {
		return nil
	}
	return []string{"record " + r.Key}
}

// outputsNaming describes a step's outputs that lead to a file; if none does, the step.
func outputsNaming(ctx context.Context, s *store.Store, r store.Referrer, run, step string) []string {
	at := "run " + run + ", step " + step
	var rec record.StepRecord
	if err := s.GetJSON(ctx, r.Key, &rec); err != nil {
		return []string{at}
	}
	raw, err := record.LoadOutputs(ctx, s, record.StepOutput{Outputs: rec.Outputs, OutputsRef: rec.OutputsRef})
	var outputs map[string]json.RawMessage
	if err != nil || json.Unmarshal(raw, &outputs) != nil {
		return []string{at}
	}
	var users []string
	for _, name := range slices.Sorted(maps.Keys(outputs)) {
		names := func(digest string) bool { return strings.Contains(string(outputs[name]), digest) }
		if slices.ContainsFunc(r.Via, names) {
			users = append(users, at+": output "+name)
		}
	}
	if users == nil {
		users = []string{at}
	}
	return users
}

// workspaceNaming describes the submission of a run if it leads to a file. Whatever else the record of a run names is a version, or an output
// of one of its steps.
func workspaceNaming(ctx context.Context, s *store.Store, r store.Referrer, run string) []string {
	var rec record.RunRecord
	switch err := s.GetJSON(ctx, r.Key, &rec); {
	case err != nil:
		return []string{"run " + run}
	case rec.Submission != r.Via[0]:
		return nil
	case len(r.Via) == 1:
		return []string{"run " + run + ": its submission"}
	}
	return []string{"run " + run + ": its workspace, the submitted folder"}
}
