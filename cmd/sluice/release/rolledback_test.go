package release

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/serving/routing"
)

// TestRolledBackSince: how the last rollout ended is not all that has happened to a target.
func TestRolledBackSince(t *testing.T) {
	at := time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)
	one, two := routing.Release{Version: "1"}, routing.Release{Version: "2"}
	again := routing.Release{Version: "3", Of: "1"}
	promoted := routing.Outcome{Version: "2", Previous: "1", Decision: routing.Promoted}
	aborted := routing.Outcome{Version: "2", Previous: "1", Decision: routing.RolledBack}
	for name, test := range map[string]struct {
		serving   routing.Release
		last      routing.Outcome
		candidate string
		want      *takenBack
	}{
		"promoted and serving":         {serving: two, last: promoted},
		"promoted and taken back":      {serving: one, last: promoted, want: &takenBack{To: "1", At: at, By: "user:me", Reason: "bad"}},
		"taken back as a new release":  {serving: again, last: promoted, want: &takenBack{To: "3", Of: "1", At: at, By: "user:me", Reason: "bad"}},
		"aborted":                      {serving: one, last: aborted},
		"aborted, then the newer":      {serving: two, last: aborted, want: &takenBack{To: "2", At: at, By: "user:me", Reason: "bad"}},
		"a rollout runs":               {serving: one, last: promoted, candidate: "4"},
		"the first was never promoted": {serving: one, last: routing.Outcome{}},
	} {
		test.serving.Weight = 1
		doc := routing.Document{Releases: []routing.Release{test.serving}, Candidate: test.candidate}
		var releases []routing.Past
		for _, r := range []routing.Release{again, two, one} {
			releases = append(releases, routing.Past{Release: r, Changed: at, By: "user:me", Reason: "bad"})
		}
		if diff := cmp.Diff(test.want, rolledBackSince(doc, releases, test.last)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
