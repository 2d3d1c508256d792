package retention_test

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/retention"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

var began = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

// bench is a store with runs of one day after the other.
type bench struct {
	*testing.T
	*store.Store
	days int
	logs string
}

func newBench(t *testing.T) *bench {
	t.Helper()
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return &bench{T: t, Store: s, logs: t.TempDir()}
}

func (b *bench) put(key string, v any) {
	b.Helper()
	if err := b.PutJSON(b.Context(), key, v, store.WriteOptions{}); err != nil {
		b.Fatal(err)
	}
}

// run adds a run, with a step `fit` that has a key; the step was taken over from a run, unless that is empty.
func (b *bench) run(name, pipeline string, status spec.Status, from string) {
	b.Helper()
	b.days++
	r := record.RunRecord{Run: name, Pipeline: pipeline, Status: status, StartedAt: began.AddDate(0, 0, b.days)}
	if status != spec.StatusRunning {
		r.EndedAt = r.StartedAt.Add(time.Hour)
	}
	b.put(record.RunKey(name), r)
	at := record.StepRef{Run: name, Step: "fit", Now: r.StartedAt}
	result := record.Result{StepRecord: record.StepRecord{Step: "fit", Status: status, Key: "k1", ReusedFrom: from}, Cached: record.Cached{At: at}}
	b.put(record.Key(at), result)
	if from == "" && status == spec.StatusSucceeded {
		b.put(record.CacheKey("k1"), result)
	}
	if status == spec.StatusSucceeded && !strings.Contains(name, ".") {
		if err := record.Accept(b.Context(), b.Store, r); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bench) all() []record.RunRecord {
	b.Helper()
	all, err := record.Runs(b.Context(), b.Store)
	if err != nil {
		b.Fatal(err)
	}
	return all
}

func (b *bench) remove(name string) {
	b.Helper()
	all := b.all()
	at := slices.IndexFunc(all, func(r record.RunRecord) bool { return r.Run == name })
	if err := retention.Remove(b.Context(), b.Store, all, all[at], b.logs); err != nil {
		b.Fatal(err)
	}
}

// keys lists what of the store has a text in its key.
func (b *bench) keys(with string) []string {
	b.Helper()
	var keys []string
	for info, err := range b.Driver().List(b.Context(), "") {
		if err != nil {
			b.Fatal(err)
		}
		if strings.Contains(info.Key, with) {
			keys = append(keys, info.Key)
		}
	}
	return keys
}

func TestNeeded(t *testing.T) {
	b := newBench(t)
	b.run("a-1", "a", spec.StatusSucceeded, "")
	b.run("a-2", "a", spec.StatusSucceeded, "")
	b.run("a-3", "a", spec.StatusFailed, "")
	b.run("a-4", "a", spec.StatusSucceeded, "")
	b.run("a-4.sub", "sub", spec.StatusSucceeded, "")
	b.run("a-5", "a", spec.StatusSucceeded, "")
	open := record.RunRecord{
		Run: "a-6", Pipeline: "a", Status: spec.StatusRunning, StartedAt: began.AddDate(1, 0, 0), Last: "a-5", Reuse: record.Reuse{From: "a-2"},
	}
	b.put(record.RunKey(open.Run), open)
	b.run("a-0", "a", spec.StatusFailed, "") // what a-2 did again
	var again record.RunRecord
	if err := b.GetJSON(t.Context(), record.RunKey("a-2"), &again); err != nil {
		t.Fatal(err)
	}
	again.Reuse.From = "a-0"
	b.put(record.RunKey("a-2"), again)
	releases := []routing.Release{{Version: "1", Run: "a-4.sub", Model: artifact.Ref{Type: artifact.Model, Digest: "sha256:x"}, Weight: 1}}
	for i, run := range []string{"a-1", "a-4.sub", "a-3"} { // the one before, another step of the one that serves, and a candidate
		reserve := releases[0]
		reserve.Version, reserve.Run, reserve.Weight = fmt.Sprint(i+2), run, 0
		releases = slices.Insert(releases, 0, reserve)
	}
	doc := routing.Document{Target: "spam", Versions: 4, Releases: releases, Shadow: &routing.Shadow{Version: "4", Share: 1}}
	if _, err := routing.Set(t.Context(), b.Store, 0, doc); err != nil {
		t.Fatal(err)
	}
	for run, from := range map[string]string{"a-6": "named", "a-5": "unused"} { // where their trainings started
		origin := checkpoint.Origin{From: &checkpoint.Manifest{Run: from, Training: "pre", Generation: 1, Step: 3}}
		if _, err := checkpoint.MakeSeal(t.Context(), b.Store, training.Key{Run: run, Step: "fit", Generation: 1}, origin, nil); err != nil {
			t.Fatal(err)
		}
	}
	got, err := retention.Needed(t.Context(), b.Store, b.all())
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{
		"a-0": "run a-6 is open and reads it", "a-2": "run a-6 is open and reads it", "a-5": "run a-6 is open and reads it", "a-6": "it is open",
		"named":   "run a-6 is open and resumed from its checkpoint",
		"a-1":     "target spam keeps its release in reserve, for a rollback",
		"a-3":     "target spam serves its release",
		"a-4.sub": "target spam serves its release",
		"a-4":     "its child run a-4.sub cannot be removed: target spam serves its release",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func TestExpired(t *testing.T) {
	b := newBench(t)
	for i := range 6 {
		b.run(fmt.Sprint("a-", i), "a", spec.StatusSucceeded, "")
	}
	b.run("other", "b", spec.StatusSucceeded, "")
	b.run("a-6", "a", spec.StatusRunning, "")
	b.run("a-5.sub", "a", spec.StatusSucceeded, "")
	now := began.AddDate(0, 0, 6).Add(2 * time.Hour) // a-5 has just ended, a-4 yesterday
	for _, test := range []struct {
		keep spec.Keep
		want []string
	}{
		{spec.Keep{Runs: 4}, []string{"a-0", "a-1"}},
		{spec.Keep{Days: 2}, []string{"a-0", "a-1", "a-2"}},
		{spec.Keep{Runs: 4, Days: 2}, []string{"a-0", "a-1"}},
		{spec.Keep{Runs: 1, Days: 5}, []string{"a-0"}},
	} {
		needed := map[string]string{"a-3": "for a test"}
		var got []string
		for _, r := range retention.Expired(b.all(), needed, "a", test.keep, now) {
			got = append(got, r.Run)
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%+v (-want +got):\n%s", test.keep, diff)
		}
	}
}

// A run goes with its children, and nothing is left that leads to it; a run whose name only begins like it stays.
func TestRemove(t *testing.T) {
	b := newBench(t)
	b.run("a-1", "a", spec.StatusSucceeded, "")
	b.run("a-1.sub", "sub", spec.StatusFailed, "")
	b.run("a-10", "a", spec.StatusFailed, "")
	for _, key := range []string{
		"checkpoints/a-1/fit/g1/step-5.json", "parts/checkpoints/a-1/fit/g1/step-5/blobs/00/x", "handover/a-1/fit/g1/1", "checkpoints/a-10/fit/seal/1",
		"instances/a-1/many/0.json", "logs/a-1/fit/g1/n0/1-0.json",
	} {
		b.put(key, map[string]string{})
	}
	for _, run := range []string{"a-1", "a-1.sub", "a-10"} {
		if err := os.MkdirAll(filepath.Join(b.logs, run, "fit"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	b.remove("a-1")
	if logs, err := os.ReadDir(b.logs); err != nil || len(logs) != 1 || logs[0].Name() != "a-10" {
		t.Errorf("the logs are %v, %v; want those of a-10", logs, err)
	}
	want := []string{"checkpoints/a-10/fit/seal/1", "runs/a-10/run.json", "runs/a-10/steps/fit.json"}
	got := slices.DeleteFunc(b.keys(""), func(key string) bool { return strings.HasPrefix(key, "accept") })
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}

// A result that a later run has taken over can be taken over from that run when the one that made it is gone, and is as old as it was.
func TestRemoveLeavesResultsToHeirs(t *testing.T) {
	b := newBench(t)
	b.run("a-1", "a", spec.StatusSucceeded, "")
	b.run("a-2", "a", spec.StatusSucceeded, "a-1")
	b.run("b-1", "b", spec.StatusSucceeded, "a-1")
	b.remove("a-1")
	var entry record.Result
	if err := b.GetJSON(t.Context(), record.CacheKey("k1"), &entry); err != nil {
		t.Fatal(err)
	}
	if entry.At.Run != "a-2" || !entry.At.Now.Equal(began.AddDate(0, 0, 1)) || entry.ReusedFrom != "a-1" {
		t.Errorf("the cache has the result of %+v", entry.At)
	}
	b.remove("a-2")
	if left := b.keys("cache/"); len(left) > 0 {
		t.Errorf("left in the cache: %q", left)
	}
}

// A run stays that is the source of a training which another one that stays has not finished, and goes with that.
func TestSpare(t *testing.T) {
	b := newBench(t)
	for name, status := range map[string]spec.Status{
		"a-1": spec.StatusFailed, "a-1.sub": spec.StatusFailed, "a-2": spec.StatusFailed, "a-3": spec.StatusFailed, "a-4": spec.StatusFailed, "a-5": spec.StatusSucceeded,
		"a-6": spec.StatusFailed, "a-6.sub": spec.StatusCanceled,
	} {
		b.run(name, "a", status, "")
	}
	b.put("checkpoints/a-1.sub/fit/g1/step-3.json", map[string]string{})
	for run, from := range map[string]string{"a-6.sub": "a-1.sub", "a-3": "a-2", "a-5": "a-4"} {
		origin := checkpoint.Origin{From: &checkpoint.Manifest{Run: from, Training: "fit", Generation: 1, Step: 3}}
		if _, err := checkpoint.MakeSeal(t.Context(), b.Store, training.Key{Run: run, Step: "fit", Generation: 1}, origin, nil); err != nil {
			t.Fatal(err)
		}
	}
	expired := slices.DeleteFunc(b.all(), func(r record.RunRecord) bool { return !slices.Contains([]string{"a-1", "a-2", "a-3", "a-4"}, r.Run) })
	left, err := retention.Spare(t.Context(), b.Store, b.all(), expired)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, r := range left {
		names = append(names, r.Run)
	}
	slices.Sort(names)
	if diff := cmp.Diff([]string{"a-2", "a-3", "a-4"}, names); diff != "" {
		t.Errorf("what goes (-want +got):\n%s", diff)
	}
}

// Checkpoints of trainings that succeeded go; what could still be resumed stays, and so does what a training of an open run started from.
func TestRemoveCheckpoints(t *testing.T) {
	b := newBench(t)
	b.run("a-1", "a", spec.StatusFailed, "")
	b.run("a-1.sub", "sub", spec.StatusSucceeded, "")
	b.put(record.Key(record.StepRef{Run: "a-1", Step: "many", Instance: &record.Instance{Index: 3}}), record.StepRecord{Status: spec.StatusSucceeded})
	for _, training := range []string{"a-1/fit", "a-1/many.3", "a-1/many.4", "a-1/unknown", "a-1.sub/fit", "a-10/fit"} {
		b.put("checkpoints/"+training+"/g1/step-5.json", map[string]string{})
		b.put("parts/checkpoints/"+training+"/g1/step-5/blobs/00/x", map[string]string{})
	}
	b.run("b-1", "b", spec.StatusRunning, "")
	b.run("a-1.used", "sub", spec.StatusSucceeded, "")
	b.put("checkpoints/a-1.used/fit/g1/step-5.json", map[string]string{})
	origin := checkpoint.Origin{From: &checkpoint.Manifest{Run: "a-1.used", Training: "fit", Generation: 1, Step: 5}}
	if _, err := checkpoint.MakeSeal(t.Context(), b.Store, training.Key{Run: "b-1", Step: "tune", Generation: 1}, origin, nil); err != nil {
		t.Fatal(err)
	}
	if err := retention.RemoveCheckpoints(t.Context(), b.Store, b.all(), "a-1"); err != nil {
		t.Fatal(err)
	}
	want := []string{"checkpoints/a-1.used/fit/g1/step-5.json", "checkpoints/b-1/tune/seal/1"}
	for _, prefix := range []string{"checkpoints/%s/g1/step-5.json", "parts/checkpoints/%s/g1/step-5/blobs/00/x"} {
		for _, training := range []string{"a-1/fit", "a-1/many.4", "a-1/unknown", "a-10/fit"} {
			want = append(want, fmt.Sprintf(prefix, training))
		}
	}
	slices.Sort(want)
	if diff := cmp.Diff(want, slices.Sorted(slices.Values(b.keys("checkpoints/")))); diff != "" {
		t.Errorf("left (-want +got):\n%s", diff)
	}
}
