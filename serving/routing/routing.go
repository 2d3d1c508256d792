// Package routing keeps the document that says which releases a serving target has and how traffic is split between them. Every change is a
// new revision, written with create-if-absent: if two writers saw the same revision, only one succeeds, and a change that arrives late,
// such as a traffic step that timed out before a rollback, changes nothing.
//
// It also stores what the gateways of a target report: one record for each life of a gateway, which only that gateway writes. It is all that
// gateways and rollouts need to know about each other, so they may run on any machines that reach the store.
//
// Times of different machines are never compared: whether a gateway is alive is seen from whether its beats continue.
package routing

import (
	"context"
	"errors"
	"fmt"
	"math"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

// ErrConflict means that the document is no longer at the revision for which the change was made. Read it again and decide again.
var ErrConflict = errors.New("the target's routing has changed in the meantime")

// Document is the routing of one target. It is authoritative: a gateway that restarts serves what it says.
type Document struct {
	// Target is also the model's name in the inference protocol.
	Target string `json:"target"`
	// Revision counts the changes; 0 means that nothing was ever released.
	Revision int64 `json:"revision"`
	// Versions is how many versions were ever released; the next is one higher.
	Versions int64     `json:"versions"`
	Releases []Release `json:"releases"`
	// Candidate is the release that a rollout is trying; empty when there is no rollout.
	Candidate string `json:"candidate,omitempty"`
	// Stable is the release that served before the candidate, if any. While there is a candidate, a gateway that cannot know whether the
	// document is still current serves only this release.
	Stable string `json:"stable,omitempty"`
	// Shadow mirrors requests to a release, when set.
	Shadow *Shadow `json:"shadow,omitempty"`
	// Sticky, when set, gives the requests of one key the same release. Only rollouts set it.
	Sticky *Sticky `json:"sticky,omitempty"`
	// Front is where the gateways of workers listen and whom they let in: what the environment of the first release said, or of the one that
	// was promoted last. It is nil before the first release.
	Front     *spec.Front `json:"front,omitempty"`
	UpdatedAt time.Time   `json:"updated_at"`
	// By is the step of a run, RUN/STEP, or the person that made this revision, and Reason why.
	By     string `json:"by,omitempty"`
	Reason string `json:"reason,omitempty"`
}

// Release is a model version at a target.
type Release struct {
	// Version is a number, counted per target.
	Version string       `json:"version"`
	Model   artifact.Ref `json:"model"`
	// Run and Step are what released it.
	Run  string `json:"run"`
	Step string `json:"step"`
	// Of is the earlier release to which this one rolls back, if that was no longer loaded: a dropped version never comes back itself, so
	// that a gateway which is behind removes nothing that is needed.
	Of string `json:"of,omitempty"`
	// Compare says how its answers are compared with those of others and with labels, while it is tried and serves.
	Compare []spec.Compare `json:"compare,omitempty"`
	// LossBound is the largest difference of an answer and its label that counts; 0: losses are not counted.
	LossBound float64 `json:"loss_bound,omitempty"`
	// WarmUp are the rows with which the model is warmed up before it gets traffic; nil for made-up ones, which also replace rows that have
	// been removed.
	WarmUp *Rows `json:"warm_up,omitempty"`
	// Weight is its share of the traffic, 0 to 1; those of all releases add up to 1, or to 0 when nothing serves.
	Weight float64 `json:"weight"`
}

// Rows are those of a dataset's split. They do not keep the dataset in the store, as a digest in a record would: routing documents are kept
// for ever, and whoever removes data wants it gone.
type Rows struct {
	// SHA256 is the dataset's digest without the prefix by which the collector finds it.
	SHA256 string `json:"sha256"`
	Split  string `json:"split"`
}

const digestPrefix = "sha256:"

// RowsOf names the rows of a dataset's split.
func RowsOf(dataset artifact.Ref, split string) *Rows {
	return &Rows{SHA256: strings.TrimPrefix(dataset.Digest, digestPrefix), Split: split}
}

// Dataset is where the rows are, as long as something else keeps it.
func (r Rows) Dataset() artifact.Ref {
	return artifact.Ref{Type: artifact.Dataset, Digest: digestPrefix + r.SHA256}
}

// Shadow says which share of requests a release gets copies of. Its answers are compared and thrown away.
type Shadow struct {
	Version string  `json:"version"`
	Share   float64 `json:"share"`
}

// Release returns the release of a version.
func (d Document) Release(version string) (Release, bool) {
	for _, r := range d.Releases {
		if r.Version == version {
			return r, true
		}
	}
	return Release{}, false
}

// Serving returns the release with the largest share of the traffic, false when nothing serves.
func (d Document) Serving() (Release, bool) {
	var best Release
	for _, r := range d.Releases {
		if r.Weight > best.Weight {
			best = r
		}
	}
	return best, best.Weight > 0
}

// Judged is the release whose rules compare answers: the candidate of a rollout, else the serving release; false if there is neither.
func (d Document) Judged() (Release, bool) {
	if tried, ok := d.Release(d.Candidate); ok {
		return tried, true
	}
	return d.Serving()
}

// UnderWay reports whether releases are being compared.
func (d Document) UnderWay() bool {
	serving, _ := d.Serving()
	return d.Candidate != "" || d.Shadow != nil || serving.Weight > 0 && serving.Weight < 1
}

// Protected reports whether a release serves that no rollout is trying, so that clients depend on the front that there is.
func (d Document) Protected() bool {
	serving, ok := d.Serving()
	return ok && (serving.Version != d.Candidate || d.Stable != "")
}

var targetName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,62}$`)

// Validate checks what Set refuses to write.
func (d Document) Validate() error {
	if !targetName.MatchString(d.Target) {
		return fmt.Errorf("%q is not a valid target name", d.Target)
	}
	sum := 0.0
	seen := map[string]bool{}
	for _, r := range d.Releases {
		switch n, err := strconv.ParseInt(r.Version, 10, 64); {
		case err != nil || n < 1 || n > d.Versions:
			return fmt.Errorf("release %q of target %s: versions are numbers from 1 to %d", r.Version, d.Target, d.Versions)
		case seen[r.Version]:
			return fmt.Errorf("release %s of target %s is listed twice", r.Version, d.Target)
		case r.Model.IsZero():
			return fmt.Errorf("release %s of target %s has no model", r.Version, d.Target)
		case math.IsNaN(r.Weight) || r.Weight < 0 || r.Weight > 1:
			return fmt.Errorf("release %s of target %s has weight %v, which is not between 0 and 1", r.Version, d.Target, r.Weight)
		}
		seen[r.Version] = true
		sum += r.Weight
	}
	if sum != 0 && math.Abs(sum-1) > 1e-9 {
		return fmt.Errorf("the weights of target %s add up to %v, not to 1", d.Target, sum)
	}
	if d.Candidate != "" && !seen[d.Candidate] || d.Stable != "" && !seen[d.Stable] {
		return fmt.Errorf("target %s: the rollout of release %q beside %q; both must be releases", d.Target, d.Candidate, d.Stable)
	}
	if s := d.Shadow; s != nil && (!seen[s.Version] || math.IsNaN(s.Share) || s.Share <= 0 || s.Share > 1) {
		return fmt.Errorf("the shadow of target %s: release %q with share %v; it must be a release, with a share above 0 and up to 1",
			d.Target, s.Version, s.Share)
	}
	return d.Sticky.validate(d.Target)
}

func prefix(target string) string { return store.RoutingPrefix + target + "/" }

func key(target string, revision int64) string {
	return fmt.Sprintf("%s%020d", prefix(target), revision)
}

// At reads one revision of a target's routing. store.ErrNotFound when there is none such (yet).
func At(ctx context.Context, s *store.Store, target string, revision int64) (Document, error) {
	var d Document
	if err := s.GetJSON(ctx, key(target, revision), &d); err != nil {
		return Document{}, fmt.Errorf("routing of target %s, revision %d: %w", target, revision, err)
	}
	if d.Target != target || d.Revision != revision {
		return Document{}, fmt.Errorf("routing of target %s, revision %d: the record is of %s, revision %d", target, revision, d.Target, d.Revision)
	}
	return d, nil
}

// WrittenAt is when a revision was written, by the clock of the store.
func WrittenAt(ctx context.Context, s *store.Store, target string, revision int64) (time.Time, error) {
	info, err := s.Driver().Stat(ctx, key(target, revision))
	if err != nil {
		return time.Time{}, fmt.Errorf("routing of target %s, revision %d: %w", target, revision, err)
	}
	return info.Modified, nil
}

// Current reads a target's routing. A target nothing was ever released to has revision 0.
func Current(ctx context.Context, s *store.Store, target string) (Document, error) {
	newest := int64(0)
	for info, err := range s.Driver().List(ctx, prefix(target)) {
		if err != nil {
			return Document{}, fmt.Errorf("routing of target %s: %w", target, err)
		}
		revision, err := strconv.ParseInt(strings.TrimPrefix(info.Key, prefix(target)), 10, 64)
		if err != nil {
			return Document{}, fmt.Errorf("routing of target %s: %s is not a revision", target, info.Key)
		}
		newest = revision
	}
	if newest == 0 {
		return Document{Target: target}, nil
	}
	return At(ctx, s, target, newest)
}

// Targets lists the targets that something was ever released to.
func Targets(ctx context.Context, s *store.Store) ([]string, error) {
	var targets []string
	for info, err := range s.Driver().List(ctx, store.RoutingPrefix) {
		if err != nil {
			return nil, fmt.Errorf("list the targets: %w", err)
		}
		target, _, _ := strings.Cut(strings.TrimPrefix(info.Key, store.RoutingPrefix), "/")
		if len(targets) == 0 || targets[len(targets)-1] != target {
			targets = append(targets, target)
		}
	}
	return targets, nil
}

// Set makes doc the target's routing if it still is at the expected revision, and returns it as written. ErrConflict if it is not.
// doc's own revision and time are ignored.
func Set(ctx context.Context, s *store.Store, expected int64, doc Document) (Document, error) {
	doc.Revision, doc.UpdatedAt = expected+1, time.Now().UTC()
	if err := doc.Validate(); err != nil {
		return Document{}, err
	}
	if expected > 0 {
		if _, err := At(ctx, s, doc.Target, expected); errors.Is(err, store.ErrNotFound) {
			return Document{}, fmt.Errorf("%w: target %s has no revision %d", ErrConflict, doc.Target, expected)
		} else if err != nil {
			return Document{}, err
		}
	}
	err := s.PutJSON(ctx, key(doc.Target, doc.Revision), doc, store.WriteOptions{IfAbsent: true})
	if errors.Is(err, store.ErrExists) {
		return Document{}, fmt.Errorf("%w: target %s is past revision %d", ErrConflict, doc.Target, expected)
	}
	if err != nil {
		return Document{}, fmt.Errorf("routing of target %s: %w", doc.Target, err)
	}
	return doc, nil
}
