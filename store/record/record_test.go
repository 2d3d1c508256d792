package record

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
)

// Numbers are kept as they are written, also in what an earlier version has written; doubles that are whole were written as whole numbers.
func TestNumbersAreKept(t *testing.T) {
	const run = `{"run":"r","params":{"epochs":4,"rate":0.1,"seed":9007199254740993},"graph":null,"outputs":{"all":[9007199254740993]}`
	const step = `{"step":"a","kind":"run","status":"succeeded","checks":[{"expression":"","verdict":"pass","values":{"n":9007199254740993}}],` +
		`"decision":{"approved":true,"at":"2026-03-14T12:00:00Z","fields":{"n":9007199254740993}}}`
	var r RunRecord
	var s StepRecord
	if err := json.Unmarshal([]byte(run+`}`), &r); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(step), &s); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spec.Values{"epochs": int64(4), "rate": 0.1, "seed": int64(9007199254740993)}, r.Params); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(spec.Values{"all": []any{int64(9007199254740993)}}, r.Outputs); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(spec.Values{"n": int64(9007199254740993)}, s.Checks[0].Values); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(spec.Values{"n": int64(9007199254740993)}, s.Decision.Fields); diff != "" {
		t.Error(diff)
	}
}

// A damaged blob is noticed also if it is JSON of the right form.
func TestReadDamagedBlob(t *testing.T) {
	dir := t.TempDir()
	s, err := store.Open(t.Context(), "file://"+dir)
	if err != nil {
		t.Fatal(err)
	}
	digest, err := WriteBlob(t.Context(), s, map[string]int{"steps": 10})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "blobs", digest[7:9], digest[7:])
	if err := os.Chmod(file, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, []byte(`{"steps":90}`), 0o600); err != nil {
		t.Fatal(err)
	}
	var got map[string]int
	if err := ReadBlob(t.Context(), s, digest, &got); !errors.Is(err, store.ErrCorrupt) || got != nil {
		t.Errorf("got %v, %v, want an error", got, err)
	}
}

// A step that is called run has a record of its own, which is not a run's.
func TestRunsHasRunsOnly(t *testing.T) {
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for key, value := range map[string]any{
		RunKey("r1"):          RunRecord{Run: "r1"},
		StepKey("r1", "run"):  StepRecord{Step: "run"},
		RunKey("r1.child"):    RunRecord{Run: "r1.child"},
		StepKey("r1", "next"): StepRecord{Step: "next"},
	} {
		if err := s.PutJSON(t.Context(), key, value, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	runs, err := Runs(t.Context(), s)
	if err != nil || len(runs) != 2 || runs[0].Run == "" || runs[1].Run == "" {
		t.Errorf("got %+v, %v, want the runs r1 and r1.child", runs, err)
	}
}

// What an open run has stored may be known only to Temporal, however long the run has been open. This test decides what `data gc` deletes.
func TestSweepable(t *testing.T) {
	latest := time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)
	run := func(name string, status spec.Status, before time.Duration) RunRecord {
		return RunRecord{Run: name, Status: status, StartedAt: latest.Add(-before)}
	}
	const margin, hour, week = store.SweepMargin, time.Hour, 7 * 24 * time.Hour
	for name, c := range map[string]struct {
		runs   []RunRecord
		want   time.Duration // before latest
		heldBy string
	}{
		"no runs":                       {},
		"a run that has ended":          {runs: []RunRecord{run("old", spec.StatusSucceeded, week), run("older", spec.StatusFailed, 2*week)}},
		"an open run":                   {[]RunRecord{run("open", spec.StatusRunning, week)}, week + margin, "open"},
		"the oldest of several":         {[]RunRecord{run("new", spec.StatusRunning, hour), run("open", spec.StatusRunning, week), run("ended", spec.StatusSucceeded, 2*week)}, week + margin, "open"},
		"one that began at that time":   {[]RunRecord{run("open", spec.StatusRunning, 0)}, margin, "open"},
		"one that began less after it":  {[]RunRecord{run("open", spec.StatusRunning, -margin+time.Second)}, time.Second, "open"},
		"one that began so much after":  {runs: []RunRecord{run("open", spec.StatusRunning, -margin)}},
		"one that began later than any": {runs: []RunRecord{run("open", spec.StatusRunning, -week)}},
	} {
		before, heldBy := Sweepable(c.runs, latest)
		if got := latest.Sub(before); got != c.want || heldBy != c.heldBy {
			t.Errorf("%s: %v before the latest time, held by %q; want %v, %q", name, got, heldBy, c.want, c.heldBy)
		}
	}
}
