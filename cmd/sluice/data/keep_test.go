package data

import (
	"testing"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// promise: docs/training.md#p-rerun-keeps
func TestMayResume(t *testing.T) {
	run := func(name string, status spec.Status, from string) record.RunRecord {
		return record.RunRecord{Run: name, Status: status, Reuse: record.Reuse{From: from}}
	}
	runs := []record.RunRecord{
		run("open", spec.StatusRunning, "again"), run("again", spec.StatusFailed, "first"), run("first", spec.StatusFailed, "removed"),
		run("alone", spec.StatusFailed, "first"), run("round", spec.StatusRunning, "round"),
	}
	for name, want := range map[string]bool{"open": true, "again": true, "first": true, "removed": true, "first.sub": true, "first-2": false, "alone": false, "round": true, "": false} {
		if got := mayResume(runs, name); got != want {
			t.Errorf("an open run may resume from %q: %v, want %v", name, got, want)
		}
	}
}
