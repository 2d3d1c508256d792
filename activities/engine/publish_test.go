package engine

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/store/registry"
)

// A result that is taken over was made by another run, and long ago maybe: it is published where the name never had it, as what that run
// made, and moves no name back.
func TestPublishingWhatIsTakenOver(t *testing.T) {
	b := newBench(t, `
steps:
  make:
    run: {command: [make], outputs: {data: {type: dataset, path: data}}}
    gate: data.files > 0.0
    publish: {data: letters}
`)
	end := func(run, from, digest string, now time.Time) contract.StepVerdict {
		t.Helper()
		b.begin(run)
		at := b.at(run, "make").StepRef
		at.Now = now
		word, err := b.engine.Verdict(t.Context(), contract.StepEnd{
			StepRef: at, Kind: spec.KindRun, Status: spec.StatusSucceeded, ReusedFrom: from,
			Output: record.StepOutput{Outputs: json.RawMessage(`{"data": {"type": "dataset", "digest": "` + digest + `", "bytes": 1, "files": 1}}`)},
		})
		if err != nil {
			t.Fatal(err)
		}
		return word
	}
	current := func() registry.Published {
		t.Helper()
		all, err := registry.Current(t.Context(), b.engine.Store, artifact.Dataset)
		if err != nil {
			t.Fatal(err)
		}
		return all["letters"]
	}
	day := b.began
	end("october", "elsewhere", "d1", day)
	if got := current(); got.Artifact.Digest != "d1" || got.Run != "elsewhere" || got.By != "october" {
		t.Errorf("taken over, a version that the name never had is %+v; want d1, made elsewhere", got)
	}
	end("october", "elsewhere", "d1", day) // tried again
	end("november", "", "d2", day.Add(time.Hour))
	if word := end("again", "elsewhere", "d1", day.Add(2*time.Hour)); len(word.Published) != 0 || current().Artifact.Digest != "d2" {
		t.Errorf("taken over, an old version is published: %+v, current is %s", word.Published, current().Artifact.Digest)
	}
	want := []string{"dataset letters (not current, because the reused result had been published before, and another version since)"}
	if diff := cmp.Diff(want, b.record("again", "make").Published); diff != "" {
		t.Errorf("what the run says (-want +got):\n%s", diff)
	}
	all, err := registry.Versions(t.Context(), b.engine.Store, artifact.Dataset, "letters")
	if err != nil || len(all) != 2 {
		t.Errorf("%d versions, %v; want the two that were made", len(all), err)
	}
	if end("back", "", "d1", day.Add(3*time.Hour)); current().Artifact.Digest != "d1" {
		t.Error("made anew, an old version does not become the current one")
	}
}

// TestPublishingWhatAnotherStepMade: a cache key does not name the step, so a step that publishes may reuse the result of another step. The
// version then names that other step, and the version that the publishing step made itself is kept.
func TestPublishingWhatAnotherStepMade(t *testing.T) {
	b := newBench(t, `
steps:
  make:
    run: {command: [make], outputs: {data: {type: dataset, path: data}}}
    gate: data.files > 0.0
    publish: {data: letters}
  other:
    run: {command: [other], outputs: {data: {type: dataset, path: data}}}
`)
	end := func(run, step, from, key, digest string) {
		t.Helper()
		_, err := b.engine.Verdict(t.Context(), contract.StepEnd{
			StepRef: b.at(run, step).StepRef, Kind: spec.KindRun, Status: spec.StatusSucceeded, ReusedFrom: from, Key: key,
			Output: record.StepOutput{Outputs: json.RawMessage(`{"data": {"type": "dataset", "digest": "` + digest + `", "bytes": 1, "files": 1}}`)},
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	b.begin("october")
	end("october", "make", "", "k1", "d1")
	end("october", "other", "", "k2", "d2")
	b.begin("november")
	end("november", "make", "october", "k2", "d2")
	all, err := registry.Versions(t.Context(), b.engine.Store, artifact.Dataset, "letters")
	if err != nil {
		t.Fatal(err)
	}
	versions := map[string]string{}
	for _, v := range all {
		versions[v.Artifact.Digest] = v.Run + "/" + v.Step + " " + v.By
	}
	want := map[string]string{"d1": "october/make ", "d2": "october/other november"}
	if diff := cmp.Diff(want, versions); diff != "" {
		t.Error(diff)
	}
}
