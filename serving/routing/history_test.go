package routing

import (
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
)

// set makes the next revision of a target.
func set(t *testing.T, s *store.Store, doc Document) Document {
	t.Helper()
	doc, err := Set(t.Context(), s, doc.Revision, doc)
	if err != nil {
		t.Fatal(err)
	}
	return doc
}

// TestReleases: those that left the document are still known, with who changed them last and how their rollouts ended.
func TestReleases(t *testing.T) {
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	release := func(version string, weight float64) Release {
		return Release{Version: version, Model: artifact.Ref{Type: artifact.Model, Digest: "sha256:" + version}, Run: "r" + version, Step: "ship", Weight: weight}
	}
	doc := set(t, s, Document{Target: "t", Versions: 1, Releases: []Release{release("1", 1)}, By: "r1/ship"})
	doc.Versions, doc.Releases, doc.By = 2, []Release{release("1", 1), release("2", 0)}, "r2/ship"
	doc = set(t, s, doc)
	doc.Shadow = &Shadow{Version: "2", Share: 1}
	doc = set(t, s, doc)
	doc.Shadow, doc.Releases, doc.By, doc.Reason = nil, []Release{release("2", 1), release("1", 0)}, "user:ann", "now"
	doc = set(t, s, doc)
	doc.Versions, doc.Releases, doc.By, doc.Reason = 3, []Release{release("2", 1), release("3", 0)}, "r3/ship", ""
	doc = set(t, s, doc)
	if err := PutOutcome(t.Context(), s, Outcome{Target: "t", Version: "2", Decision: Promoted, At: time.Unix(1, 0).UTC()}); err != nil {
		t.Fatal(err)
	}
	type row struct {
		version  string
		weight   float64
		state    State
		by       string
		reason   string
		decision string
	}
	got := func() (rows []row) {
		all, err := Releases(t.Context(), s, "t")
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range all {
			rows = append(rows, row{r.Version, r.Weight, r.State, r.By, r.Reason, r.End.Decision})
		}
		return rows
	}
	want := []row{{"3", 0, Loaded, "r3/ship", "", ""}, {"2", 1, Serving, "user:ann", "now", Promoted}, {"1", 0, Gone, "r3/ship", "", ""}}
	if diff := cmp.Diff(want, got(), cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("releases (-want +got):\n%s", diff)
	}

	// Whoever is late changes nothing; the way back keeps what served. A release that was dropped comes back as a new one.
	late := doc
	late.Revision--
	if _, err := RollBack(t.Context(), s, late, release("1", 0), "user:bob", ""); !errors.Is(err, ErrConflict) {
		t.Errorf("a rollback of an earlier revision: %v, want a conflict", err)
	}
	if doc, err = RollBack(t.Context(), s, doc, release("1", 0), "user:bob", "bad"); err != nil {
		t.Fatal(err)
	}
	want = []row{
		{"4", 1, Serving, "user:bob", "bad", Promoted},
		{"3", 0, Gone, "user:bob", "bad", RolledBack}, // it never had traffic
		{"2", 0, Loaded, "user:bob", "bad", Promoted},
		{"1", 0, Gone, "r3/ship", "", ""},
	}
	if diff := cmp.Diff(want, got(), cmp.AllowUnexported(row{})); diff != "" {
		t.Errorf("releases after the rollback (-want +got):\n%s", diff)
	}
	if doc, err = RollBack(t.Context(), s, doc, release("2", 0), "user:bob", ""); err != nil || doc.Versions != 4 || doc.Releases[0].Version != "2" {
		t.Errorf("back to what is loaded: %+v, %v", doc, err)
	}
	if doc, err = RollBack(t.Context(), s, doc, release("1", 0), "user:bob", ""); err != nil || doc.Versions != 4 || doc.Releases[0].Version != "4" {
		t.Errorf("back to the release that takes 1 back: %+v, %v", doc, err)
	}
}

// TestReleaseWithoutAnEnd: a candidate that left the document has no rollout that goes on, also where nobody could record its end, and the
// reason is that of the revision.
func TestReleaseWithoutAnEnd(t *testing.T) {
	for name, weight := range map[string]float64{"not loaded": 0, "it had traffic": 0.1} {
		t.Run(name, func(t *testing.T) { testReleaseWithoutAnEnd(t, weight) })
	}
}

func testReleaseWithoutAnEnd(t *testing.T, weight float64) {
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	model := artifact.Ref{Type: artifact.Model, Digest: "sha256:x"}
	served, bad := Release{Version: "1", Model: model, Run: "r1", Step: "ship", Weight: 1}, Release{Version: "2", Model: model, Run: "r2", Step: "ship"}
	doc := set(t, s, Document{Target: "t", Versions: 2, Releases: []Release{served, bad}, Candidate: "2", Stable: "1", By: "r2/ship"})
	last := func() Outcome {
		t.Helper()
		all, err := Releases(t.Context(), s, "t")
		if err != nil || len(all) != 2 {
			t.Fatalf("%+v, %v", all, err)
		}
		return all[0].End
	}
	doc.Releases[0].Weight, doc.Releases[1].Weight = 1-weight, weight
	doc = set(t, s, doc)
	if end := last(); end != (Outcome{}) {
		t.Errorf("while it is there: %+v", end)
	}
	doc.Releases, doc.Candidate, doc.Stable, doc.Reason = []Release{served}, "", "", "it is garbage"
	doc = set(t, s, doc)
	want := Outcome{Target: "t", Version: "2", Run: "r2", Step: "ship", Decision: RolledBack, Reason: "it is garbage", At: doc.UpdatedAt}
	if diff := cmp.Diff(want, last()); diff != "" {
		t.Errorf("afterwards (-want +got):\n%s", diff)
	}
}

// TestRefused: what a person did last against a model counts, until it serves again.
func TestRefused(t *testing.T) {
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	model := func(digest string) artifact.Ref {
		return artifact.Ref{Type: artifact.Model, Digest: "sha256:" + digest}
	}
	release := func(version, digest string, weight float64) Release {
		return Release{Version: version, Model: model(digest), Run: "r" + version, Step: "ship", Weight: weight}
	}
	doc := Document{Target: "t"}
	becomes := func(by, candidate string, releases ...Release) {
		t.Helper()
		doc.Versions, doc.By, doc.Candidate, doc.Releases = 9, by, candidate, releases
		doc = set(t, s, doc)
	}
	refused := func(digest, version string) {
		t.Helper()
		got, ok, err := Refused(t.Context(), s, "t", model(digest))
		if err != nil || ok != (version != "") || got.Version != version {
			t.Errorf("model %s: release %q, %v, %v; want %q", digest, got.Version, ok, err, version)
		}
	}
	refused("a", "")
	becomes("r1/ship", "", release("1", "a", 1))
	becomes("r2/ship", "2", release("1", "a", 0.5), release("2", "b", 0.5))
	becomes("user:ann", "", release("1", "a", 0), release("2", "b", 1)) // promoted by hand
	refused("a", "")
	refused("b", "")
	becomes("user:ann", "", release("1", "a", 1), release("2", "b", 0)) // rolled back
	refused("a", "")
	refused("b", "2")
	becomes("r3/ship", "3", release("1", "a", 0), release("3", "b", 1)) // released again by hand, up to its last stage
	refused("b", "2")
	becomes("r3/ship", "", release("1", "a", 0), release("3", "b", 1))
	refused("b", "")
	becomes("user:bob", "", release("1", "a", 1), release("3", "b", 0))
	becomes("user:bob", "", release("1", "a", 0), release("3", "b", 1)) // and the way back
	refused("a", "")
	refused("b", "")
	becomes("r4/ship", "4", release("3", "b", 0.5), release("4", "c", 0.5))
	becomes("r4/ship", "", release("3", "b", 1)) // a test has found it worse: the next one may find it good
	refused("c", "")
	becomes("r5/ship", "5", release("3", "b", 0.5), release("5", "c", 0.5))
	becomes("user:ann", "", release("3", "b", 1)) // aborted
	refused("c", "5")
	refused("b", "")
}
