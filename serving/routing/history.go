package routing

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

// How the rollout of a release may end.
const (
	Promoted   = "promoted"
	RolledBack = "rolled_back"
)

// Outcome is releases/<target>/<version>.json: how the rollout of a release ended.
type Outcome struct {
	Target   string    `json:"target"`
	Version  string    `json:"version"`
	Previous string    `json:"previous,omitempty"`
	Run      string    `json:"run"`
	Step     string    `json:"step"`
	Decision string    `json:"decision"` // Promoted or RolledBack
	Reason   string    `json:"reason,omitempty"`
	At       time.Time `json:"at"`
	// By is the person who ended it; empty where its stages did.
	By string `json:"by,omitempty"`
	// Synthetic says that rows of a dataset were replayed: the requests that decided it, or some of them, were not of users.
	Synthetic bool `json:"synthetic,omitempty"`
}

// PutOutcome records how a rollout ended.
func PutOutcome(ctx context.Context, s *store.Store, o Outcome) error {
	return s.PutJSON(ctx, store.ReleasesPrefix+o.Target+"/"+o.Version+".json", o, store.WriteOptions{})
}

// Revisions returns every revision of a target's routing, oldest first.
func Revisions(ctx context.Context, s *store.Store, target string) ([]Document, error) {
	all, err := store.RecordsIn[Document](ctx, s, prefix(target), nil)
	if err != nil {
		return nil, fmt.Errorf("routing of target %s: %w", target, err)
	}
	return all, nil
}

// State is what a target does with a release now.
type State string

// The states of a release.
const (
	Serving  State = "serving" // it gets traffic
	Mirrored State = "shadow"  // it gets copies of requests
	Loaded   State = "loaded"  // it gets nothing, and could at once
	Gone     State = "removed" // it is not loaded
)

// Past is a release that a target has or had.
type Past struct {
	Release
	State State `json:"state"`
	// Added is when it was first loaded, AddedBy whom, and Changed when its share of the traffic, or its state, last changed: By whom, for
	// Reason.
	Added   time.Time `json:"added"`
	AddedBy string    `json:"added_by,omitempty"`
	Changed time.Time `json:"changed"`
	By      string    `json:"by,omitempty"`
	Reason  string    `json:"reason,omitempty"`
	// End is how its rollout ended; zero while that goes on.
	End Outcome `json:"rollout,omitzero"`
	// tried: it had traffic, or copies of it. onTrial: it is, or was at last, the candidate of a rollout.
	tried, onTrial bool
}

// Releases returns all releases that a target ever had, newest first, with their weights now.
func Releases(ctx context.Context, s *store.Store, target string) ([]Past, error) {
	revisions, err := Revisions(ctx, s, target)
	if err != nil {
		return nil, err
	}
	ends, err := store.RecordsIn[Outcome](ctx, s, store.ReleasesPrefix+target+"/", nil)
	if err != nil {
		return nil, fmt.Errorf("releases of target %s: %w", target, err)
	}
	all := map[string]*Past{}
	for _, doc := range revisions {
		follow(all, doc)
	}
	for _, end := range ends {
		if p := all[end.Version]; p != nil {
			p.End = end
		}
	}
	for _, p := range all {
		if p.End.Decision == "" && p.State == Gone && (p.onTrial || !p.tried) { // who took it out recorded no end, or could not
			p.End = Outcome{Target: target, Version: p.Version, Run: p.Run, Step: p.Step, Decision: RolledBack, Reason: p.Reason, At: p.Changed}
			if strings.HasPrefix(p.By, person) {
				p.End.By = p.By
			}
		}
		if p.Of != "" { // no rollout made it
			p.End = Outcome{
				Target: target, Version: p.Version, Run: p.Run, Step: p.Step, Decision: Promoted, Reason: "takes release " + p.Of + " back", At: p.Added, By: p.AddedBy,
			}
		}
	}
	releases := make([]Past, 0, len(all))
	for _, p := range all {
		releases = append(releases, *p)
	}
	slices.SortFunc(releases, func(a, b Past) int { return number(b.Version) - number(a.Version) })
	return releases, nil
}

// follow brings releases to where a revision puts them.
func follow(all map[string]*Past, doc Document) {
	for _, r := range doc.Releases {
		if all[r.Version] == nil {
			all[r.Version] = &Past{Release: r, Added: doc.UpdatedAt, AddedBy: doc.By}
		}
	}
	for version, p := range all {
		was, had := p.Weight, p.State
		r, there := doc.Release(version)
		p.Weight, p.State = r.Weight, doc.stateOf(version)
		if there {
			p.Release, p.onTrial = r, doc.Candidate == version
		}
		p.tried = p.tried || p.State == Serving || p.State == Mirrored
		if p.Weight != was || p.State != had {
			p.Changed, p.By, p.Reason = doc.UpdatedAt, doc.By, doc.Reason
		}
	}
}

// stateOf is what a target does with a version.
func (d Document) stateOf(version string) State {
	switch r, ok := d.Release(version); {
	case !ok:
		return Gone
	case r.Weight > 0:
		return Serving
	case d.Shadow != nil && d.Shadow.Version == version:
		return Mirrored
	}
	return Loaded
}

// TakenBack says who took a model back from a target, when and why.
type TakenBack struct {
	Version string
	By      string
	Reason  string
	At      time.Time
}

// Refused returns how a person last took a model back from a target, by rolling it back or by aborting its rollout. It returns false if
// nobody did, or if the model has had all traffic again since.
func Refused(ctx context.Context, s *store.Store, target string, model artifact.Ref) (last TakenBack, ok bool, err error) {
	revisions, err := Revisions(ctx, s, target)
	if err != nil {
		return last, false, err
	}
	var was Document
	for _, doc := range revisions {
		serving, _ := doc.Serving()
		tried, trial := was.Release(was.Candidate)
		if !trial {
			tried, _ = was.Serving()
		}
		switch {
		case serving.Model.Digest == model.Digest && doc.Candidate == "":
			last, ok = TakenBack{}, false
		case tried.Model.Digest != model.Digest || !strings.HasPrefix(doc.By, person):
		case number(serving.Original()) < number(tried.Original()): // else a person went on to a newer release
			last, ok = TakenBack{Version: tried.Version, By: doc.By, Reason: doc.Reason, At: doc.UpdatedAt}, true
		}
		was = doc
	}
	return last, ok, nil
}

// person is the prefix of a person's name in Document.By.
const person = "user:"

func number(version string) int {
	n, _ := strconv.Atoi(version) // Validate lets nothing else in
	return n
}

// Original is the number of the release that it is, or takes back.
func (r Release) Original() string { return cmp.Or(r.Of, r.Version) }

// RollBack gives all traffic of a target, whose document is doc, to a release that it had before. If that is not loaded any more, it becomes
// a new release. What served stays loaded, for the way back. ErrConflict when the document has changed meanwhile.
func RollBack(ctx context.Context, s *store.Store, doc Document, to Release, by, reason string) (Document, error) {
	loaded := slices.IndexFunc(doc.Releases, func(r Release) bool { return r.Original() == to.Original() })
	if loaded >= 0 {
		to = doc.Releases[loaded]
	} else {
		doc.Versions++
		to.Of, to.Version = to.Original(), strconv.FormatInt(doc.Versions, 10)
	}
	to.Weight = 1
	releases := []Release{to}
	if was, ok := doc.Serving(); ok && was.Version != to.Version {
		was.Weight = 0
		releases = append(releases, was)
	}
	doc.Releases, doc.Shadow, doc.By, doc.Reason = releases, nil, by, reason
	return Set(ctx, s, doc.Revision, doc)
}
