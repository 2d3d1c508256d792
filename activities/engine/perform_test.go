package engine

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/testing/flowtest"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// perform does the step `count` of a run as its activity would, next `use`.
func (b *bench) perform(run, outputs string, ends ...contract.StepEnd) contract.Performed {
	b.Helper()
	env := flowtest.Activities()
	do := b.engine.WithVerdict(func(_ context.Context, _ record.StepInput) (record.StepOutput, error) {
		if outputs == "" {
			return record.StepOutput{}, fault.New(fault.User, "exit code 1", nil)
		}
		return record.StepOutput{Outputs: json.RawMessage(outputs)}, nil
	})
	env.RegisterActivity(do)
	judge, next := b.at(run, "count"), b.at(run, "use")
	judge.Run, judge.Submission, next.Run, next.Submission = "", "", "", ""
	value, err := env.ExecuteActivity(do, contract.PerformInput{
		StepInput: record.StepInput{Run: run, Submission: b.submission, Step: "count", Kind: spec.KindRun},
		End:       &contract.StepEnd{StepRef: judge.StepRef, Unsynced: true, Next: []contract.ResolveInput{next}},
		Ends:      ends,
	})
	var done contract.Performed
	if err == nil {
		err = value.Get(&done)
	}
	if (err != nil) != (outputs == "") {
		b.Fatal(err)
	}
	return done
}

// Whoever does a step says of its success what the workflow's own judge would say, and leaves nothing behind.
func TestEvaluatedWhereItWasDone(t *testing.T) {
	for _, outputs := range []string{`{"rows": 20}`, `{"rows": 5}`} {
		b := newBench(t, counted)
		b.begin("r1")
		done := b.perform("r1", outputs)
		if done.Verdict == nil {
			t.Fatalf("%s is not judged", outputs)
		}
		b.engine.behind.wait("r1")
		var rec record.StepRecord
		if err := b.engine.Store.GetJSON(t.Context(), record.StepKey("r1", "count"), &rec); !errors.Is(err, store.ErrNotFound) {
			t.Errorf("%s: there is a record: %+v, %v", outputs, rec, err)
		}
		if _, err := b.engine.Resolve(t.Context(), b.at("r1", "use")); fault.TypeOf(err) != fault.Lost {
			t.Errorf("%s: resolved with %v, as if the step had ended", outputs, err)
		}

		end := contract.StepEnd{
			StepRef: b.at("r1", "count").StepRef, Kind: spec.KindRun, Status: spec.StatusSucceeded, Unsynced: true, Output: done.StepOutput,
			Next: []contract.ResolveInput{b.at("r1", "use")},
		}
		want, err := b.engine.Verdict(t.Context(), end)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(asJSON(t, want), asJSON(t, *done.Verdict)); diff != "" {
			t.Errorf("%s: the word (-want +got):\n%s", outputs, diff)
		}
		if passed := want.Status == spec.StatusSucceeded; passed != (len(done.Verdict.Next) == 1 && done.Verdict.Next[0] != nil) {
			t.Errorf("%s: ended as %s, next %+v", outputs, want.Status, done.Verdict.Next)
		}
	}
}

// asJSON is the word as history has it.
func asJSON(t *testing.T, word contract.StepVerdict) string {
	t.Helper()
	raw, err := json.MarshalIndent(word, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return string(raw)
}

func TestNotEvaluatedWhereItWasDone(t *testing.T) {
	const published = "outputs: {rows: {type: int}, data: {type: dataset, path: x}}}\n    publish: {data: things}"
	b := newBench(t, strings.Replace(counted, "outputs: {rows: {type: int}}}", published, 1))
	b.begin("r1")
	if done := b.perform("r1", `{"rows": 20, "data": {"type": "dataset", "digest": "sha256:1", "bytes": 1, "files": 1}}`); done.Verdict != nil {
		t.Errorf("a step that publishes is judged: %+v", done.Verdict)
	}
	if done := b.perform("r1", ""); done.Verdict != nil {
		t.Errorf("a step that failed is judged: %+v", done.Verdict)
	}
}

// The records of earlier steps are written by who is asked for the next.
func TestEndsAreRecordedOnTheWay(t *testing.T) {
	b := newBench(t, counted)
	for run, ask := range map[string]func(contract.StepEnd) error{
		"resolve": func(end contract.StepEnd) error {
			in := b.at("resolve", "use")
			in.Ends = []contract.StepEnd{end}
			_, err := b.engine.Resolve(t.Context(), in)
			return err
		},
		"judge": func(end contract.StepEnd) error {
			_, err := b.engine.Verdict(t.Context(), contract.StepEnd{
				StepRef: b.at("judge", "use").StepRef, Kind: spec.KindRun, Status: spec.StatusSkipped, Ends: []contract.StepEnd{end},
			})
			return err
		},
		"perform": func(end contract.StepEnd) error {
			b.perform("perform", "", end)
			return nil
		},
		"record": func(end contract.StepEnd) error {
			return b.engine.Record(t.Context(), contract.RecordInput{Ends: []contract.StepEnd{end}})
		},
	} {
		b.begin(run)
		end := contract.StepEnd{
			StepRef: b.at(run, "count").StepRef, Kind: spec.KindRun, Status: spec.StatusSucceeded, Unsynced: true,
			Output: record.StepOutput{Outputs: json.RawMessage(`{"rows": 20}`)},
		}
		if err := ask(end); err != nil {
			t.Fatalf("%s: %v", run, err)
		}
		b.engine.behind.wait(run)
		if record := b.record(run, "count"); record.Status != spec.StatusSucceeded || len(record.Checks) != 2 {
			t.Errorf("%s: the record is %+v", run, record)
		}
	}
}

// How old a result may be counts from when the step would begin, not from when the one before it did.
func TestNextIsResolvedForNow(t *testing.T) {
	b := newBench(t, strings.Replace(counted, `--rows=${steps.count.rows}"]}`, `--rows=${steps.count.rows}"]}`+"\n    cache: {max_age: 1h}", 1))
	b.begin("r1")
	b.end("r1", "count", `{"rows": 20}`)
	b.end("r1", "use", `{}`)
	b.finish("r1", spec.StatusSucceeded)
	b.begin("r2")
	done := b.perform("r2", `{"rows": 20}`) // it began at the time of the other
	if done.Verdict == nil || len(done.Verdict.Next) != 1 || done.Verdict.Next[0] == nil {
		t.Fatalf("judged %+v", done.Verdict)
	}
	if hit := done.Verdict.Next[0].Hit; hit != "" {
		t.Errorf("a result of long ago is taken over, from %s", hit)
	}
}
