package engine

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

func TestWithInstance(t *testing.T) {
	of := spec.Instance{Index: 2, Item: json.RawMessage(`"a"`)}
	for outputs, want := range map[string]string{
		``: `{"index":2,"item":"a"}`, `null`: `{"index":2,"item":"a"}`, `{"n":1}`: `{"index":2,"item":"a","n":1}`,
	} {
		if got, err := withInstance(json.RawMessage(outputs), of); string(got) != want || err != nil {
			t.Errorf("%q became %s, %v, want %s", outputs, got, err, want)
		}
	}
}

// TestGatherCountsWhatInstancesCost: what ended in a lane that was lost is counted by its records, whether or not it succeeded.
func TestGatherCountsWhatInstancesCost(t *testing.T) {
	b := newBench(t, `steps: {make: {run: {command: [make]}, foreach: "['a', 'b', 'c']"}}`)
	b.begin("r1")
	all, err := b.engine.Expand(t.Context(), b.at("r1", "make"))
	if err != nil {
		t.Fatal(err)
	}
	for i, status := range []spec.Status{spec.StatusSucceeded, spec.StatusFailed} { // the third left no record
		at := b.at("r1", "make").StepRef
		at.Instance = &record.Instance{Index: i, List: all.List}
		rec := record.StepRecord{Step: "make", Index: i, Status: status, CostUSD: 2, CostUnknown: status == spec.StatusFailed}
		if err := b.engine.Store.PutJSON(t.Context(), record.Key(at), rec, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	for _, told := range []float64{0, 5} { // the lanes may know of more
		end := contract.StepEnd{StepRef: b.at("r1", "make").StepRef, Kind: spec.KindRun, Status: spec.StatusFailed, CostUSD: told}
		verdict, err := b.engine.Gather(t.Context(), contract.GatherInput{StepEnd: end, Fan: spec.FanForeach, List: all.List, Require: 1, Of: all.Of})
		if err != nil {
			t.Fatal(err)
		}
		if want := max(told, 4); verdict.CostUSD != want || !verdict.CostUnknown {
			t.Errorf("it cost %v (unknown: %v), want %v and more", verdict.CostUSD, verdict.CostUnknown, want)
		}
	}
}

func TestGatherSummary(t *testing.T) {
	b := newBench(t, `steps: {make: {run: {command: [make]}, repeat: {until: "true", max: 3}}}`)
	for of, want := range map[int]string{1: "1 iteration", 2: "2 iterations"} {
		run := fmt.Sprintf("r%d", of)
		b.begin(run)
		for i := range of {
			at := b.at(run, "make").StepRef
			at.Instance = &record.Instance{Index: i}
			if err := b.engine.Store.PutJSON(t.Context(), record.Key(at), record.StepRecord{Step: "make", Index: i, Status: spec.StatusSucceeded}, store.WriteOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		end := contract.StepEnd{StepRef: b.at(run, "make").StepRef, Kind: spec.KindRun, Status: spec.StatusSucceeded}
		if _, err := b.engine.Gather(t.Context(), contract.GatherInput{StepEnd: end, Fan: spec.FanRepeat, Require: 1, Of: of}); err != nil {
			t.Fatal(err)
		}
		var rec record.StepRecord
		if err := b.engine.Store.GetJSON(t.Context(), record.StepKey(run, "make"), &rec); err != nil || rec.Summary != want {
			t.Errorf("the summary of a step that ran %d times is %q, %v; want %q", of, rec.Summary, err, want)
		}
	}
}

// TestWhatInstancesPublishIsTold: the run can be found by it.
func TestWhatInstancesPublishIsTold(t *testing.T) {
	b := newBench(t, `steps: {make: {run: {command: [make]}, foreach: "['a', 'b', 'c']"}}`)
	b.begin("r1")
	all, err := b.engine.Expand(t.Context(), b.at("r1", "make"))
	if err != nil {
		t.Fatal(err)
	}
	for i, published := range []string{"dataset letters", "dataset letters", "model reader (r2 has a newer one)"} {
		at := b.at("r1", "make").StepRef
		at.Instance = &record.Instance{Index: i, List: all.List}
		rec := record.StepRecord{Step: "make", Index: i, Status: spec.StatusSucceeded, Published: []string{published}}
		if err := b.engine.Store.PutJSON(t.Context(), record.Key(at), rec, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	end := contract.StepEnd{StepRef: b.at("r1", "make").StepRef, Kind: spec.KindRun, Status: spec.StatusSucceeded}
	verdict, err := b.engine.Gather(t.Context(), contract.GatherInput{StepEnd: end, Fan: spec.FanForeach, List: all.List, Require: 1, Of: all.Of})
	if err != nil {
		t.Fatal(err)
	}
	want := []record.Version{{Type: artifact.Dataset, Name: "letters"}, {Type: artifact.Model, Name: "reader"}}
	if diff := cmp.Diff(want, verdict.Published); diff != "" {
		t.Errorf("published (-want +got):\n%s", diff)
	}
}
