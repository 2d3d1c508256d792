package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

const cacheable = `
params: {rows: {type: int, default: 3}}
steps:
  count:
    run: {command: [count, "${params.rows}"], outputs: {rows: {type: int}}}
    env: {MODE: fast}
  tell:
    run: {command: [tell, "${steps.count.rows}"]}
  fresh:
    run: {command: [now], outputs: {at: {type: string}}}
    cache: false
  young:
    run: {command: [young], outputs: {at: {type: string}}}
    cache: {max_age: 1h}
`

func TestStepCache(t *testing.T) {
	tests := []struct {
		name, step string
		reuse      record.Reuse
		later      time.Duration
		want       string // the run that is taken over from
	}{
		{"the same again is a hit", "count", record.Reuse{}, 0, "r1"},
		{"not without the cache", "count", record.Reuse{NoCache: true}, 0, ""},
		{"not when it is to be done again", "count", record.Reuse{Again: []string{"count"}}, 0, ""},
		{"a run without outputs is not cached", "tell", record.Reuse{}, 0, ""},
		{"nor what says so", "fresh", record.Reuse{}, 0, ""},
		{"a rerun takes over also what is not cached", "fresh", record.Reuse{From: "r1", NoCache: true}, 0, "r1"},
		{"but not what is to be done again", "fresh", record.Reuse{From: "r1", Again: []string{"fresh"}}, 0, ""},
		{"young enough", "young", record.Reuse{}, time.Hour, "r1"},
		{"too old", "young", record.Reuse{}, time.Hour + 1, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			b := newBench(t, cacheable)
			b.begin("r1")
			b.end("r1", "count", `{"rows": 3}`)
			b.end("r1", "tell", `{}`)
			b.end("r1", "fresh", `{"at": "now"}`)
			b.end("r1", "young", `{"at": "now"}`)
			b.begin("r2")
			b.end("r2", "count", `{"rows": 3}`)
			in := b.at("r2", tt.step)
			if tt.step == "count" { // r2 has one of its own by now
				b.begin("r3")
				in = b.at("r3", tt.step)
				tt.want = strings.ReplaceAll(tt.want, "r1", "r2")
			}
			in.Reuse, in.Now = tt.reuse, b.began.Add(tt.later)
			resolved, err := b.engine.Resolve(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if resolved.Hit != tt.want {
				t.Errorf("taken over from %q, want %q", resolved.Hit, tt.want)
			}
			if resolved.Hit != "" && string(resolved.Output.Outputs) == "" {
				t.Error("a hit without outputs")
			}
		})
	}
}

// TestAStoreThatCannotBeReadIsNoMiss: a training is not done again because the store was away for a moment.
func TestAStoreThatCannotBeReadIsNoMiss(t *testing.T) {
	b := newBench(t, cacheable)
	b.begin("r1")
	b.end("r1", "count", `{"rows": 3}`)
	b.begin("r2")
	whole := b.engine.Store
	b.engine.Store = store.New(withoutCache{whole.Driver()}, whole.URL())
	if resolved, err := b.engine.Resolve(t.Context(), b.at("r2", "count")); !errors.Is(err, errAway) {
		t.Errorf("while the store was away: %+v, %v", resolved, err)
	}
	b.engine.Store = whole
	if resolved, err := b.engine.Resolve(t.Context(), b.at("r2", "count")); err != nil || resolved.Hit != "r1" {
		t.Errorf("afterwards: %+v, %v", resolved, err)
	}
}

var errAway = errors.New("connection refused")

// withoutCache is a store of which the entries of the cache cannot be read.
type withoutCache struct{ store.Driver }

func (w withoutCache) Read(ctx context.Context, key string) (io.ReadCloser, error) {
	if strings.HasPrefix(key, store.CachePrefix) {
		return nil, errAway
	}
	return w.Driver.Read(ctx, key)
}

// A step that is left out is skipped, unless a step that is to be done waits for it.
func TestOnlySomeSteps(t *testing.T) {
	b := newBench(t, cacheable)
	b.begin("r1")
	in := b.at("r1", "fresh")
	in.Reuse = record.Reuse{Only: []string{"tell"}, Needed: []string{"count"}}
	if resolved, err := b.engine.Resolve(t.Context(), in); err != nil || !strings.Contains(resolved.Skip, "not selected") {
		t.Errorf("a step that nobody needs: %+v, %v; want it skipped", resolved, err)
	}
	in.Step = "count"
	if _, err := b.engine.Resolve(t.Context(), in); fault.TypeOf(err) != fault.Invalid || !strings.Contains(err.Error(), "not selected") {
		t.Errorf("a step that is needed: %v; want an invalid error", err)
	}
	b.began = b.began.Add(time.Hour)
	b.begin("r0")
	b.end("r0", "count", `{"rows": 3}`)
	b.end("r0", "fresh", `{}`)
	b.finish("r0", spec.StatusSucceeded)
	b.began = b.began.Add(time.Hour)
	b.begin("r2")
	in = b.at("r2", "fresh")
	in.Reuse = record.Reuse{Only: []string{"tell"}, Needed: []string{"count", "fresh"}}
	if _, err := b.engine.Resolve(t.Context(), in); err == nil || !strings.Contains(err.Error(), "`sluice rerun r0 --only tell` reuses those of that run") {
		t.Errorf("a step that is needed and not cached: %v; want the command that reuses its result", err)
	}
	in.Reuse.From = "r0"
	if resolved, err := b.engine.Resolve(t.Context(), in); err != nil || resolved.Hit != "r0" {
		t.Errorf("that command: %+v, %v; want it taken over from r0", resolved, err)
	}
	in.Step = "count"
	if resolved, err := b.engine.Resolve(t.Context(), in); err != nil || resolved.Hit != "r0" {
		t.Errorf("a step that is needed and done: %+v, %v; want it taken over from r0", resolved, err)
	}
}

// A result that is taken over twice is still the first run's, and as old as it was.
func TestATakenOverResultGetsNoYounger(t *testing.T) {
	b := newBench(t, cacheable)
	b.begin("r1")
	b.end("r1", "young", `{"at": "now"}`)
	resolve := func(run string, later time.Duration) contract.Resolved {
		b.begin(run)
		in := b.at(run, "young")
		in.Now = b.began.Add(later)
		resolved, err := b.engine.Resolve(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return resolved
	}
	hit := resolve("r2", 50*time.Minute)
	end := contract.StepEnd{
		StepRef: b.at("r2", "young").StepRef, Kind: spec.KindRun, Status: spec.StatusSucceeded, Key: hit.Key, Output: hit.Output, ReusedFrom: hit.Hit,
	}
	if _, err := b.engine.Verdict(t.Context(), end); err != nil {
		t.Fatal(err)
	}
	if got := resolve("r3", 55*time.Minute).Hit; got != "r1" {
		t.Errorf("taken over from %q, want r1", got)
	}
	if got := resolve("r4", 70*time.Minute).Hit; got != "" {
		t.Errorf("taken over from %q although it is older than an hour", got)
	}
}

// What a step depends on, and nothing else, is in its key.
func TestKeySeesChanges(t *testing.T) {
	parts := func(pipeline string) map[string]string {
		b := newBench(t, pipeline)
		b.begin("r1")
		b.end("r1", "count", `{"rows": 3}`)
		return b.record("r1", "count").Parts
	}
	tests := []struct {
		name, old, new string
		want           []string
	}{
		{"a parameter it reads", "default: 3", "default: 4", []string{"command"}},
		{"its environment", "MODE: fast", "MODE: slow", []string{"env.MODE"}},
		{"another step", "[tell, ", "[shout, ", nil},
		{"its gate", "    env: {MODE: fast}\n", "    env: {MODE: fast}\n    gate: rows > 0\n", nil},
		{"its own outputs", "{rows: {type: int}}}\n    env", "{rows: {type: int}, more: {type: int}}}\n    env", []string{"outputs"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			changed := strings.Replace(cacheable, tt.old, tt.new, 1)
			if changed == cacheable {
				t.Fatal("nothing was changed")
			}
			if diff := cmp.Diff(tt.want, differing(parts(cacheable), parts(changed))); diff != "" {
				t.Errorf("parts that changed (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAHitWhoseArtifactIsGoneIsAMiss(t *testing.T) {
	b := newBench(t, `
steps:
  make:
    run: {command: [make], outputs: {data: {type: dataset, path: data}}}
`)
	ref := b.tree(artifact.Dataset)
	b.begin("r1")
	b.end("r1", "make", `{"data": {"type": "dataset", "digest": "`+ref.Digest+`", "bytes": 4, "files": 1}}`)
	hit := func() string {
		resolved, err := b.engine.Resolve(t.Context(), b.at("r2", "make"))
		if err != nil {
			t.Fatal(err)
		}
		return resolved.Hit
	}
	b.begin("r2")
	if got := hit(); got != "r1" {
		t.Fatalf("taken over from %q, want r1", got)
	}
	b.lose(ref)
	if got := hit(); got != "" {
		t.Errorf("taken over from %q although a file of the dataset no longer exists", got)
	}
}

// What no gate let pass is not found, neither by the cache nor by a rerun.
func TestAResultThatDidNotPassIsNotFound(t *testing.T) {
	b := newBench(t, `
steps:
  make:
    run: {command: [make], outputs: {rows: {type: int}}}
    gate: rows > 2
`)
	for _, rows := range []int{1, 3} {
		run := fmt.Sprintf("r%d", rows)
		b.begin(run)
		b.end(run, "make", fmt.Sprintf(`{"rows": %d}`, rows))
		again := run + "-again"
		b.begin(again)
		for _, reuse := range []record.Reuse{{}, {From: run, NoCache: true}} {
			in := b.at(again, "make")
			in.Reuse = reuse
			resolved, err := b.engine.Resolve(t.Context(), in)
			if err != nil {
				t.Fatal(err)
			}
			if found := resolved.Hit == run; found != (rows > 2) {
				t.Errorf("of %d rows the result is taken over by %+v: %t", rows, reuse, found)
			}
		}
	}
}

// A rerun takes over what was done, and was refused by another gate than there is now. What its gate refuses again, or what a person would be
// asked about, is done again, and the cache knows of neither.
func TestARerunTakesOverWhatItsGateLetsPassNow(t *testing.T) {
	const step = "steps:\n  make:\n    run: {command: [make], files: none, outputs: {rows: {type: int}}}\n"
	b := newBench(t, step)
	b.workspace = b.tree(artifact.Workspace)
	b.submit(step+"    gate: rows > 2\n", document.File{})
	b.begin("r1")
	if word := b.end("r1", "make", `{"rows": 1}`); word.Status != spec.StatusFailed {
		t.Fatalf("the step ended as %s", word.Status)
	}
	for gate, taken := range map[string]bool{
		"    gate: rows > 2\n": false, "    gate: rows > 0\n": true, "": true, "    gate: rows / (rows - 1) > 0\n": false,
		"    gate:\n      - rows > 0\n      - {check: rows > 2, on_fail: stop}\n": false, "    gate:\n      - {check: rows > 2, on_fail: hold}\n": false,
	} {
		t.Run(gate, func(t *testing.T) {
			b := &bench{T: t, engine: b.engine, began: b.began, workspace: b.workspace}
			b.submit(step+gate, document.File{})
			b.begin("r2")
			for reuse, want := range map[*record.Reuse]bool{{From: "r1"}: taken, {From: "r1", Again: []string{"make"}}: false, {}: false} {
				in := b.at("r2", "make")
				in.Reuse = *reuse
				resolved, err := b.engine.Resolve(t.Context(), in)
				if err != nil || (resolved.Hit == "r1") != want {
					t.Errorf("with %+v it is taken over from %q, %v; want it to be: %t", *reuse, resolved.Hit, err, want)
				}
				plan, err := NewPlan(t.Context(), b.engine.Store, PlanInput{
					Submission: record.Submission{File: "p.yaml"}, Program: b.program, Reuse: *reuse, Now: b.began,
				})
				if got := plan.Steps["make"]; err != nil || (got.Action == contract.ActionReuse) != want || want && got.Reason != "" {
					t.Errorf("with %+v the plan is %+v, %v; want it to be taken over: %t", *reuse, got, err, want)
				}
			}
		})
	}
}

// A person who did not decide in time is asked again by a rerun, about the same result; who said no is not.
func TestARerunAsksAgain(t *testing.T) {
	b := newBench(t, `
steps:
  make:
    run: {command: [make], outputs: {rows: {type: int}}}
    gate:
      - {check: rows > 2, on_fail: hold, hold: {timeout: 8h, default: fail}}
`)
	b.begin("r1")
	in := b.at("r1", "make")
	first, err := b.engine.Resolve(t.Context(), in)
	if err != nil {
		t.Fatal(err)
	}
	for by, taken := range map[string]string{"": "r1", "user:anna": ""} {
		word, err := b.engine.Verdict(t.Context(), contract.StepEnd{
			StepRef: in.StepRef, Kind: spec.KindRun, Status: spec.StatusSucceeded, Key: first.Key,
			Output: record.StepOutput{Outputs: json.RawMessage(`{"rows": 1}`)}, Decision: &record.Decision{By: by, Check: 1},
		})
		if err != nil || word.Status != spec.StatusFailed {
			t.Fatalf("the step ended as %s, %v", word.Status, err)
		}
		b.begin("r2")
		again := b.at("r2", "make")
		again.Reuse.From = "r1"
		resolved, err := b.engine.Resolve(t.Context(), again)
		if err != nil || resolved.Hit != taken {
			t.Errorf("rejected by %q, it is taken over from %q, %v; want %q", by, resolved.Hit, err, taken)
		}
		word, err = b.engine.Verdict(t.Context(), contract.StepEnd{
			StepRef: again.StepRef, Kind: spec.KindRun, Status: spec.StatusSucceeded, Key: resolved.Key, ReusedFrom: "r1", Output: resolved.Output,
		})
		if taken != "" && (err != nil || word.Status != spec.StatusHold) {
			t.Errorf("taken over, it ended as %s, %v; want it held", word.Status, err)
		}
	}
}

// What a rollout did was undone when its gate refused it, and what a child or a person refused is not the doing of the step's own gate.
func TestWhatWasUndoneIsNotTakenOver(t *testing.T) {
	b := newBench(t, "steps: {one: {run: {command: [one]}}}\n")
	refused := record.StepRecord{Status: spec.StatusFailed, ErrorType: fault.Gate, Verdict: spec.VerdictFail}
	for name, tt := range map[string]struct {
		kind spec.Kind
		rec  record.StepRecord
		want spec.Status
	}{
		"its gate":       {spec.KindRun, refused, spec.StatusSucceeded},
		"of a rollout":   {spec.KindRollout, refused, spec.StatusFailed},
		"no gate":        {spec.KindPipeline, record.StepRecord{Status: spec.StatusDeclined, ErrorType: fault.Gate}, spec.StatusDeclined},
		"another reason": {spec.KindRun, record.StepRecord{Status: spec.StatusFailed, ErrorType: fault.User}, spec.StatusFailed},
	} {
		rec, err := b.engine.passesNow(t.Context(), b.program, spec.Node{ID: "one", Kind: tt.kind}, spec.Vars{}, tt.rec)
		if err != nil || rec.Status != tt.want {
			t.Errorf("%s: %s, %v; want %s", name, rec.Status, err, tt.want)
		}
	}
}

func TestHold(t *testing.T) {
	const held = `
steps:
  count:
    run: {command: [count], outputs: {rows: {type: int}}}
    gate:
      - {check: rows > 10, message: few rows, on_fail: hold, hold: {timeout: 8h, default: pass}}
`
	b := newBench(t, held)
	b.begin("r1")
	word := b.end("r1", "count", `{"rows": 5}`)
	if word.Status != spec.StatusHold || word.Hold == nil || !strings.Contains(word.Hold.Seen, "rows = 5") {
		t.Fatalf("judged %+v, want it held with what was seen", word)
	}
	if limit, want := word.Hold.Limit(), 8*time.Hour; limit != want || word.Hold.Approval.Default != contract.DefaultApprove {
		t.Errorf("held for %s with the default %q, want %s and approve", limit, word.Hold.Approval.Default, want)
	}
	for _, approved := range []bool{false, true} {
		decision := record.Decision{Approved: approved, By: "ann", Reason: "seen it", Check: 1}
		word, err := b.engine.Verdict(t.Context(), contract.StepEnd{
			StepRef: b.at("r1", "count").StepRef, Kind: spec.KindRun, Status: spec.StatusSucceeded,
			Output: record.StepOutput{Outputs: []byte(`{"rows": 5}`)}, Decision: &decision,
		})
		want := spec.StatusFailed
		if approved {
			want = spec.StatusSucceeded
		}
		if err != nil || word.Status != want || !approved && !strings.Contains(word.Error, "rejected by ann: seen it") {
			t.Errorf("approved=%v: judged %+v, %v; want %s", approved, word, err, want)
		}
		if got := b.record("r1", "count").Decision; got == nil || got.By != "ann" {
			t.Errorf("the record's decision is %+v, want ann's", got)
		}
	}
}

// TestHoldOfEachCondition: each condition that does not hold is asked about by itself, of its own people; all must be passed, and one no is
// enough.
func TestHoldOfEachCondition(t *testing.T) {
	b := newBench(t, `
steps:
  count:
    run: {command: [count], outputs: {rows: {type: int}}}
    gate:
      - rows > 0
      - {check: rows > 10, on_fail: hold, hold: {who: ["user:ann"], default: pass}}
      - {check: rows > 2, on_fail: hold, hold: {who: ["user:cem"]}}
      - {check: rows > 20, on_fail: hold, hold: {who: ["user:eve"], timeout: 1h}}
`)
	b.begin("r1")
	judge := func(last *record.Decision, earlier ...record.Decision) contract.StepVerdict {
		t.Helper()
		word, err := b.engine.Verdict(t.Context(), contract.StepEnd{
			StepRef: b.at("r1", "count").StepRef, Kind: spec.KindRun, Status: spec.StatusSucceeded,
			Output: record.StepOutput{Outputs: []byte(`{"rows": 5}`)}, Decision: last, Earlier: earlier,
		})
		if err != nil {
			t.Fatal(err)
		}
		return word
	}
	asked := func(word contract.StepVerdict, check int, user, byDefault string) {
		t.Helper()
		if h := word.Hold; word.Status != spec.StatusHold || h.Check != check || len(h.Users) != 1 || h.Users[0] != user || h.Approval.Default != byDefault {
			t.Errorf("judged %s, asked %+v; want %s to be asked of %d", word.Status, h, user, check)
		}
	}
	ann, eve := record.Decision{Approved: true, By: "user:ann", Check: 2}, record.Decision{Approved: true, By: "user:eve", Check: 4}
	asked(judge(nil), 2, "user:ann", contract.DefaultApprove)
	asked(judge(&ann), 4, "user:eve", "")
	if word := judge(&eve, ann); word.Status != spec.StatusSucceeded {
		t.Errorf("passed by both, it is %s: %s", word.Status, word.Error)
	}
	if r := b.record("r1", "count"); r.Decision.By != "user:eve" || len(r.Earlier) != 1 || r.Earlier[0].By != "user:ann" {
		t.Errorf("the record keeps %+v and %+v", r.Decision, r.Earlier)
	}
	no := record.Decision{By: "user:ann", Check: 2}
	if word := judge(&no); word.Status != spec.StatusFailed || !strings.Contains(word.Error, "rows > 10") || !strings.Contains(word.Error, "rejected by user:ann") {
		t.Errorf("rejected, it is %s: %s", word.Status, word.Error)
	}
	no = record.Decision{Check: 4, Reason: "no decision was made within 1h"}
	if word := judge(&no, ann); word.Status != spec.StatusFailed || !strings.Contains(word.Error, "rows > 20") {
		t.Errorf("rejected by default, it is %s: %s", word.Status, word.Error)
	}
}

// What a training tells of its generations is its history: their checkpoints lie in a part of the store of their own, and most of them
// are gone by the time it is done. Only the outputs it declares must be there for its result to be taken over.
func TestATrainingOfManyGenerationsIsTakenOver(t *testing.T) {
	b := newBench(t, `
steps:
  fit:
    train: {command: [fit], outputs: {model: {type: model, path: model}}}
  kid:
    pipeline:
      steps: {fit: {train: {command: [fit]}}}
      outputs: {past: "${steps.fit.generations}"}
    cache: true
`)
	gone := `[{"index": 1}, {"index": 2, "checkpoint": {"type": "checkpoint", "digest": "sha256:` + strings.Repeat("0", 64) + `", "bytes": 1, "files": 1}}]`
	ref := b.tree(artifact.Model)
	b.begin("r1")
	b.end("r1", "fit", `{"generations": `+gone+`, "model": {"type": "model", "digest": "`+ref.Digest+`", "bytes": 4, "files": 1}}`)
	b.end("r1", "kid", `{"past": `+gone+`}`)
	hit := func(run, step string, reuse record.Reuse) string {
		in := b.at(run, step)
		in.Reuse = reuse
		resolved, err := b.engine.Resolve(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		return resolved.Hit
	}
	b.begin("r2")
	for _, step := range []string{"fit", "kid"} {
		if got := hit("r2", step, record.Reuse{}); got != "r1" {
			t.Errorf("%s is taken over from %q by the cache, want r1", step, got)
		}
		if got := hit("r2", step, record.Reuse{From: "r1", NoCache: true}); got != "r1" {
			t.Errorf("%s is taken over from %q by a rerun, want r1", step, got)
		}
	}
	b.lose(ref)
	if got := hit("r2", "fit", record.Reuse{}); got != "" {
		t.Errorf("taken over from %q although the model no longer exists", got)
	}
}

// tree stores an artifact of one file.
func (b *bench) tree(typ artifact.Type) artifact.Ref {
	b.Helper()
	dir := b.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "rows"), []byte("1\n2\n"), 0o600); err != nil {
		b.Fatal(err)
	}
	ref, err := b.engine.Store.PutTree(b.Context(), typ, dir, nil, nil)
	if err != nil {
		b.Fatal(err)
	}
	return ref
}

// lose removes a file of an artifact.
func (b *bench) lose(ref artifact.Ref) {
	b.Helper()
	manifest, err := b.engine.Store.Manifest(b.Context(), ref)
	if err != nil {
		b.Fatal(err)
	}
	sum := strings.TrimPrefix(manifest.Files[0].Digest, "sha256:")
	if err := b.engine.Store.Driver().Delete(b.Context(), "blobs/"+sum[:2]+"/"+sum); err != nil {
		b.Fatal(err)
	}
}

// What follows the main steps is done in every run: neither a rerun nor the cache takes its place, nor that of anything in a child of it.
func TestTheStepsAfterAreDoneAgain(t *testing.T) {
	b := newBench(t, `
steps:
  one: {run: {command: [one], outputs: {n: {type: int}}}}
on_failure:
  page: {run: {command: [page], outputs: {n: {type: int}}}, cache: true}
finally:
  drop: {run: {command: [drop], outputs: {n: {type: int}}}}
  kid: {pipeline: {steps: {tidy: {run: {command: [tidy], outputs: {n: {type: int}}}}}}, cache: true}
`)
	b.begin("r1")
	for _, step := range []string{"one", "page", "drop", "kid"} {
		b.end("r1", step, `{"n": 1}`)
	}
	b.begin("r2")
	for _, tt := range []struct {
		step string
		hit  string
	}{{"one", "r1"}, {"page", ""}, {"drop", ""}, {"kid", ""}} {
		for _, reuse := range []record.Reuse{{}, {From: "r1"}} {
			in := b.at("r2", tt.step)
			in.Reuse = reuse
			resolved, err := b.engine.Resolve(t.Context(), in)
			if err != nil || resolved.Hit != tt.hit {
				t.Errorf("%s, with %+v, is taken over from %q, %v; want %q", tt.step, reuse, resolved.Hit, err, tt.hit)
			}
			if tt.step != "kid" {
				continue
			}
			child, err := b.engine.Child(t.Context(), contract.ChildInput{StepInput: resolved.Step, Attempt: 1, Reuse: reuse})
			if err != nil || !child.Reuse.NoCache || child.Reuse.From != "" {
				t.Errorf("the child of a step of finally may take over %+v, %v", child.Reuse, err)
			}
		}
	}
}

// Hashes made with a key that was changed since are not taken over, and the parts of the result's key give the key to nobody.
func TestAChangedHashKeyIsAnotherResult(t *testing.T) {
	const pipeline = `steps:
  mask:
    clean:
      transforms:
        - {type: ReadFromJson, config: {path: /nowhere/*.jsonl}}
        - {type: MaskPII, config: {fields: [text], action: hash, key: KEY}}
        - {type: WriteToJson}
    secrets: {KEY: hash-key}
`
	env := document.File{Name: "e.yaml", Source: []byte("sluice: environment/v1\nname: e\nsecrets: {hash-key: {env: TEST_HASH_KEY}}\n")}
	b := newBenchIn(t, pipeline, env)
	b.begin("r1")
	key := func(value string) (string, map[string]string) {
		t.Setenv("TEST_HASH_KEY", value)
		resolved, err := b.engine.Resolve(t.Context(), b.at("r1", "mask"))
		if err != nil {
			t.Fatal(err)
		}
		return resolved.Key, b.engine.keys.byKey[resolved.Key]
	}
	first, parts := key("first-value")
	second, _ := key("second-value")
	if again, _ := key("first-value"); first == second || first != again {
		t.Errorf("the keys are %s, %s, and %s with the first value again", first, second, again)
	}
	for name, part := range parts {
		if part == ShortDigest([]byte("first-value")) || strings.Contains(part, "first-value") {
			t.Errorf("%s is %s, which a guess at the value would give", name, part)
		}
	}
	t.Setenv("TEST_HASH_KEY", "first-value")
	b.engine = NewEngine(b.engine.Store) // another process on the same store
	if again, _ := key("first-value"); again != first {
		t.Errorf("another process makes the key %s, want %s", again, first)
	}
}

func TestSiblings(t *testing.T) {
	for _, tt := range []struct {
		a, b string
		want bool
	}{
		{"r.poll.0", "r.poll.1", true},
		{"r.poll.0-2", "r.poll.1", true},
		{"r.poll.0-2", "r.poll.0", false},
		{"r.poll.0-2.seed.1", "r.poll.0.seed.2", true},
		{"r.poll.0.kid", "r.poll.11.kid-2", true},
		{"r.kid-2", "r.kid", false},
		{"r.kid", "r.other", false},
		{"r.poll.0", "r.pull.0", true},
		{"r.poll.0", "r.pull", false},
		{"r", "r.poll.1", false},
		{"r.poll.0", "q.poll.1", false},
		{"r-1", "r-2", false},
		{"model.2-20261127-154644-4bf048.poll.0", "model.2-20261127-154638-ca6c9f.poll.1", false},
	} {
		if got, back := areSiblings(tt.a, tt.b), areSiblings(tt.b, tt.a); got != tt.want || back != tt.want {
			t.Errorf("%s and %s are siblings: %v and %v, want %v", tt.a, tt.b, got, back, tt.want)
		}
	}
}
