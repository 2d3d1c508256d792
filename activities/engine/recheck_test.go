package engine

import (
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
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

var twoTargets = document.File{Name: "e.yaml", Source: []byte("sluice: environment/v1\nname: e\ntargets: {live: {embedded: {port: 8080}}, other: {embedded: {port: 8081}}}\n")}

// serve has a target serve a release of a run.
func (b *bench) serve(target, run string) {
	b.Helper()
	doc, err := routing.Current(b.Context(), b.engine.Store, target)
	if err != nil {
		b.Fatal(err)
	}
	doc.Target, doc.Versions = target, doc.Versions+1
	doc.Releases = []routing.Release{{
		Version: fmt.Sprint(doc.Versions), Model: artifact.Ref{Type: artifact.Model, Digest: "sha256:" + run}, Run: run, Step: "ship", Weight: 1,
	}}
	if _, err := routing.Set(b.Context(), b.engine.Store, doc.Revision, doc); err != nil {
		b.Fatal(err)
	}
}

// A rollout begins only if what its run decided still holds where it is released.
func TestRecheck(t *testing.T) {
	score := func(gate, more string) string {
		return "steps:\n  fit: {run: {command: [fit], files: none, outputs: {model: {type: model, path: m}}}}\n" +
			"  score: {evaluate: {command: [score], files: none, metrics: [f1]}, needs: [fit], gate: [" + gate + "]" + more + "}\n"
	}
	const better = `{check: "metrics.f1 >= serving.live.?steps.score.metrics.f1.orValue(0.0)"`
	const ship = "  ship: {needs: [score], rollout: {target: live, model: \"${steps.fit.model}\", stages: [{weight: 100%}]}}\n"
	const sign = "  sign: {needs: [score], approval: {message: ship}}\n  ship: {needs: [sign], rollout: {target: live, ungated: true, model: \"${steps.fit.model}\", stages: [{weight: 100%}]}}\n"
	model := `{"model": {"type": "model", "digest": "sha256:mine", "bytes": 4, "files": 1}}`
	metric := func(f1 float64) string { return fmt.Sprintf(`{"metrics": {"f1": %g}}`, f1) }
	for _, tt := range []struct {
		name, pipeline string
		f1             float64
		then           func(b *bench)
		typ            string // of the error
		says           []string
	}{
		{"nothing has changed", score(better+"}", "") + ship, 0.7, func(*bench) {}, "", nil},
		{"a better model serves now", score(better+"}", "") + ship, 0.7, func(b *bench) { b.serve("live", "better") }, fault.Gate, []string{"0.5", "0.9", "score", "was", "0.7"}},
		{"and the gate stops", score(better+", on_fail: stop}", "") + ship, 0.7, func(b *bench) { b.serve("live", "better") }, fault.Declined, []string{"0.5", "0.9"}},
		{"and the gate asks a person", score(better+", on_fail: hold}", "") + ship, 0.7, func(b *bench) { b.serve("live", "better") }, fault.Gate, []string{"asks a person"}},
		{"a better model than that", score(better+"}", "") + ship, 0.95, func(b *bench) { b.serve("live", "better") }, "", nil},
		{"a worse one, after a rollback", score(better+"}", "") + ship, 0.7, func(b *bench) { b.serve("live", "worse") }, "", nil},
		{"nothing serves that has a metric", score(better+"}", "") + ship, 0.7, func(b *bench) { b.serve("live", "bare") }, "", nil},
		{"another target serves another", score(better+"}", "") + ship, 0.7, func(b *bench) { b.serve("other", "better") }, "", nil},
		{"the run itself has released", score(better+"}", "") + ship, 0.7, func(b *bench) { b.serve("live", "mine") }, "", nil},
		{"a child of the run has", score(better+"}", "") + ship, 0.7, func(b *bench) { b.serve("live", "mine.sub.0") }, "", nil},
		{
			"a better run was accepted", score(`{check: "metrics.f1 >= last.?steps.score.metrics.f1.orValue(0.0)"}`, "") + ship, 0.7,
			func(b *bench) { b.finish("better", spec.StatusSucceeded) }, fault.Gate,
			[]string{"last", "0.9"},
		},
		{"a person approved in between", score(better+"}", "") + sign, 0.95, func(b *bench) { b.serve("live", "better") }, fault.Gate, []string{"0.5", "0.9", "user:anna", "sign"}},
		{"a person approved what still holds", score(better+"}", "") + sign, 0.95, func(*bench) {}, "", nil},
		{
			"something else read it", score("{check: metrics.f1 > 0.1}", `, env: {BASE: "${serving.live.?steps.score.metrics.f1.orValue(0.0)}"}`) + ship, 0.95,
			func(b *bench) { b.serve("live", "better") }, fault.Gate,
			[]string{"0.5", "0.9", "`score` read it"},
		},
		{
			"a `when` read whether there is any", score("{check: metrics.f1 > 0.1}", `, when: serving.live.hasValue()`) + ship, 0.95,
			func(b *bench) { b.serve("live", "better") }, "", nil,
		},
		{
			"a step that the rollout does not wait for read it", score("{check: metrics.f1 > 0.1}", "") + ship + `  tell: {run: {command: [tell, "${serving.live.?steps.score.metrics.f1.orValue(0.0)}"]}}` + "\n", 0.95,
			func(b *bench) { b.serve("live", "better") }, "", nil,
		},
		{
			"an instance of a gate", score("{check: metrics.f1 > 0.1}", "") + `  check:
    needs: [score]
    foreach: "[1, 2]"
    evaluate: {command: [check, "${item}"], files: none, metrics: [f1]}
    gate: "metrics.f1 >= serving.live.?steps.score.metrics.f1.orValue(0.0)"
` + strings.Replace(ship, "score", "check", 1), 0.7,
			func(b *bench) { b.serve("live", "better") }, fault.Gate,
			[]string{"check.0", "0.9"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			b := newBenchIn(t, tt.pipeline, twoTargets)
			earlier := score("{check: metrics.f1 > 0.0}", "")
			own := b.submission
			program := b.program
			b.submit(earlier, twoTargets)
			for run, f1 := range map[string]float64{"first": 0.5, "better": 0.9, "worse": 0.3} {
				b.execute(run, record.Reuse{NoCache: true}, map[string]string{"fit": model, "score": metric(f1)})
			}
			b.submit("steps: {fit: {run: {command: [fit]}}}\n", twoTargets)
			b.execute("bare", record.Reuse{}, nil)
			b.submission, b.program = own, program
			b.serve("live", "first")
			b.serve("other", "first")
			graph := b.program.Graph()
			b.begin("mine")
			for _, node := range graph {
				if node.Kind != spec.KindRollout {
					b.executeStep("mine", node, record.Reuse{NoCache: true}, map[string]string{
						"fit": model, "score": metric(tt.f1), "check": metric(tt.f1), "sign": `{"by": "user:anna", "at": "2026-01-02T03:04:05Z", "reason": ""}`,
					})
				}
			}
			tt.then(b)
			b.engine = NewEngine(b.engine.Store) // another process
			err := b.engine.Recheck(t.Context(), record.StepInput{Run: "mine", Step: "ship"}, "live")
			if fault.TypeOf(err) != tt.typ && (err != nil || tt.typ != "") {
				t.Fatalf("got %v, want an error of type %q", err, tt.typ)
			}
			for _, said := range tt.says {
				if !strings.Contains(err.Error(), said) {
					t.Errorf("%q does not say %q", err, said)
				}
			}
		})
	}
}

// A rollout in a child is judged by the gates of its parent, and one after a child by the gates in that.
func TestRecheckOfFamilies(t *testing.T) {
	const gate = "metrics.f1 >= serving.live.?steps.score.metrics.f1.orValue(0.0)"
	model := `{"model": {"type": "model", "digest": "sha256:mine", "bytes": 4, "files": 1}}`
	const fit = `fit: {run: {command: [fit], files: none, outputs: {model: {type: model, path: m}}}}`
	const scored = `score: {evaluate: {command: [score], files: none, metrics: [f1]}, needs: [fit], gate: "` + gate + `"}`
	outputs := map[string]string{"fit": model, "score": `{"metrics": {"f1": 0.7}}`, "train": model}
	begin := func(t *testing.T, pipeline string) *bench {
		b := newBenchIn(t, "steps: {score: {evaluate: {command: [score], files: none, metrics: [f1]}}}\n", twoTargets)
		for run, f1 := range map[string]string{"first": "0.5", "better": "0.9"} {
			b.execute(run, record.Reuse{NoCache: true}, map[string]string{"score": `{"metrics": {"f1": ` + f1 + `}}`})
		}
		b.serve("live", "first")
		b.submit(pipeline, twoTargets)
		b.begin("mine")
		return b
	}
	child := func(b *bench, step string) {
		b.Helper()
		resolved, err := b.engine.Resolve(b.Context(), b.at("mine", step))
		if err != nil {
			b.Fatal(err)
		}
		run, err := b.engine.Child(b.Context(), contract.ChildInput{StepInput: resolved.Step, Attempt: 1})
		if err != nil {
			b.Fatal(err)
		}
		if _, err := b.engine.Begin(b.Context(), contract.BeginInput{RunInput: run, StartedAt: b.began}); err != nil {
			b.Fatal(err)
		}
		own := b.submission
		b.submission = run.Submission
		for _, node := range run.Graph {
			if node.Kind != spec.KindRollout {
				b.executeStep(run.Run, node, record.Reuse{NoCache: true}, outputs)
			}
		}
		b.submission = own
	}
	t.Run("a rollout in a child", func(t *testing.T) {
		b := begin(t, `steps:
  `+fit+`
  `+scored+`
  deploy:
    needs: [score]
    pipeline: {params: {model: "${steps.fit.model}"}, steps: {ship: {rollout: {target: live, ungated: true, model: "${params.model}", stages: [{weight: 100%}]}}}}
`)
		for _, node := range b.program.Graph()[:2] {
			b.executeStep("mine", node, record.Reuse{NoCache: true}, outputs)
		}
		child(b, "deploy")
		for _, serves := range []string{"first", "better"} {
			b.serve("live", serves)
			err := b.engine.Recheck(t.Context(), record.StepInput{Run: "mine.deploy", Step: "ship"}, "live")
			if (err != nil) != (serves == "better") {
				t.Errorf("while %s serves: %v", serves, err)
			}
		}
	})
	t.Run("a gate in a child", func(t *testing.T) {
		b := begin(t, `steps:
  train: {pipeline: {steps: {`+fit+`, `+scored+`}, outputs: {model: "${steps.fit.model}"}}}
  ship: {rollout: {target: live, ungated: true, model: "${steps.train.model}", stages: [{weight: 100%}]}}
`)
		child(b, "train")
		b.executeStep("mine", b.program.Graph()[0], record.Reuse{NoCache: true}, outputs)
		for _, serves := range []string{"first", "better"} {
			b.serve("live", serves)
			err := b.engine.Recheck(t.Context(), record.StepInput{Run: "mine", Step: "ship"}, "live")
			if (err != nil) != (serves == "better") {
				t.Errorf("while %s serves: %v", serves, err)
			}
		}
	})
}

// What a run reads of others is that of the time when it has its turn in its group.
func TestSettledAtItsTurn(t *testing.T) {
	b := newBenchIn(t, "concurrency: {group: live}\nsteps: {fit: {run: {command: [fit], files: none}}}\n", twoTargets)
	b.begin("r1")
	b.begin("r2")
	settle := func(run string) record.RunRecord {
		t.Helper()
		if err := b.engine.Settle(t.Context(), contract.SettleInput{Run: run, Submission: b.submission}); err != nil {
			t.Fatal(err)
		}
		rec, err := b.engine.record(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		return rec.RunRecord
	}
	other := NewEngine(b.engine.Store)
	if rec, err := other.record(t.Context(), "r2"); err != nil || rec.Last != "" || rec.Settled {
		t.Errorf("before its turn: %+v, %v", rec, err)
	}
	settle("r1")
	b.finish("r1", spec.StatusSucceeded)
	b.serve("live", "r1")
	if rec := settle("r2"); rec.Last != "r1" || rec.Serving["live"] != "r1" {
		t.Errorf("at its turn `last` is %q, and %v serve", rec.Last, rec.Serving)
	}
	b.serve("live", "r2")
	if rec := settle("r2"); rec.Serving["live"] != "r1" {
		t.Errorf("asked again, %v serve", rec.Serving)
	}
	if rec, err := other.record(t.Context(), "r2"); err != nil || rec.Last != "r1" {
		t.Errorf("another process reads %+v, %v", rec, err)
	}
}

// The last run of a child's pipeline is none of its own family, however many these are.
func TestChildrenAreNotEachOthersLast(t *testing.T) {
	b := newBench(t, "steps: {fit: {run: {command: [fit], files: none}}}\n")
	accept := func(run string, after time.Duration, parent record.Parent) string {
		t.Helper()
		in := contract.RunInput{Run: run, Name: "p", Submission: b.submission, Graph: b.program.Graph(), Parent: parent}
		if _, err := b.engine.Begin(t.Context(), contract.BeginInput{RunInput: in, StartedAt: b.began}); err != nil {
			t.Fatal(err)
		}
		rec, err := b.engine.record(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.engine.Finish(t.Context(), contract.FinishInput{
			Run: run, Submission: b.submission, EndedAt: b.began.Add(after), RunOutput: record.RunOutput{Status: spec.StatusSucceeded},
		}); err != nil {
			t.Fatal(err)
		}
		return rec.Last
	}
	accept("before", time.Second, record.Parent{})
	top := record.RunRecord{Run: "top", Pipeline: "all", Status: spec.StatusRunning}
	if err := b.engine.Store.PutJSON(t.Context(), record.RunKey("top"), top, store.WriteOptions{}); err != nil {
		t.Fatal(err)
	}
	var lasts []string
	for i := range 7 {
		lasts = append(lasts, accept(fmt.Sprintf("top.fit.%d", i), time.Duration(2+i)*time.Second, record.Parent{Run: "top", Step: fmt.Sprintf("fit.%d", i)}))
	}
	want := []string{"before", "before", "before", "before", "before", "before", "before"}
	if diff := cmp.Diff(want, lasts); diff != "" {
		t.Errorf("their last runs (-want +got):\n%s", diff)
	}
	if last := accept("after", time.Minute, record.Parent{}); last != "top.fit.6" {
		t.Errorf("the last run of another is %q, want that of the last child", last)
	}
}

// A rerun asks a person again if what the gates before had compared with has changed, unless the run itself had changed that.
func TestARerunAsksAgainAboutOtherValues(t *testing.T) {
	const pipeline = `steps:
  score: {evaluate: {command: [score], files: none, metrics: [f1]}, gate: "metrics.f1 >= serving.live.?steps.score.metrics.f1.orValue(0.0)"}
  sign: {needs: [score], approval: {message: ship}}
`
	outputs := map[string]string{"score": `{"metrics": {"f1": 0.9}}`, "sign": `{"by": "user:anna", "at": "2026-01-02T03:04:05Z", "reason": ""}`}
	for serves, want := range map[string][]string{"first": nil, "r1": nil, "r1.sub": nil, "other": {"sign"}} {
		b := newBenchIn(t, pipeline, twoTargets)
		for _, run := range []string{"first", "other"} {
			b.execute(run, record.Reuse{NoCache: true}, outputs)
		}
		b.serve("live", "first")
		b.execute("r1", record.Reuse{NoCache: true}, outputs)
		b.begin("r1.sub")
		b.serve("live", serves)
		if done := b.execute("r2", record.Reuse{From: "r1"}, outputs); !cmp.Equal(want, done) {
			t.Errorf("while %s serves, a rerun did %v, want %v", serves, done, want)
		}
		if done := b.execute("r3", record.Reuse{From: "r2"}, outputs); len(done) > 0 {
			t.Errorf("while %s serves, a rerun of the rerun did %v", serves, done)
		}
	}
}
