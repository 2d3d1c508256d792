// Package registry keeps the names under which datasets and models are published: their versions, which one is current, and tags.
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

// Published is one version of a dataset or model under a name. A version is identified by its content: if the same content is published
// twice, it is one version with two records.
type Published struct {
	Name     string       `json:"name"`
	Artifact artifact.Ref `json:"artifact"`
	// Run and Step made it.
	Run  string    `json:"run"`
	Step string    `json:"step"`
	At   time.Time `json:"at"`
	// By is the run that published it, if that run reused the result of Run.
	By string `json:"by,omitempty"`
	// Parents are the step's input artifacts, by the name of the input.
	Parents map[string]artifact.Ref `json:"parents,omitempty"`
	// Spec is the digest of the blob of the step's resolved spec.
	Spec string `json:"spec,omitempty"`
	// Statistics is the digest of the blob of the dataset's profile, where a clean step made it.
	Statistics string `json:"statistics,omitempty"`
	// Pointed is set in the record of a current version, to the time when a person made it the current one by hand.
	Pointed time.Time `json:"pointed,omitzero"`
}

// since returns when the version became the current one of its name.
func (v Published) since() time.Time {
	if v.Pointed.IsZero() {
		return v.At
	}
	return v.Pointed
}

// versionsPrefix returns the prefix of the versions of a name.
func versionsPrefix(typ artifact.Type, name string) string {
	return store.RegistryPrefix + string(typ) + "/" + name + "/"
}

// Publish registers a version and makes it the current one of its name, unless a newer one is current, or a person has pointed the name to
// another version and this one had been published before, also if it was removed since. A reused result is ignored if the name has ever had that version, because nothing
// new was made. registered reports whether the version was registered. behind says why another version stays current; it is empty if none
// does.
func Publish(ctx context.Context, s *store.Store, v Published) (registered bool, behind string, err error) {
	v, err = placed(ctx, s, v)
	if err != nil {
		return false, "", err
	}
	known, err := hasVersion(ctx, s, v)
	if err != nil {
		return false, "", err
	}
	if !known {
		if known, err = hadVersion(ctx, s, v); err != nil {
			return false, "", err
		}
	}
	if known && v.By != "" {
		behind, err := staysBehind(ctx, s, v)
		return false, behind, err
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
		case newest.Artifact.Digest == v.Artifact.Digest: // it is already the current one, whichever step made it
			behind = ""
		case pointed:
			behind = behindRollback
		default:
			behind = "not current, because another version is newer"
		}
		return last, false
	})
	return err == nil, behind, err
}

// staysBehind says why a reused result, whose version the name has had, does not become the current one; empty if it is.
func staysBehind(ctx context.Context, s *store.Store, v Published) (string, error) {
	last, err := lastMove(ctx, s, v.Artifact.Type, v.Name)
	switch {
	case err != nil || last.Version.Artifact.Digest == v.Artifact.Digest:
		return "", err
	case last.ByHand():
		return behindRollback, nil
	}
	return "not current, because the reused result had been published before, and another version since", nil
}

const behindRollback = "not current, because a rollback to another version is in effect"

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

// hasVersion reports whether another step has already published this version under the name. Records of the same step do not count, because
// a step may be retried.
func hasVersion(ctx context.Context, s *store.Store, v Published) (bool, error) {
	all, err := Versions(ctx, s, v.Artifact.Type, v.Name)
	return slices.ContainsFunc(all, func(other Published) bool {
		own := other.Run == v.Run && other.Step == v.Step && other.By == v.By
		return other.Artifact.Digest == v.Artifact.Digest && !own
	}), err
}

// PointTo makes a version the current one of its name on behalf of a person, with an optional reason. All versions stay. The next version
// that is new to the name becomes the current one.
func PointTo(ctx context.Context, s *store.Store, v Published, by, reason string, now time.Time) error {
	v.Pointed = now
	return move(ctx, s, v.Artifact.Type, v.Name, func(Move) (Move, bool) { return Move{At: now, By: by, Reason: reason, Version: v}, true })
}

// Current returns the current version of every published name of a type.
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
	all := make(map[string]Published, len(moves))
	for _, m := range moves {
		if m != nil { // not removed in the meantime
			all[m.Version.Name] = m.Version
		}
	}
	return all, nil
}

// Refs returns the current version of every published name and, as NAME@TAG, every tagged version.
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
			v.Statistics = "" // an output of a user program that happens to have this name
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
	// By is the person.
	By string `json:"by,omitempty"`
}

func tagsPrefix(typ artifact.Type, name string) string {
	return store.TagsPrefix + string(typ) + "/" + name + "/"
}

// PutTag gives a version a tag, or moves one to it.
func PutTag(ctx context.Context, s *store.Store, typ artifact.Type, t Tag) error {
	return s.PutJSON(ctx, tagsPrefix(typ, t.Name)+t.Tag+".json", t, store.WriteOptions{})
}

// DeleteTag removes a tag.
func DeleteTag(ctx context.Context, s *store.Store, typ artifact.Type, name, tag string) error {
	return s.Driver().Delete(ctx, tagsPrefix(typ, name)+tag+".json")
}

// Tags returns the tags of a published name.
func Tags(ctx context.Context, s *store.Store, typ artifact.Type, name string) ([]Tag, error) {
	return store.RecordsIn[Tag](ctx, s, tagsPrefix(typ, name), nil)
}
