package release

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/serving/routing"
)

// TestChangesOf: each revision of a target that a rollout makes says what it changed.
func TestChangesOf(t *testing.T) {
	with := func(doc routing.Document, weights ...float64) routing.Document {
		for i, weight := range weights {
			doc.Releases = append(doc.Releases, routing.Release{Version: string(rune('1' + i)), Weight: weight})
		}
		return doc
	}
	front := &spec.Front{}
	revisions := []routing.Document{
		with(routing.Document{Candidate: "1"}, 0),
		with(routing.Document{Candidate: "1"}, 1),
		with(routing.Document{}, 1),
		with(routing.Document{Front: front}, 1),
		with(routing.Document{Front: front, Candidate: "2"}, 1, 0),
		with(routing.Document{Front: front, Candidate: "2", Shadow: &routing.Shadow{Version: "2", Share: 0.5}}, 1, 0),
		with(routing.Document{Front: front}, 0, 1),
		with(routing.Document{Front: front}, 0, 1),
	}
	var got []string
	for _, c := range changesOf(revisions) {
		got = append([]string{c.Change}, got...)
	}
	want := []string{
		"load 1", "1 gets 100%", "end the rollout of 1", "set who may call it, and where", "load 2", "mirror 50% to 2",
		"1 gets 0%, 2 gets 100%, end the shadow of 2", "no change",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("changes (-want +got):\n%s", diff)
	}
}
