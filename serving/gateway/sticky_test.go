package gateway

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"strings"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/metadata"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/serving/oip"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/serving/stats"
)

// trialTable is the routing of a candidate 2 beside release 1, as gateways serve it.
func trialTable(weight float64, sticky *routing.Sticky) *table {
	t := &table{candidate: "2", sticky: sticky}
	for version, share := range map[string]float64{"1": 1 - weight, "2": weight} {
		r := routing.Release{Version: version, Weight: share}
		t.give(r, &release{Release: r})
	}
	return t
}

// TestSplitMatchesTheWeight: whatever tenth of a percent the weight is, over many requests and over many keys the candidate gets its share.
func TestSplitMatchesTheWeight(t *testing.T) {
	const requests = 40000
	rapid.Check(t, func(t *rapid.T) {
		weight := float64(rapid.IntRange(1, 999).Draw(t, "permille")) / 1000
		sticky := rapid.SampledFrom([]*routing.Sticky{nil, {Header: "X-User"}}).Draw(t, "sticky")
		table := trialTable(weight, sticky)
		target := rapid.StringMatching("[a-z]{1,8}").Draw(t, "target")
		n := 0
		for i := range requests {
			if table.pick(table.draw(target, fmt.Sprint("user", i))).Version == "2" {
				n++
			}
		}
		deviation := math.Sqrt(requests * weight * (1 - weight))
		if off := math.Abs(float64(n) - requests*weight); off > 6*deviation {
			t.Fatalf("the candidate got %d of %d requests at %v", n, requests, weight)
		}
	})
}

// TestKeysKeepTheirRelease: a key has one release at one weight, in any gateway, and one that has the candidate keeps it at a larger weight.
func TestKeysKeepTheirRelease(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.StringN(1, -1, -1).Draw(t, "key")
		had := ""
		for _, permille := range []int{1, 50, 250, 500, 999, 1000} {
			one, other := trialTable(float64(permille)/1000, &routing.Sticky{Field: "u"}), trialTable(float64(permille)/1000, &routing.Sticky{Field: "u"})
			version := one.pick(one.draw("m", key)).Version
			if again := other.pick(other.draw("m", key)).Version; again != version {
				t.Fatalf("key %q has release %s, and %s in another gateway", key, version, again)
			}
			if had == "2" && version != "2" {
				t.Fatalf("key %q lost the candidate at %d permille", key, permille)
			}
			had = version
		}
	})
	// The hash is part of what gateways of different builds agree on.
	for key, want := range map[string]uint64{"ann": 0x9a0171e759589e93, "": 0xb29ce5cc6df3ee3f} {
		if got := hashOf("m", "2", key); got != want {
			t.Errorf("the hash of %q is %#x, want %#x", key, got, want)
		}
	}
	if hashOf("m", "2", "ann") == hashOf("m", "3", "ann") {
		t.Error("the next candidate is tried on the same keys")
	}
}

// TestHeld: what is held is the largest share that the candidate had before, however often a change is made, and begins anew with the next.
func TestHeld(t *testing.T) {
	sticky := &routing.Sticky{Header: "X-User"}
	doc := routing.Document{Target: "m", Versions: 2, Candidate: "2", Stable: "1", Releases: []routing.Release{{Version: "1", Weight: 1}, {Version: "2"}}}
	split := func(weight float64) Split {
		return Split{Weights: map[string]float64{"1": 1 - weight, "2": weight}, Candidate: "2", Stable: "1", Sticky: sticky}
	}
	for _, step := range []struct{ weight, held float64 }{{0, 0}, {0.05, 0}, {0.25, 0.05}, {0.1, 0.25}, {0.5, 0.25}, {1, 0.5}} {
		wanted, err := apply(doc, split(step.weight))
		if err != nil {
			t.Fatal(err)
		}
		if wanted.Sticky.Held != step.held {
			t.Fatalf("at %v %v is held, want %v", step.weight, wanted.Sticky.Held, step.held)
		}
		doc.Revision++
		wanted.Revision = doc.Revision
		again, err := apply(wanted, split(step.weight))
		if err != nil || !made(wanted, again, doc.Revision-1) {
			t.Fatalf("the same change at %v is a conflict: %v", step.weight, err)
		}
		doc = wanted
	}
	next := split(0.05)
	next.Candidate, next.Weights = "1", map[string]float64{"2": 0.95, "1": 0.05}
	if wanted, err := apply(doc, next); err != nil || wanted.Sticky.Held != 0 {
		t.Errorf("the next candidate: %+v, %v", wanted.Sticky, err)
	}
	if wanted, err := apply(doc, Split{Weights: map[string]float64{"2": 1}}); err != nil || wanted.Sticky != nil {
		t.Errorf("after the rollout: %+v, %v", wanted.Sticky, err)
	}
}

// routeSticky begins a rollout of release 2 beside 1.
func (b *bench) routeSticky(t *testing.T, sticky routing.Sticky, releases ...weightedBehaviour) routing.Document {
	t.Helper()
	doc := b.route(t, nil, releases...)
	doc.Candidate, doc.Stable, doc.Sticky = "2", "1", &sticky
	doc, err := routing.Set(t.Context(), b.store, doc.Revision, doc)
	if err != nil {
		t.Fatal(err)
	}
	b.Poke()
	b.untilServing(t, doc.Revision)
	return doc
}

// TestKeysOverRESTAndGRPC: a key is the same key in a header, in metadata, in a parameter and in an input, and has one release.
func TestKeysOverRESTAndGRPC(t *testing.T) {
	b := newBench(t, 0)
	releases := []weightedBehaviour{{"1", "echo", 0.5}, {"2", "echo", 0.5}}
	doc := b.routeSticky(t, routing.Sticky{Header: "X-User"}, releases...)
	conn, client := dial(t, b)
	defer func() { _ = conn.Close() }()
	versions := map[string]string{}
	for i := range 20 {
		user := fmt.Sprint("user", i)
		versions[user] = b.do(http.MethodPost, inferPath, request, "X-User", user).Header().Get(ReleaseHeader)
		for range 3 {
			if got := b.do(http.MethodPost, inferPath, request, "x-user", user).Header().Get(ReleaseHeader); got != versions[user] {
				t.Fatalf("%s has release %s, and then %s", user, versions[user], got)
			}
		}
		var header metadata.MD
		if _, err := client.ModelInfer(metadata.AppendToOutgoingContext(t.Context(), "x-user", user), typed(0.75), grpc.Header(&header)); err != nil {
			t.Fatal(err)
		}
		if got := header.Get(ReleaseHeader); len(got) != 1 || got[0] != versions[user] {
			t.Fatalf("%s has release %s, and %v over gRPC", user, versions[user], got)
		}
	}
	if n := len(byRelease(versions)); n != 2 {
		t.Errorf("20 users have %d releases at 50%%", n)
	}
	c := b.Stats().At(doc.Revision)
	if keys := c.Keyed.First["1"].Requests + c.Keyed.First["2"].Requests; keys != 20 || c.Versions["1"].Requests+c.Versions["2"].Requests != 100 {
		t.Errorf("%d keys in %+v", keys, c.Versions)
	}
	b.routeSticky(t, routing.Sticky{Field: "user"}, releases...)
	for user, want := range versions {
		body := strings.Replace(request, `{`, fmt.Sprintf(`{"parameters":{"user":%q},`, user), 1)
		if got := b.do(http.MethodPost, inferPath, body).Header().Get(ReleaseHeader); got != want {
			t.Fatalf("%s has release %s, and %s by parameter", user, want, got)
		}
	}
	b.routeSticky(t, routing.Sticky{Field: "x"}, releases...)
	number := b.do(http.MethodPost, inferPath, strings.Replace(request, `{`, `{"parameters":{"x":0.75},`, 1)).Header().Get(ReleaseHeader)
	if got := b.do(http.MethodPost, inferPath, request).Header().Get(ReleaseHeader); got != number {
		t.Errorf("the key 0.75 has release %s as a parameter, and %s as an input", number, got)
	}
	for body, want := range map[string]string{
		strings.Replace(request, `"shape":[1,1],"datatype":"FP32","data":[0.75]`, `"shape":[2,1],"datatype":"FP32","data":[1,2]`, 1): `the keys \"1\" and \"2\"`,
		strings.Replace(request, `{`, `{"parameters":{"x":[1]},`, 1):                                                                 `parameters.x is`,
	} {
		if w := b.do(http.MethodPost, inferPath, body); w.Code != http.StatusBadRequest || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d %s, want 400 with %s", w.Code, w.Body, want)
		}
	}
}

func byRelease(versions map[string]string) map[string]bool {
	releases := map[string]bool{}
	for _, v := range versions {
		releases[v] = true
	}
	return releases
}

// TestKeysAreCountedOnce: a key that fails again and again is one error; one that had the candidate before is served and not counted; one that
// names its release is neither.
func TestKeysAreCountedOnce(t *testing.T) {
	b := newBench(t, 0)
	doc := b.routeSticky(t, routing.Sticky{Header: "X-User", Held: 0.25}, weightedBehaviour{"1", "echo", 0.5}, weightedBehaviour{"2", "fails", 0.5})
	var held, moved, stable int
	for i := range 200 {
		user := fmt.Sprint("user", i)
		switch cell := stats.CellOf(hashOf("m", "2", user)); {
		case cell < stats.Cells/4:
			held++
		case cell < stats.Cells/2:
			moved++
		default:
			stable++
		}
		for range 3 {
			b.do(http.MethodPost, inferPath, request, "X-User", user)
		}
		b.do(http.MethodPost, inferPath, request, "X-User", user, VersionHeader, "2")
	}
	c := b.Stats().At(doc.Revision)
	if got := c.Versions["2"].Failures; got != int64(3*(held+moved)) {
		t.Errorf("%d requests failed, want %d", got, 3*(held+moved))
	}
	k := c.Keyed
	if split := k.Split(); split.Candidate != int64(moved) || split.Stable != 0 || math.Abs(split.Share-1.0/3) > 1e-9 {
		t.Errorf("split %+v, want %d of the candidate", split, moved)
	}
	if k.First["1"].Requests != int64(stable) || k.First["2"].Requests != int64(moved) || k.First["2"].Failures != int64(moved) {
		t.Errorf("first answers %+v, want %d and %d", k.First, stable, moved)
	}
	b.do(http.MethodPost, inferPath, request)
	if k := b.Stats().At(doc.Revision).Keyed; k.WithKey != 600 || k.WithoutKey != 1 {
		t.Errorf("%d requests with a key and %d without, want 600 and 1", k.WithKey, k.WithoutKey)
	}
	raw, err := json.Marshal(c)
	if err != nil || len(raw) > 4<<10 {
		t.Errorf("the report has %d bytes, %v", len(raw), err)
	}
}

// TestKeysWithoutEnd: the memory for keys does not grow with them, and few of many are taken for others; requests without a key are keys of
// their own that need no memory.
func TestKeysWithoutEnd(t *testing.T) {
	k := newKeyCounter(&stats.Keyed{To: stats.Cells / 2, First: map[string]stats.Counts{}})
	count := func(n int, byKey bool) {
		for range n {
			k.answer("1", drawn{hash: rand.Uint64(), byKey: byKey}, answered, func(c *stats.Counts) { c.Requests++ })
		}
	}
	const keys = 200_000
	count(keys, true)
	if got := k.First["1"].Requests; got > keys || got < keys*98/100 || len(k.answered) != keyMarks/64 {
		t.Errorf("%d first answers to %d keys, with %d words of memory", got, keys, len(k.answered))
	}
	before := k.First["1"].Requests
	count(1000, false)
	if got := k.First["1"].Requests; got != before+1000 {
		t.Errorf("%d first answers, and %d with 1000 that have no key", before, got)
	}
	again := drawn{hash: 5, byKey: true}
	for range 2 {
		k.answer("2", again, answered, func(c *stats.Counts) { c.Requests++ })
	}
	if got := k.First["2"].Requests; got > 1 {
		t.Errorf("a key has %d first answers", got)
	}
	k.answer("1", drawn{hash: 1 << 63, byKey: true}, failure, func(*stats.Counts) {})
	if !k.Erred.Has(stats.Cells / 2) {
		t.Error("the error of a key is not counted")
	}
	k.stop()
	k.answer("1", drawn{hash: 1, byKey: true}, failure, func(*stats.Counts) { t.Error("a revision that is not served any more is counted on") })
	if k.Erred.Count(0, stats.Cells) != 2 {
		t.Error("an error that came late is not counted")
	}
	k.answer("1", drawn{hash: 1 << 62, byKey: true}, clientError, func(*stats.Counts) {})
	if k.Erred.Count(0, stats.Cells) != 2 || k.Refused.Count(0, stats.Cells) != 1 {
		t.Error("a client's mistake is not counted apart")
	}
}

// TestAMissingReleaseMovesNoKey: while the candidate could not be loaded, its keys are refused, and those of the stable release stay there.
func TestAMissingReleaseMovesNoKey(t *testing.T) {
	table := &table{candidate: "2", sticky: &routing.Sticky{Header: "X-User"}}
	table.give(routing.Release{Version: "1", Weight: 0.5}, &release{})
	table.give(routing.Release{Version: "2", Weight: 0.5}, nil)
	whole := trialTable(0.5, table.sticky)
	for i := range 200 {
		d := table.draw("m", fmt.Sprint(i))
		if served := table.pick(d) != nil; served != (whole.pick(d).Version == "1") {
			t.Fatalf("key %d is served: %v, but has release %s", i, served, whole.pick(d).Version)
		}
	}
}

func TestStickyTrafficRefused(t *testing.T) {
	for _, s := range []routing.Sticky{{}, {Header: "a", Field: "b"}, {Header: "a b"}, {Header: "a", Held: 2}, {Header: "a", Held: math.NaN()}} {
		doc := routing.Document{Target: "m", Sticky: &s}
		if err := doc.Validate(); err == nil {
			t.Errorf("%+v is taken", s)
		}
	}
	if _, err := keyOfParameter("user", map[string]any{}); oip.ErrorStatus(err) != http.StatusBadRequest {
		t.Errorf("a key that is an object: %v", err)
	}
}
