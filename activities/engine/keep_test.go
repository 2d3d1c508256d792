package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// A pipeline with `keep` says so when it begins, and its older runs go when one ends: again, after a kill, is no different.
func TestKeep(t *testing.T) {
	b := newBench(t, "keep: {runs: 2}\nsteps: {one: {run: {command: [echo]}}}\n")
	for i := range 4 {
		b.began = b.began.Add(time.Hour)
		in := contract.RunInput{Run: fmt.Sprint("p-", i), Name: "p", Submission: b.submission, Graph: b.program.Graph()}
		if begun, err := b.engine.Begin(t.Context(), contract.BeginInput{RunInput: in, StartedAt: b.began}); err != nil || !begun.Keeps {
			t.Fatalf("it begins with %+v, %v", begun, err)
		}
		if i == 0 {
			b.finish("p-0", spec.StatusSucceeded) // the last accepted run
		} else {
			b.finish(fmt.Sprint("p-", i), spec.StatusFailed)
		}
	}
	for range 2 {
		if err := b.engine.Keep(t.Context(), contract.KeepInput{Run: "p-3", Submission: b.submission}); err != nil {
			t.Fatal(err)
		}
	}
	all, err := record.Runs(t.Context(), b.engine.Store)
	var left []string
	for _, r := range all {
		left = append(left, r.Run)
	}
	if diff := cmp.Diff([]string{"p-3", "p-2", "p-0"}, left); diff != "" || err != nil {
		t.Errorf("the runs that are left (-want +got):\n%s%v", diff, err)
	}
}
