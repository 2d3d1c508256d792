package control

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
)

// TestRollBack: the newest promoted release before what serves, or the one that is named; never one that no rollout has promoted, nor one whose
// model is gone.
func TestRollBack(t *testing.T) {
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	made := func(weights string) artifact.Ref {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "weights"), []byte(weights), 0o600); err != nil {
			t.Fatal(err)
		}
		model, err := s.PutTree(t.Context(), artifact.Model, dir, nil, nil)
		if err != nil {
			t.Fatal(err)
		}
		return model
	}
	model := made("1")
	models := map[string]artifact.Ref{"2": made("2"), "4": made("4"), "8": made("8")}
	release := func(version string, weight float64) routing.Release {
		r := routing.Release{Version: version, Model: model, Run: "r" + version, Step: "ship", Weight: weight}
		if other, ok := models[version]; ok {
			r.Model = other
		}
		return r
	}
	revision := int64(0)
	set := func(versions int64, releases ...routing.Release) {
		t.Helper()
		doc, err := routing.Set(t.Context(), s, revision, routing.Document{Target: "t", Versions: versions, Releases: releases})
		if err != nil {
			t.Fatal(err)
		}
		revision = doc.Revision
	}
	ended := func(version, decision string) {
		t.Helper()
		if err := routing.PutOutcome(t.Context(), s, routing.Outcome{Target: "t", Version: version, Decision: decision, Reason: "seen"}); err != nil {
			t.Fatal(err)
		}
	}
	check := func(to, wantServing, wantErr string) {
		t.Helper()
		doc, err := RollBack(t.Context(), s, "t", to, "user:ann", "bad")
		if wantErr != "" {
			if err == nil || !strings.Contains(err.Error(), wantErr) {
				t.Errorf("to %q: %v, want %q", to, err, wantErr)
			}
			return
		}
		if err != nil {
			t.Errorf("to %q: %v", to, err)
			return
		}
		revision = doc.Revision
		if serving, _ := doc.Serving(); serving.Version != wantServing || serving.Weight != 1 {
			t.Errorf("to %q: release %s serves %v, want %s", to, serving.Version, serving.Weight, wantServing)
		}
	}
	set(1, release("1", 1))
	ended("1", routing.Promoted)
	check("", "", "no earlier release that was promoted")
	set(2, release("1", 0), release("2", 1))
	ended("2", routing.Promoted)
	set(3, release("2", 1), release("3", 0))
	ended("3", routing.RolledBack)
	set(4, release("2", 0.5), release("4", 0.5))
	check("", "", "the rollout of release 4 has not ended")
	ended("4", routing.Promoted)
	set(4, release("2", 0), release("4", 1))

	check("3", "", "release 3 was never promoted: its rollout was rolled back (seen)")
	check("5", "", `no release "5"; its releases are 4, 3, 2, 1`)
	check("", "2", "")
	check("", "5", "") // it takes 1 back, which is not loaded any more
	check("", "", "no earlier release that was promoted")
	check("4", "6", "") // and so is this
	was := revision
	check("4", "6", "")
	if revision != was {
		t.Error("a rollback to what serves has made a revision")
	}
	gone := release("7", 1)
	gone.Model.Digest = "sha256:" + strings.Repeat("0", 64)
	set(7, gone)
	ended("7", routing.Promoted)
	set(8, release("8", 1))
	ended("8", routing.Promoted)
	check("", "", "files of the model of release 7 have been removed")
	manifest, err := s.Manifest(t.Context(), model)
	if err != nil {
		t.Fatal(err)
	}
	for info, err := range s.Driver().List(t.Context(), "") {
		if err == nil && strings.HasSuffix(info.Key, strings.TrimPrefix(manifest.Files[0].Digest, "sha256:")) {
			err = s.Driver().Delete(t.Context(), info.Key)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	check("1", "", "files of the model of release 1 have been removed") // what lists them is still there
	set(9, release("8", 1), release("9", 0))
	set(9, release("8", 1)) // nobody has said how the rollout of 9 ended
	check("9", "", "release 9 was never promoted: its rollout was rolled back\nhelp: the promoted releases are")
}

// TestRollBackToAnotherModel: a model that was released twice is not taken back to itself, unless somebody names that release.
func TestRollBackToAnotherModel(t *testing.T) {
	release := func(version, digest string, weight float64) routing.Past {
		return routing.Past{
			Release: routing.Release{Version: version, Model: artifact.Ref{Type: artifact.Model, Digest: digest}, Weight: weight},
			End:     routing.Outcome{Decision: routing.Promoted},
		}
	}
	all := []routing.Past{release("4", "b", 1), release("3", "b", 0), release("2", "b", 0), release("1", "a", 0)}
	doc := routing.Document{Target: "t", Versions: 4, Releases: []routing.Release{all[0].Release, all[1].Release}}
	for version, want := range map[string]string{"": "1", "3": "3"} {
		if got, err := wayBack(doc, all, version); err != nil || got.Version != want {
			t.Errorf("to %q: release %s, %v; want %s", version, got.Version, err, want)
		}
	}
	if got, err := wayBack(doc, all[:3], ""); err == nil || !strings.Contains(err.Error(), "has another model than what serves") {
		t.Errorf("without another model: release %s, %v", got.Version, err)
	}
}

// TestWithdraw: a rollout that nobody executes any more leaves the stable release with all traffic.
func TestWithdraw(t *testing.T) {
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	model := artifact.Ref{Type: artifact.Model, Digest: "sha256:x"}
	doc := routing.Document{Target: "t", Versions: 2, Releases: []routing.Release{
		{Version: "1", Model: model, Run: "r1", Step: "ship", Weight: 0.4}, {Version: "2", Model: model, Run: "r2", Step: "ship", Weight: 0.6},
	}}
	if _, err := routing.Set(t.Context(), s, 0, doc); err != nil {
		t.Fatal(err)
	}
	if err := routing.PutOutcome(t.Context(), s, routing.Outcome{Target: "t", Version: "1", Decision: routing.Promoted}); err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		end, done, err := Withdraw(t.Context(), s, "t", "user:ann", "lost")
		if err != nil || done != (i == 0) || done && end.Version != "2" {
			t.Errorf("%+v, %v, %v", end, done, err)
		}
	}
	now, err := routing.Current(t.Context(), s, "t")
	if err != nil {
		t.Fatal(err)
	}
	if serving, _ := now.Serving(); serving.Version != "1" || serving.Weight != 1 || len(now.Releases) != 1 || now.Revision != 2 {
		t.Errorf("the document is %+v", now)
	}
}
