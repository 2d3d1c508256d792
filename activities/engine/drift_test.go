package engine

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/pipelines/columns"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/store/registry"
)

const drifting = `
steps:
  fetch: {run: {command: [fetch], outputs: {raw: {type: dataset, path: raw}}}}
  mail:
    clean:
      inputs: {raw: "${steps.fetch.raw}"}
      transforms: [{type: ReadFromJson, config: {path: "${inputs.raw.path}/x"}}, {type: WriteToJson}]
      drift: {against: BASELINE}
    gate:
      - drift.?columns["len"].psi.orValue(0.0) < 0.2
      - "!schema.changed"
    publish: {dataset: mail}
`

// cleaned is what a clean step hands on whose rows have these in a column.
func (b *bench) cleaned(digest, column string, lengths ...int64) spec.CleanOutput {
	b.Helper()
	p := columns.NewProfile("all")
	for _, n := range lengths {
		if err := p.Add("all", map[string]any{column: n}, nil); err != nil {
			b.Fatal(err)
		}
	}
	text, err := json.Marshal(p)
	if err != nil {
		b.Fatal(err)
	}
	out := spec.CleanOutput{Dataset: artifact.Ref{Type: artifact.Dataset, Digest: digest}, Profile: p.Summary()}
	if out.Statistics, _, err = b.engine.Store.PutBlob(b.Context(), bytes.NewReader(text)); err != nil {
		b.Fatal(err)
	}
	return out
}

// rawOf is the digest of what a run has fetched.
func rawOf(run string) string { return fmt.Sprintf("sha256:%064x", run) }

// endClean runs a pipeline up to its clean step, which handed on out, and ends it with that step.
func (b *bench) endClean(run string, at time.Time, out spec.CleanOutput) contract.StepVerdict {
	b.Helper()
	b.began = at
	b.begin(run)
	b.end(run, "fetch", `{"raw": {"type": "dataset", "digest": "`+rawOf(run)+`", "bytes": 1, "files": 1}}`)
	raw, err := json.Marshal(out)
	if err != nil {
		b.Fatal(err)
	}
	word, err := b.engine.Verdict(b.Context(), contract.StepEnd{
		StepRef: b.at(run, "mail").StepRef, Kind: spec.KindClean, Status: spec.StatusSucceeded, Output: record.StepOutput{Outputs: raw},
		ReusedFrom: b.from,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.finish(run, word.Status)
	return word
}

func (b *bench) outputs(run string) (out spec.CleanOutput) {
	b.Helper()
	if err := json.Unmarshal(b.record(run, "mail").Outputs, &out); err != nil {
		b.Fatal(err)
	}
	return out
}

func TestDrift(t *testing.T) {
	for _, baseline := range []string{"last", "mail"} {
		t.Run(baseline, func(t *testing.T) {
			b := newBench(t, string(bytes.ReplaceAll([]byte(drifting), []byte("BASELINE"), []byte(baseline))))
			day := b.began
			if word := b.endClean("r1", day, b.cleaned("d1", "len", 1, 2, 3, 4)); word.Status != spec.StatusSucceeded {
				t.Fatalf("the first run ended as %s: %s", word.Status, word.Error)
			}
			if out := b.outputs("r1"); out.Drift != nil || out.Schema.Changed {
				t.Errorf("the first run drifts: %+v %+v", out.Drift, out.Schema)
			}
			// What no gate let pass is never a baseline.
			if word := b.endClean("r2", day.Add(time.Hour), b.cleaned("d2", "len", 90, 91, 92, 93)); word.Status != spec.StatusFailed {
				t.Errorf("the second run ended as %s", word.Status)
			}
			if got := b.outputs("r2").Drift; got == nil || got.Against != "d1" || got.Columns["len"].KS != 1 {
				t.Errorf("the second run's drift: %+v", got)
			}
			if word := b.endClean("r3", day.Add(2*time.Hour), b.cleaned("d3", "len", 4, 3, 2, 1)); word.Status != spec.StatusSucceeded {
				t.Errorf("the third run ended as %s: %s", word.Status, word.Error)
			}
			if got := b.outputs("r3").Drift; got == nil || got.Against != "d1" {
				t.Errorf("the third run's drift: %+v", got)
			}
			word := b.endClean("r4", day.Add(3*time.Hour), b.cleaned("d4", "size", 4))
			want := spec.SchemaChange{Changed: true, Added: []string{"size"}, Removed: []string{"len"}, Retyped: []string{}}
			if diff := cmp.Diff(want, b.outputs("r4").Schema); diff != "" || word.Status == spec.StatusSucceeded {
				t.Errorf("the fourth run ended as %s, its schema (-want +got):\n%s", word.Status, diff)
			}
		})
	}
}

// TestDriftOfWhatIsTakenOver: a result from the cache is compared with what was accepted since it was made.
func TestDriftOfWhatIsTakenOver(t *testing.T) {
	b := newBench(t, string(bytes.ReplaceAll([]byte(drifting), []byte("BASELINE"), []byte("last"))))
	day := b.began
	old := b.cleaned("d1", "len", 1, 2, 3, 4)
	b.endClean("r1", day, old)
	b.endClean("r2", day.Add(time.Hour), b.cleaned("d2", "len", 4, 3, 2, 1))
	again := b.outputs("r1") // as the cache has it: compared with nothing
	b.from = "r1"
	if word := b.endClean("r3", day.Add(2*time.Hour), again); word.Status != spec.StatusSucceeded {
		t.Fatalf("the third run ended as %s: %s", word.Status, word.Error)
	}
	if got := b.outputs("r3").Drift; got == nil || got.Against != "d2" {
		t.Errorf("what is taken over was compared with %+v, want d2", got)
	}
}

// TestDriftAgainstAFannedOutStep: a step that was fanned out in the last accepted run made several datasets, of which none is the baseline.
func TestDriftAgainstAFannedOutStep(t *testing.T) {
	for _, large := range []bool{false, true} {
		b := newBench(t, string(bytes.ReplaceAll([]byte(drifting), []byte("BASELINE"), []byte("last"))))
		b.endClean("r1", b.began, b.cleaned("d1", "len", 1, 2, 3, 4))
		gathered := record.StepRecord{
			Step: "mail", Kind: spec.KindClean, Status: spec.StatusSucceeded, Of: 2, Outputs: json.RawMessage(`[{}, {}]`),
		}
		if large {
			digest, _, err := b.engine.Store.PutBlob(t.Context(), bytes.NewReader(gathered.Outputs))
			if err != nil {
				t.Fatal(err)
			}
			gathered.Outputs, gathered.OutputsRef = nil, digest
		}
		if err := b.engine.Store.PutJSON(t.Context(), record.Key(b.at("r1", "mail").StepRef), gathered, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		if word := b.endClean("r2", b.began.Add(time.Hour), b.cleaned("d2", "len", 4, 3, 2, 1)); word.Status != spec.StatusSucceeded {
			t.Fatalf("the second run ended as %s: %s", word.Status, word.Error)
		}
		if got := b.outputs("r2").Drift; got != nil {
			t.Errorf("it was compared with %+v", got)
		}
	}
}

// TestDriftAgainstNothing: a baseline that nobody publishes is a mistake, and is said before anything is cleaned.
func TestDriftAgainstNothing(t *testing.T) {
	b := newBench(t, string(bytes.ReplaceAll([]byte(drifting), []byte("BASELINE"), []byte("mial"))))
	b.begin("r1")
	b.end("r1", "fetch", `{"raw": {"type": "dataset", "digest": "d", "bytes": 1, "files": 1}}`)
	_, err := b.engine.Resolve(t.Context(), b.at("r1", "mail"))
	if fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), `there is no published dataset of that name`) {
		t.Errorf("%v", err)
	}
}

// What a dataset is compared with does not change what is done, and so not the cache key.
func TestDriftIsNoPartOfTheKey(t *testing.T) {
	key := func(baseline string) string {
		b := newBench(t, string(bytes.ReplaceAll([]byte(drifting), []byte("BASELINE"), []byte(baseline))))
		b.begin("r1")
		b.end("r1", "fetch", `{"raw": {"type": "dataset", "digest": "d", "bytes": 1, "files": 1}}`)
		return b.key("r1", "mail")
	}
	if a, b := key("last"), key("mail"); a != b {
		t.Errorf("keys %s and %s", a, b)
	}
}

func TestVersions(t *testing.T) {
	b := newBench(t, string(bytes.ReplaceAll([]byte(drifting), []byte("BASELINE"), []byte("last"))))
	ctx, s, day := t.Context(), b.engine.Store, b.began
	b.endClean("r1", day, b.cleaned("d1", "len", 1, 2))
	b.endClean("r2", day.Add(time.Hour), b.cleaned("d2", "len", 2, 1))
	current := func() string {
		t.Helper()
		all, err := registry.Current(ctx, s, artifact.Dataset)
		if err != nil {
			t.Fatal(err)
		}
		return all["mail"].Artifact.Digest
	}
	all, err := registry.Versions(ctx, s, artifact.Dataset, "mail")
	if err != nil || len(all) != 2 || all[0].Run != "r2" || current() != "d2" {
		t.Fatalf("got %+v, %v, current %s", all, err, current())
	}
	want := map[string]artifact.Ref{"raw": {Type: artifact.Dataset, Digest: rawOf("r2"), Bytes: 1, Files: 1}}
	if diff := cmp.Diff(want, all[0].Parents); diff != "" || all[0].Statistics == "" {
		t.Errorf("lineage %+v (-want +got):\n%s", all[0], diff)
	}
	if there, err := s.HasBlob(ctx, all[0].Spec); !there || err != nil {
		t.Errorf("the spec %s is not in the store: %v", all[0].Spec, err)
	}
	// Rolled back, a name means the earlier version, for a run that begins afterwards too, until another is published.
	if err := registry.PointTo(ctx, s, all[1], "user:anna", "", day.Add(2*time.Hour)); err != nil || current() != "d1" {
		t.Errorf("current is %s, %v", current(), err)
	}
	if _, _, err := registry.Publish(ctx, s, all[0]); err != nil || current() != "d1" {
		t.Errorf("a late retry undid the rollback: %s, %v", current(), err)
	}
	taken := all[0]
	taken.At, taken.By = day.Add(150*time.Minute), "r2b"
	if registered, _, err := registry.Publish(ctx, s, taken); err != nil || registered || current() != "d1" {
		t.Errorf("a result that was taken over is registered: %v, and current is %s, %v", registered, current(), err)
	}
	again := all[0]
	again.At, again.Run = day.Add(160*time.Minute), "r2c"
	if _, _, err := registry.Publish(ctx, s, again); err != nil || current() != "d1" {
		t.Errorf("the same made again undid the rollback: %s, %v", current(), err)
	}
	reader := *b
	reader.submit(strings.Replace(drifting, "BASELINE", "mail", 1), document.File{})
	reader.begin("reads")
	b.endClean("r3", day.Add(3*time.Hour), b.cleaned("d3", "len", 2, 1))
	if record, err := reader.engine.record(ctx, "reads"); err != nil || record.Datasets["mail"].Digest != "d1" || current() != "d3" {
		t.Errorf("the run saw %+v, current is %s, %v", record.Datasets, current(), err)
	}
	// A run whose pipeline does not read a name does not keep its version.
	if record, err := b.engine.record(ctx, "r3"); err != nil || len(record.Datasets) > 0 {
		t.Errorf("the run keeps %+v, %v", record.Datasets, err)
	}
	if got := b.outputs("r3").Drift; got == nil || got.Against != "d2" {
		t.Errorf("the drift is against %+v, want d2, which the last accepted run made", got)
	}
}
