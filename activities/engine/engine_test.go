package engine

import (
	"bytes"
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// bench is an engine with one submitted pipeline.
type bench struct {
	*testing.T
	engine     *Engine
	submission string
	program    *dsl.Program
	began      time.Time
	from       string // the run that results are taken over from
	workspace  artifact.Ref
}

func newBench(t *testing.T, pipeline string) *bench {
	t.Helper()
	return newBenchIn(t, pipeline, document.File{})
}

func newBenchIn(t *testing.T, pipeline string, env document.File) *bench {
	t.Helper()
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{T: t, engine: NewEngine(s), began: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)}
	t.Cleanup(func() { // what is written behind must not outlive its folder
		behind := &b.engine.behind
		behind.mu.Lock()
		runs := slices.Collect(maps.Keys(behind.open))
		behind.mu.Unlock()
		for _, run := range runs {
			behind.wait(run)
		}
	})
	b.submit(pipeline, env)
	return b
}

// submit has the runs that begin from now on be of this pipeline.
func (b *bench) submit(pipeline string, env document.File) {
	b.Helper()
	sub := record.Submission{
		File: "p.yaml", Pipeline: []byte("sluice: pipeline/v1\nname: p\n" + pipeline), EnvFile: env.Name, Environment: env.Source,
		Workspace: b.workspace,
	}
	var diags document.Diagnostics
	if b.program, diags = dsl.Compile(document.File{Name: sub.File, Source: sub.Pipeline}, env, nil); b.program == nil {
		b.Fatalf("the pipeline is refused:\n%s", diags.Text(false))
	}
	raw, err := json.Marshal(sub)
	if err != nil {
		b.Fatal(err)
	}
	if b.submission, _, err = b.engine.Store.PutBlob(b.Context(), bytes.NewReader(raw)); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) begin(run string) {
	b.Helper()
	in := contract.RunInput{Run: run, Name: "p", Submission: b.submission, Graph: b.program.Graph()}
	if _, err := b.engine.Begin(b.Context(), contract.BeginInput{RunInput: in, StartedAt: b.began}); err != nil {
		b.Fatal(err)
	}
}

func (b *bench) at(run, step string) contract.ResolveInput {
	return contract.ResolveInput{StepRef: record.StepRef{Run: run, Submission: b.submission, Step: step, Now: b.began}}
}

// end judges a step that succeeded with outputs.
func (b *bench) end(run, step, outputs string) contract.StepVerdict {
	b.Helper()
	word, err := b.engine.Verdict(b.Context(), contract.StepEnd{
		StepRef: b.at(run, step).StepRef, Kind: spec.KindRun, Status: spec.StatusSucceeded, Key: b.key(run, step),
		Output: record.StepOutput{Outputs: json.RawMessage(outputs)},
	})
	if err != nil {
		b.Fatal(err)
	}
	return word
}

// key is the cache key that a step resolves to.
func (b *bench) key(run, step string) string {
	b.Helper()
	resolved, err := b.engine.Resolve(b.Context(), b.at(run, step))
	if err != nil {
		b.Fatal(err)
	}
	return resolved.Key
}

func (b *bench) finish(run string, status spec.Status) record.RunOutput {
	b.Helper()
	out, err := b.engine.Finish(b.Context(), contract.FinishInput{
		Run: run, Submission: b.submission, EndedAt: b.began.Add(time.Minute), RunOutput: record.RunOutput{Status: status},
	})
	if err != nil {
		b.Fatal(err)
	}
	return out
}

func (b *bench) record(run, step string) record.StepRecord {
	b.Helper()
	var r record.StepRecord
	if err := b.engine.Store.GetJSON(b.Context(), record.StepKey(run, step), &r); err != nil {
		b.Fatal(err)
	}
	return r
}

const counted = `
outputs: {rows: "${steps.count.rows}"}
steps:
  count:
    run: {command: [count], outputs: {rows: {type: int}}}
    gate:
      - rows > 10
      - {check: "rows >= last.?steps.count.rows.orValue(0)", message: fewer than last time, on_fail: stop}
  use:
    when: steps.count.rows < 1000
    run: {command: [use, "--rows=${steps.count.rows}"]}
`

func TestGate(t *testing.T) {
	tests := []struct {
		name, outputs string
		status        spec.Status
		says          string
	}{
		{"passes", `{"rows": 20}`, spec.StatusSucceeded, ""},
		{"fails with what it saw", `{"rows": 10}`, spec.StatusFailed, "rows = 10"},
		{"cannot be evaluated, which is no pass", `{}`, spec.StatusFailed, "could not be evaluated"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, counted)
			b.begin("r1")
			word := b.end("r1", "count", tt.outputs)
			if word.Status != tt.status || !strings.Contains(word.Error, tt.says) {
				t.Errorf("judged %q (%q), want %q saying %q", word.Status, word.Error, tt.status, tt.says)
			}
			if tt.status == spec.StatusFailed && word.ErrorType != fault.Gate {
				t.Errorf("error type %q, want gate", word.ErrorType)
			}
			if got := b.record("r1", "count").Status; got != tt.status {
				t.Errorf("the record says %q, want %q", got, tt.status)
			}
		})
	}
}

func TestResolveSeesOtherStepsAlsoAfterARestart(t *testing.T) {
	for _, restart := range []bool{false, true} {
		b := newBench(t, counted)
		b.begin("r1")
		b.end("r1", "count", `{"rows": 20}`)
		if restart {
			b.engine = NewEngine(b.engine.Store)
		}
		resolved, err := b.engine.Resolve(t.Context(), b.at("r1", "use"))
		if err != nil {
			t.Fatal(err)
		}
		var spec spec.Run
		if err := json.Unmarshal(resolved.Step.Spec, &spec); err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff([]string{"use", "--rows=20"}, spec.Command.Command); diff != "" {
			t.Errorf("restart=%v: command (-want +got):\n%s", restart, diff)
		}
	}
}

func TestWhenSkips(t *testing.T) {
	b := newBench(t, counted)
	b.begin("r1")
	b.end("r1", "count", `{"rows": 5000}`)
	resolved, err := b.engine.Resolve(t.Context(), b.at("r1", "use"))
	if err != nil || resolved.Skip == "" {
		t.Errorf("resolved %+v, %v; want it skipped", resolved, err)
	}
}

// TestWhatIsAbsent: what turns out to be absent is a mistake of a main step, and keeps a step of `finally` from running.
func TestWhatIsAbsent(t *testing.T) {
	b := newBench(t, `
steps: {one: {run: {command: [echo, "${last.?steps.one.n.value()}"], outputs: {n: {type: int}}}}}
finally: {tidy: {run: {command: [echo, "${steps.one.n}"]}}}
`)
	b.begin("r1")
	if _, err := b.engine.Resolve(t.Context(), b.at("r1", "one")); fault.TypeOf(err) != fault.Invalid {
		t.Errorf("a main step: %v, want an invalid error", err)
	}
	failed := contract.StepEnd{StepRef: b.at("r1", "one").StepRef, Kind: spec.KindRun, Status: spec.StatusFailed, Error: "exit code 1", ErrorType: fault.User}
	if _, err := b.engine.Verdict(t.Context(), failed); err != nil {
		t.Fatal(err)
	}
	if resolved, err := b.engine.Resolve(t.Context(), b.at("r1", "tidy")); err != nil || resolved.Skip == "" {
		t.Errorf("a step of `finally`: %+v, %v; want it skipped", resolved, err)
	}
}

// Only a run that succeeded and was not declined is what `last` means, and what it means is settled when a run begins.
func TestLastIsTheLastAcceptedRun(t *testing.T) {
	b := newBench(t, counted)
	b.begin("r1")
	b.end("r1", "count", `{"rows": 100}`)
	b.end("r1", "use", `{}`)
	if out := b.finish("r1", spec.StatusSucceeded); out.Status != spec.StatusSucceeded {
		t.Fatalf("r1 ended as %+v", out)
	}
	b.began = b.began.Add(time.Hour)
	b.begin("r2")
	if word := b.end("r2", "count", `{"rows": 50}`); word.Status != spec.StatusDeclined {
		t.Fatalf("r2 was judged %+v, want declined", word)
	}
	b.finish("r2", spec.StatusDeclined)
	b.began = b.began.Add(time.Hour)
	b.begin("r3")
	if word := b.end("r3", "count", `{"rows": 99}`); word.Status != spec.StatusDeclined {
		t.Errorf("r3 was judged %+v, want declined: r1 with 100 rows is the last accepted run", word)
	}
}

func TestOutputsOfARun(t *testing.T) {
	b := newBench(t, counted)
	b.begin("r1")
	b.end("r1", "count", `{"rows": 20}`)
	b.end("r1", "use", `{}`)
	if out := b.finish("r1", spec.StatusSucceeded); out.Error != "" {
		t.Fatal(out.Error)
	}
	run, err := record.LoadRun(t.Context(), b.engine.Store, "r1")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(spec.Values{"rows": int64(20)}, run.Outputs); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
}

func TestPublishAfterTheGate(t *testing.T) {
	b := newBench(t, `
steps:
  make:
    run: {command: [make], outputs: {data: {type: dataset, path: data}, ok: {type: bool}}}
    publish: {data: things}
    gate: ok
`)
	b.begin("r1")
	published := func() (n int) {
		for _, err := range b.engine.Store.Driver().List(t.Context(), "registry/dataset/things/") {
			if err != nil {
				t.Fatal(err)
			}
			n++
		}
		return n
	}
	data := artifact.Ref{Type: artifact.Dataset, Digest: "sha256:" + strings.Repeat("a", 64), Files: 1}
	outputs := func(ok bool) string {
		raw, err := json.Marshal(map[string]any{"data": data, "ok": ok})
		if err != nil {
			t.Fatal(err)
		}
		return string(raw)
	}
	if b.end("r1", "make", outputs(false)); published() != 0 {
		t.Error("published although the gate failed")
	}
	b.end("r1", "make", outputs(true))
	if b.end("r1", "make", outputs(true)); published() != 1 {
		t.Errorf("%d versions are published, want one, also after a retry", published())
	}
}

func TestLargeOutputsTravelByDigest(t *testing.T) {
	s, err := store.Open(t.Context(), "mem://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	for _, size := range []int{10, record.InlineLimit + 1} {
		want := strings.Repeat("x", size)
		out, err := record.StoreOutputs(t.Context(), s, map[string]string{"text": want})
		if err != nil {
			t.Fatal(err)
		}
		if inline := out.OutputsRef == ""; inline != (size < record.InlineLimit) {
			t.Errorf("outputs of %d bytes: inline is %v", size, inline)
		}
		raw, err := record.LoadOutputs(t.Context(), s, out)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(raw), want) {
			t.Errorf("outputs of %d bytes came back as %d bytes", size, len(raw))
		}
	}
}

func TestASubmissionThatIsGoneIsAClearError(t *testing.T) {
	b := newBench(t, counted)
	b.submission = "sha256:" + strings.Repeat("0", 64)
	_, err := b.engine.Resolve(context.Background(), b.at("r1", "count"))
	if err == nil || !strings.Contains(err.Error(), b.submission) {
		t.Errorf("error %v, want one that names the submission", err)
	}
}

// A run of some steps says nothing of the others: it is no baseline for `last`, and no cause for who waits for the pipeline's runs.
func TestARunOfSomeStepsIsNotAccepted(t *testing.T) {
	b := newBench(t, "steps: {one: {run: {command: [one]}}, two: {run: {command: [two]}}}\n")
	b.begin("whole")
	b.finish("whole", spec.StatusSucceeded)
	in := contract.RunInput{
		Run: "part", Name: "p", Submission: b.submission, Graph: b.program.Graph(), Reuse: record.Reuse{Only: []string{"one"}},
	}
	b.began = b.began.Add(time.Hour)
	if _, err := b.engine.Begin(t.Context(), contract.BeginInput{RunInput: in, StartedAt: b.began}); err != nil {
		t.Fatal(err)
	}
	b.finish("part", spec.StatusSucceeded)
	if last, err := record.LastAccepted(t.Context(), b.engine.Store, "p", ""); last.Run != "whole" || err != nil {
		t.Errorf("the last accepted run is %q, %v; want the whole one", last.Run, err)
	}
}

// What serves may be of a run that is still open: what its steps have said so far is not all that they will say.
func TestResultsOfAnOpenRunAreReadAgain(t *testing.T) {
	b := newBench(t, "steps: {one: {run: {command: [one], outputs: {n: {type: int}}}}}\n")
	b.begin("r1")
	status := func() spec.Status {
		all, err := b.engine.allResults(t.Context(), "r1")
		if err != nil {
			t.Fatal(err)
		}
		return all["one"].Status
	}
	if got := status(); got != spec.StatusPending {
		t.Fatalf("the step is %s before it has ended", got)
	}
	b.end("r1", "one", `{"n": 1}`)
	if got := status(); got != spec.StatusSucceeded {
		t.Errorf("the step is %s although it has succeeded meanwhile", got)
	}
}
