// Package registry is what datasets and models have been published under which names: versions, which of them is current, and tags.
package registry

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

// Published is one version of a dataset or model under a name. A version is what it holds: what is published twice is one version,
// with two records.
type Published struct {
	Name     string       `json:"name"`
	Artifact artifact.Ref `json:"artifact"`
	// Run and Step made it.
	Run  string    `json:"run"`
	Step string    `json:"step"`
	At   time.Time `json:"at"`
	// By is the run that published it, where that took it over from Run.
	By string `json:"by,omitempty"`
	// Parents are the artifacts that the step was given, by the name of the input.
	Parents map[string]artifact.Ref `json:"parents,omitempty"`
	// Spec is the digest of the blob of the step's resolved spec.
	Spec string `json:"spec,omitempty"`
	// Statistics is the digest of the blob of the dataset's profile, where a clean step made it.
	Statistics string `json:"statistics,omitempty"`
	// Pointed is, in the record of what a name means now, when it was made to mean that by hand.
	Pointed time.Time `json:"pointed,omitzero"`
}

// since is from when on a name means the version.
func (v Published) since() time.Time {
	if v.Pointed.IsZero() {
		return v.At
	}
	return v.Pointed
}

// newestKey is where the current version of a published name is.
func newestKey(typ artifact.Type, name string) string {
	return store.PublishedPrefix + string(typ) + "/" + name + ".json"
}

// versionsPrefix is where the versions of a name are.
func versionsPrefix(typ artifact.Type, name string) string {
	return store.RegistryPrefix + string(typ) + "/" + name + "/"
}

// Publish registers a version, and makes it the current one of its name, unless a newer one is already, or a person has pointed the
// name to another version and this one is none that he had not seen. A result that was taken over is left alone when the name ever had
// that version: nothing was made. It reports whether the version is registered, and says why another one stays current; nothing where none does.
func Publish(ctx context.Context, s *store.Store, v Published) (registered bool, behind string, err error) {
	v, err = placed(ctx, s, v)
	if err != nil {
		return false, "", err
	}
	known, err := hasVersion(ctx, s, v)
	if err != nil || known && v.By != "" {
		return false, "", err
	}
	key := versionKey(v)
	if err := s.PutJSON(ctx, key, v, store.WriteOptions{}); err != nil {
		return false, "", err
	}
	err = move(ctx, s, v.Artifact.Type, v.Name, func(last Move) (Move, bool) {
		newest, pointed := last.Version, known && last.ByHand()
		switch {
		case !pointed && !newest.since().After(v.At):
			behind = ""
			own := newest.Artifact.Digest == v.Artifact.Digest && newest.Run == v.Run && newest.Step == v.Step && newest.By == v.By
			return Move{At: time.Now().UTC(), By: cmp.Or(v.By, v.Run) + "/" + v.Step, Version: v}, !own
		case newest.Artifact.Digest == v.Artifact.Digest: // that is the current one, whoever made it
			behind = ""
		case pointed:
			behind = "not current, because a rollback to another version is in effect"
		default:
			behind = "not current, because another version is newer"
		}
		return last, false
	})
	return err == nil, behind, err
}

// placed returns a version as it is recorded. If another version is already recorded for the run and step that made a reused result, which
// happens when a step with another name made it, the version is recorded for the run that reused it.
func placed(ctx context.Context, s *store.Store, v Published) (Published, error) {
	if v.By == "" {
		return v, nil
	}
	var there Published
	err := s.GetJSON(ctx, versionKey(v), &there)
	switch {
	case errors.Is(err, store.ErrNotFound) || errors.Is(err, store.ErrCorrupt):
		return v, nil
	case err == nil && there.Artifact.Digest != v.Artifact.Digest:
		v.Run = v.By
	}
	return v, err
}

// versionKey is the key of a version's record.
func versionKey(v Published) string {
	return fmt.Sprintf("%s%s-%s.json", versionsPrefix(v.Artifact.Type, v.Name), v.Run, v.Step)
}

// hasVersion reports whether a name had a version before, from another step than this, which may be tried again.
func hasVersion(ctx context.Context, s *store.Store, v Published) (bool, error) {
	all, err := Versions(ctx, s, v.Artifact.Type, v.Name)
	return slices.ContainsFunc(all, func(other Published) bool {
		own := other.Run == v.Run && other.Step == v.Step && other.By == v.By
		return other.Artifact.Digest == v.Artifact.Digest && !own
	}), err
}

// PointTo makes a version the current one of its name, as a person says it, with the reason if they give one. Every version stays; the next
// one that the name did not have before becomes the current one.
func PointTo(ctx context.Context, s *store.Store, v Published, by, reason string, now time.Time) error {
	v.Pointed = now
	return move(ctx, s, v.Artifact.Type, v.Name, func(Move) (Move, bool) { return Move{At: now, By: by, Reason: reason, Version: v}, true })
}

// Current returns what every published name of a type means now.
func Current(ctx context.Context, s *store.Store, typ artifact.Type) (map[string]Published, error) {
	last := map[string]string{} // the key of each name's last move
	prefix := store.HistoryPrefix + string(typ) + "/"
	for info, err := range s.Driver().List(ctx, prefix) {
		if err != nil {
			return nil, err
		}
		last[path.Dir(strings.TrimPrefix(info.Key, prefix))] = info.Key
	}
	moves, err := store.Records[Move](ctx, s, slices.Collect(maps.Values(last)))
	if err != nil {
		return nil, err
	}
	// What earlier versions of Sluice have published, and nothing has moved since.
	prefix = store.PublishedPrefix + string(typ) + "/"
	versions, err := store.RecordsIn[Published](ctx, s, prefix, func(key string) bool {
		return last[strings.TrimSuffix(strings.TrimPrefix(key, prefix), ".json")] == ""
	})
	for _, m := range moves {
		if m != nil { // it was not removed meanwhile
			versions = append(versions, m.Version)
		}
	}
	all := make(map[string]Published, len(versions))
	for _, v := range versions {
		all[v.Name] = v
	}
	return all, err
}

// Refs returns what every published name means now, and as NAME@TAG the version with a tag.
func Refs(ctx context.Context, s *store.Store, typ artifact.Type) (map[string]artifact.Ref, error) {
	current, err := Current(ctx, s, typ)
	all := make(map[string]artifact.Ref, len(current))
	for name, v := range current {
		all[name] = v.Artifact
	}
	if err != nil {
		return nil, err
	}
	tags, err := store.RecordsIn[Tag](ctx, s, store.TagsPrefix+string(typ)+"/", nil)
	if err != nil {
		return nil, err
	}
	versions := map[string][]Published{} // of the names that have tags
	for _, t := range tags {
		if _, read := versions[t.Name]; !read {
			if versions[t.Name], err = Versions(ctx, s, typ, t.Name); err != nil {
				return nil, err
			}
		}
		for _, v := range versions[t.Name] {
			if v.Artifact.Digest == t.Digest {
				all[t.Name+"@"+t.Tag] = v.Artifact
			}
		}
	}
	return all, nil
}

// Versions returns all records of a published name, newest first.
func Versions(ctx context.Context, s *store.Store, typ artifact.Type, name string) ([]Published, error) {
	all, err := store.RecordsIn[Published](ctx, s, versionsPrefix(typ, name), nil)
	slices.SortFunc(all, func(a, b Published) int {
		if c := b.At.Compare(a.At); c != 0 {
			return c
		}
		return strings.Compare(b.Run+"/"+b.Step, a.Run+"/"+a.Step)
	})
	return all, err
}

// PublishedBy returns the records of the versions that a run made and that were published, by name.
func PublishedBy(ctx context.Context, s *store.Store, typ artifact.Type, run string) ([]Published, error) {
	all, err := store.RecordsIn[Published](ctx, s, store.RegistryPrefix+string(typ)+"/", func(key string) bool {
		return strings.HasPrefix(path.Base(key), run+"-")
	})
	return slices.DeleteFunc(all, func(v Published) bool { return v.Run != run }), err
}

// AddLineage adds to a version what it was made from and how: the inputs in the resolved spec of the step, and that spec.
func AddLineage(ctx context.Context, s *store.Store, resolved json.RawMessage, outputs map[string]json.RawMessage, v *Published) error {
	var spec struct {
		Inputs map[string]artifact.Ref `json:"inputs"`
	}
	if err := json.Unmarshal(resolved, &spec); err != nil {
		return fmt.Errorf("the spec of %s: %w", v.Step, err)
	}
	v.Parents = spec.Inputs
	var err error
	if v.Spec, _, err = s.PutBlob(ctx, bytes.NewReader(resolved)); err != nil {
		return err
	}
	if raw, ok := outputs["statistics"]; ok && v.Artifact.Type == artifact.Dataset {
		if json.Unmarshal(raw, &v.Statistics) != nil {
			v.Statistics = "" // an output that a program of the user's calls so
		}
	}
	return nil
}

// Tag is a name that a person gave to a version.
type Tag struct {
	// Name is what the version is published under.
	Name   string    `json:"dataset"`
	Tag    string    `json:"tag"`
	Digest string    `json:"digest"`
	At     time.Time `json:"at"`
	// By is the person; empty where an earlier version of Sluice did not say.
	By string `json:"by,omitempty"`
}

func tagsPrefix(typ artifact.Type, name string) string {
	return store.TagsPrefix + string(typ) + "/" + name + "/"
}

// PutTag gives a version a tag, or moves one to it.
func PutTag(ctx context.Context, s *store.Store, typ artifact.Type, t Tag) error {
	return s.PutJSON(ctx, tagsPrefix(typ, t.Name)+t.Tag+".json", t, store.WriteOptions{})
}

// DeleteTag takes a tag away.
func DeleteTag(ctx context.Context, s *store.Store, typ artifact.Type, name, tag string) error {
	return s.Driver().Delete(ctx, tagsPrefix(typ, name)+tag+".json")
}

// Tags returns the tags of a published name.
func Tags(ctx context.Context, s *store.Store, typ artifact.Type, name string) ([]Tag, error) {
	return store.RecordsIn[Tag](ctx, s, tagsPrefix(typ, name), nil)
}
