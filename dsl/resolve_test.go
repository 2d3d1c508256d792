package dsl

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func mustCompile(t testing.TB, pipeline string) *Program {
	t.Helper()
	p, diags := Compile(File{Name: "p.yaml", Source: []byte(pipeline)}, File{}, nil)
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

var chainVars = Vars{
	Params: map[string]any{"epochs": int64(4), "min_f1": 0.9},
	Run:    RunFacts{ID: "r1", Attempt: 1, StartedAt: time.Unix(0, 0)},
	Steps: map[string]StepResult{
		"fetch": {Status: StatusSucceeded, Outputs: json.RawMessage(`{"raw":{"type":"dataset","digest":"sha256:ab","bytes":5,"files":1},"mails":6000}`)},
		"fit":   {Status: StatusSucceeded, Outputs: json.RawMessage(`{"onnx":{"type":"model","digest":"sha256:cd","bytes":5,"files":1},"metrics":{"f1":0.93,"loss":0.1},"steps_lost":0}`)},
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
	fit, err := p.Resolve("fit", chainVars)
	if err != nil {
		t.Fatal(err)
	}
	t.Log(string(fit.Spec), string(fetch.Spec))
	spec, err := DecodeSpec(KindTrain, fit.Spec)
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%+v", spec)
	score, err := p.Resolve("score", chainVars)
	t.Logf("%+v %v %s", score, err, score.Spec)
	for _, serving := range []map[string]map[string]StepResult{nil, {"local": {"score": {Status: StatusSucceeded, Outputs: json.RawMessage(`{"metrics":{"f1":0.99}}`)}}}, {"local": {}}} {
		v := chainVars
		v.Serving = serving
		checks, verdict := p.Judge("score", json.RawMessage(`{"metrics":{"f1":0.95}}`), v)
		t.Logf("%s %+v", verdict, checks)
	}
	checks, verdict := p.Judge("score", json.RawMessage(`{"metrics":{}}`), chainVars)
	t.Logf("%s %+v", verdict, checks)
	out, err := p.Outputs(chainVars)
	t.Log(out, err)
}
