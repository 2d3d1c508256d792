package data

import (
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training"
	"github.com/sluiceml/sluice/training/checkpoint"
)

func TestMayResume(t *testing.T) {
	run := func(name string, status spec.Status, from string) record.RunRecord {
		return record.RunRecord{Run: name, Status: status, Reuse: record.Reuse{From: from}}
	}
	runs := []record.RunRecord{
		run("open", spec.StatusRunning, "again"), run("again", spec.StatusFailed, "first"), run("first", spec.StatusFailed, "removed"),
		run("alone", spec.StatusFailed, "first"), run("round", spec.StatusRunning, "round"),
	}
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	// An open run, and one that has ended, have a training that started from a checkpoint of another.
	for run, from := range map[string]string{"open": "named", "alone": "unused"} {
		origin := checkpoint.Origin{From: &checkpoint.Manifest{Run: from, Training: "pre", Generation: 1, Step: 3}}
		if _, err := checkpoint.MakeSeal(t.Context(), s, training.Key{Run: run, Step: "fit", Generation: 1}, origin, nil); err != nil {
			t.Fatal(err)
		}
	}
	held, err := resumable(t.Context(), s, runs)
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"open": true, "again": true, "first": true, "removed": true, "first.sub": true, "first-2": false, "alone": false, "round": true, "": false, "named": true, "unused": false} {
		if got := isOf(held, name); got != want {
			t.Errorf("an open run may resume from %q: %v, want %v", name, got, want)
		}
	}
}

// A run that begins after the checkpoints were listed, and goes on from one of them, keeps it.
func TestRunBeginsDuringGC(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string, status spec.Status, from string) {
		t.Helper()
		rec := record.RunRecord{Run: name, Status: status, Reuse: record.Reuse{From: from}}
		if err := s.PutJSON(t.Context(), record.RunKey(name), rec, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	put("first", spec.StatusFailed, "")
	put("other", spec.StatusFailed, "")
	listed, err := notHeld(t.Context(), s, []checkpoint.Kept{{Run: "first", Step: "fit", Generation: 1}, {Run: "other", Step: "fit", Generation: 1}})
	if err != nil || len(listed) != 2 {
		t.Fatalf("got %v, %v; want both", listed, err)
	}
	put("again", spec.StatusRunning, "first")
	removed, err := removeCheckpoints(t.Context(), s, listed)
	if err != nil || len(removed) != 1 || removed[0].Run != "other" {
		t.Errorf("got %v, %v; want that only the checkpoint of `other` is removed", removed, err)
	}
}
