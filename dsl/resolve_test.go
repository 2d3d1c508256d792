package dsl

import (
	"encoding/json"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr/meter"
	"github.com/sluiceml/sluice/dsl/inputpath"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
)

func mustCompile(t testing.TB, pipeline string) *Program {
	t.Helper()
	p, diags := Compile(document.File{Name: "p.yaml", Source: []byte(pipeline)}, document.File{}, nil)
	if diags.HasErrors() {
		t.Fatalf("compile:\n%s", diags.Text(false))
	}
	return p
}

const chain = `sluice: pipeline/v1
name: chain
params: {epochs: {type: int, default: 4}, min_f1: {type: double, default: 0.9}}
outputs: {f1: "${steps.score.metrics.f1}"}
steps:
  fetch:
    run: {script: "echo ${x}", outputs: {raw: {type: dataset, path: raw}, mails: {type: int}}}
    env: {N: "${params.epochs}", MIXED: "a${params.min_f1}b$${c}"}
    gate: mails > 5000
  fit:
    train:
      command: [python3, train.py, "--data=${inputs.mail.path}/train", "--epochs=${params.epochs}"]
      inputs: {mail: "${steps.fetch.raw}"}
      outputs: {onnx: {type: model, path: m.onnx}}
      metrics: [f1, loss]
      total_steps: "${params.epochs * 120}"
      nodes: 2
      checkpoint: {every: 5s}
  score:
    evaluate: {command: [python3, e.py, "${inputs.m.path}"], inputs: {m: "${steps.fit.onnx}"}, metrics: [f1]}
    when: steps.fit.metrics.f1 > 0.5
    gate:
      - metrics.f1 >= params.min_f1
      - check: metrics.f1 >= serving.local.?steps.score.metrics.f1.orValue(0.0)
        message: not better
        on_fail: stop
      - metrics.f1 >= last.?steps.score.metrics.f1.orValue(0.5)
`

var chainVars = spec.Vars{
	Params: map[string]any{"epochs": int64(4), "min_f1": 0.9},
	Run:    spec.RunFacts{ID: "r1", StartedAt: time.Unix(0, 0)},
	Steps: map[string]spec.StepResult{
		"fetch": {Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"raw":{"type":"dataset","digest":"sha256:ab","bytes":5,"files":1},"mails":6000}`)},
		"fit":   {Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"onnx":{"type":"model","digest":"sha256:cd","bytes":5,"files":1},"metrics":{"f1":0.93,"loss":0.1},"steps_lost":0}`)},
	},
}

func TestResolve(t *testing.T) {
	p := mustCompile(t, chain)
	fetch, err := p.Resolve("fetch", chainVars)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(map[string]string{"N": "4", "MIXED": "a0.9b${c}"}, fetch.Env); diff != "" {
		t.Error(diff)
	}
	if want := `{"outputs":{"mails":{"type":"int"},"raw":{"type":"dataset","path":"raw"}},"script":"echo ${x}"}`; string(fetch.Spec) != want {
		t.Errorf("got %s", fetch.Spec)
	}
	fit, err := p.Resolve("fit", chainVars)
	if err != nil {
		t.Fatal(err)
	}
	sp, err := spec.Decode[spec.Train](fit.Spec)
	if err != nil {
		t.Fatal(err)
	}
	want := spec.Train{
		Command: spec.Command{
			Command: []string{"python3", "train.py", "--data=" + inputpath.Token("mail", "sha256:ab") + "/train", "--epochs=4"},
			Inputs:  map[string]artifact.Ref{"mail": {Type: "dataset", Digest: "sha256:ab", Bytes: 5, Files: 1}},
			Outputs: map[string]spec.OutputDecl{"onnx": {Type: "model", Path: "m.onnx"}},
		},
		Metrics: []string{"f1", "loss"}, TotalSteps: 480, Nodes: spec.Nodes{Min: 2, Max: 2}, Launcher: "env", Placement: spec.Placement{Pool: []string{"local"}, Capacity: "auto"},
		Checkpoint: spec.CheckpointSpec{Layout: "folder", Every: spec.Duration(5 * time.Second), Keep: 3},
	}
	if diff := cmp.Diff(want, sp); diff != "" {
		t.Error(diff)
	}
}

func TestResolveWhen(t *testing.T) {
	p := mustCompile(t, chain)
	score, err := p.Resolve("score", chainVars)
	if err != nil || !score.Run {
		t.Fatalf("%+v, %v", score, err)
	}
	_, values, err := p.When("score", chainVars)
	if diff := cmp.Diff(map[string]any{"steps.fit.metrics.f1": 0.93}, values); diff != "" || err != nil {
		t.Error(diff, err)
	}
	vars := chainVars
	vars.Steps = maps.Clone(vars.Steps)
	vars.Steps["fit"] = spec.StepResult{Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"metrics":{"f1":0.2}}`)}
	if score, err = p.Resolve("score", vars); err != nil || score.Run || score.Spec != nil {
		t.Errorf("%+v, %v", score, err)
	}
	vars.Steps["fit"] = spec.StepResult{Status: spec.StatusFailed}
	if _, err = p.Resolve("score", vars); err == nil {
		t.Error("a `when` over what is absent was evaluated")
	}
}

// TestResolveBounds: a value that an expression made is held to the same bounds as a written one.
func TestResolveBounds(t *testing.T) {
	p := mustCompile(t, chain)
	vars := chainVars
	vars.Params = map[string]any{"epochs": int64(-1), "min_f1": 0.9}
	if _, err := p.Resolve("fit", vars); err == nil || !strings.Contains(err.Error(), "total_steps: -120 is out of range") {
		t.Error(err)
	}
}

// TestParamsFromJSON: parameters that travelled as JSON are ints again.
func TestParamsFromJSON(t *testing.T) {
	vars := chainVars
	vars.Params = map[string]any{"epochs": 4.0, "min_f1": 0.9}
	fetch, err := mustCompile(t, chain).Resolve("fetch", vars)
	if err != nil || fetch.Env["N"] != "4" {
		t.Errorf("%v, %v", fetch.Env, err)
	}
}

// TestConcurrent: one program serves many steps at a time (the race detector watches).
func TestConcurrent(t *testing.T) {
	p := mustCompile(t, chain)
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 20 {
				if _, err := p.Resolve("fit", chainVars); err != nil {
					t.Error(err)
				}
				if _, verdict := p.EvaluateGate("score", json.RawMessage(`{"metrics":{"f1":0.95}}`), chainVars); verdict != spec.VerdictPass {
					t.Error(verdict)
				}
			}
		})
	}
	group.Wait()
}

// TestResolveWithoutAProgram: a command that turns out to be empty is an error before anything is started.
// TestResolveOnPool: the nodes of a pool get the parameters that rows are compared with, and only read inputs and buckets.
func TestResolveOnPool(t *testing.T) {
	pipeline := func(pool string) *Program {
		p, diags := Compile(document.File{Name: "p.yaml", Source: []byte(`sluice: pipeline/v1
name: p
params: {from: {type: string}, least: {type: int, default: 3}, other: {type: int, default: 1}}
steps:
  tidy: {clean: {read: "${params.from}/*.jsonl", transforms: [{type: Filter, config: {keep: "row.n >= params.least"}}], write: json` + pool + `}}
`)}, document.File{Name: "e.yaml", Source: []byte("sluice: environment/v1\nname: e\npools: {lab: {local: {nodes: 1}}}\n")}, nil)
		if diags.HasErrors() {
			t.Fatal(diags.Text(false))
		}
		return p
	}
	for _, tt := range []struct {
		pool, from string
		want       map[string]spec.RowParam
		err        string
	}{
		{", pool: lab", "s3://acme", map[string]spec.RowParam{"least": {Type: "int", Value: json.RawMessage("1770000000000000001")}}, ""},
		{", pool: lab", "mail", nil, `"mail/*.jsonl": a node of a pool has no files but the step's inputs`},
		{"", "mail", map[string]spec.RowParam{"least": {Type: "int", Value: json.RawMessage("1770000000000000001")}}, ""},
		{"", inputpath.Token("rows", "sha256:ab") + "/../x", nil, "leaves the folder of its input"},
	} {
		vars := spec.Vars{Params: map[string]any{"from": tt.from, "least": int64(1770000000000000001), "other": int64(1)}}
		got, err := pipeline(tt.pool).Resolve("tidy", vars)
		if tt.err != "" || err != nil {
			if err == nil || tt.err == "" || !strings.Contains(err.Error(), tt.err) {
				t.Errorf("%q from %q: got the error %v, want %q", tt.pool, tt.from, err, tt.err)
			}
			continue
		}
		clean, err := spec.Decode[spec.Clean](got.Spec)
		if diff := cmp.Diff(tt.want, clean.RowParams); err != nil || diff != "" {
			t.Errorf("%q from %q: %v (-want +got):\n%s", tt.pool, tt.from, err, diff)
		}
	}
}

func TestResolveWithoutAProgram(t *testing.T) {
	p := mustCompile(t, `sluice: pipeline/v1
name: p
params: {words: {type: list}, word: {type: string}}
steps:
  list: {run: {command: "${params.words}"}}
  word: {evaluate: {command: ["${params.word}", x], metrics: [f1]}}
`)
	vars := spec.Vars{Params: map[string]any{"words": []any{}, "word": " "}}
	for _, id := range []string{"list", "word"} {
		if _, err := p.Resolve(id, vars); err == nil || !strings.Contains(err.Error(), "it names no program") {
			t.Errorf("%s: %v", id, err)
		}
	}
}

// `when` may take as much as what else is evaluated once, and a gate less: it makes no call that alone would be more.
func TestMeteredConditions(t *testing.T) {
	p := mustCompile(t, strings.Join([]string{
		"sluice: pipeline/v1", "name: p", "params: {text: {type: string}}", "steps:", "  fit:", "    run: {command: [x]}",
		"    when: lists.range(200000).all(x, x >= 0)", "    gate:",
		"      - lists.range(200000).all(x, x >= 0)", "      - params.text.replace('a', params.text).size() > 1", "",
	}, "\n"))
	vars := spec.Vars{Params: map[string]any{"text": strings.Repeat("a", 6000)}}
	if holds, _, err := p.When("fit", vars); !holds || err != nil {
		t.Errorf("when: %v, %v", holds, err)
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	checks, verdict := p.EvaluateGate("fit", []byte("{}"), vars)
	runtime.ReadMemStats(&after)
	if verdict != spec.VerdictError || len(checks) != 2 {
		t.Fatalf("%s: %+v", verdict, checks)
	}
	for _, check := range checks {
		if !strings.Contains(check.Error, meter.ErrCost.Error()) {
			t.Errorf("%s: %s", check.Expression, check.Error)
		}
	}
	if got := after.TotalAlloc - before.TotalAlloc; got >= 36_000_000 {
		t.Errorf("%d bytes were made, as many as the text that no gate may make", got)
	}
}

// Maps come in the order of their keys: what an expression makes of one is part of the cache key.
func TestMapsAreInOrder(t *testing.T) {
	p := mustCompile(t, `sluice: pipeline/v1
name: maps
params: {m: {type: map, default: {e: x, a: x, d: x, b: x, c: x}}}
steps:
  a:
    run: {command: ["true"]}
    env: {KEYS: "${params.m.map(k, k).join('')}"}
`)
	params, diags := p.Params(nil)
	if diags.HasErrors() {
		t.Fatal(diags.Text(false))
	}
	for range 20 {
		got, err := p.Resolve("a", spec.Vars{Params: params, Run: spec.RunFacts{ID: "r1", StartedAt: time.Unix(0, 0)}})
		if err != nil {
			t.Fatal(err)
		}
		if got.Env["KEYS"] != "abcde" {
			t.Fatalf("the keys come as %q", got.Env["KEYS"])
		}
	}
}
