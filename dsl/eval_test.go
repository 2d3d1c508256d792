package dsl

import (
	"encoding/json"
	"maps"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// A cost of which a part is unknown has no value, so that no check of it can hold.
func TestUnknownCostIsNone(t *testing.T) {
	vars := chainVars
	vars.Run = spec.RunFacts{ID: "r7", StartedAt: time.Unix(0, 0), CostUSD: 1.5, CostUnknown: true}
	for expr, want := range map[string]string{"run.cost.usd < 20.0": "`run.cost.usd` is absent", "run.cost.?usd.orValue(99.0)": ""} {
		document := strings.Replace(chain, `outputs: {f1: "${steps.score.metrics.f1}"}`, "outputs:\n  x: >-\n    ${"+expr+"}", 1)
		_, err := mustCompile(t, document).Outputs(vars)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v, want %q", expr, err, want)
		}
	}
}

// TestExpressions resolves one expression each, whole in a pipeline output.
func TestExpressions(t *testing.T) {
	vars := chainVars
	vars.Steps = maps.Clone(chainVars.Steps)
	vars.Steps["score"] = spec.StepResult{Status: spec.StatusSkipped}
	vars.Run = spec.RunFacts{ID: "r7", StartedAt: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC), CostUSD: 1.5}
	vars.Last = map[string]spec.StepResult{"score": {Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"metrics":{"f1":0.5}}`)}}
	vars.Serving = map[string]map[string]spec.StepResult{"local": {"score": {Status: spec.StatusDeclined, Outputs: json.RawMessage(`{"metrics":{"f1":0.7}}`)}}}
	tests := []struct {
		expr string
		want any    // nil when err is set
		err  string // part of the error
	}{
		{"params.epochs", int64(4), ""},
		{"params.epochs * 2 + 1", int64(9), ""},
		{"params.min_f1", 0.9, ""},
		{"steps.fetch.mails", int64(6000), ""},
		{"steps.fit.metrics.f1", 0.93, ""},
		{"steps.fit.steps_lost == 0", true, ""},
		{"steps.fit.metrics.f1 > 0 && params.epochs >= 4.0", true, ""},
		{"steps.fit.onnx.digest", "sha256:cd", ""},
		{"steps.fit.metrics", map[string]any{"f1": 0.93, "loss": 0.1}, ""},
		{"steps.fit.steps_repeated", nil, "`steps.fit.steps_repeated` is absent"},
		{"steps.fit.?steps_repeated.orValue(-1.0)", -1.0, ""},
		{"steps.score.metrics.f1", nil, "`steps.score` is absent"},
		{"steps.?score.metrics.f1.orValue(0.25)", 0.25, ""},
		{"steps.?score.hasValue()", false, ""},
		{"has(steps.fit)", true, ""},
		{"has(steps.score)", false, ""},
		{"run.id", "r7", ""},
		{"run.attempt", int64(1), ""},
		{"run.cost.usd * 2.0", 3.0, ""},
		{"run.started_at.getFullYear()", int64(2026), ""},
		{"last.?steps.score.metrics.f1.orValue(0.0)", 0.5, ""},
		{"last.steps.score.metrics.f1.orValue(0.0)", 0.5, ""},
		{"last.hasValue()", true, ""},
		// The serving run's score was declined: it never became an output.
		{"serving.local.?steps.score.metrics.f1.orValue(0.1)", 0.1, ""},
		{"serving.local.hasValue()", true, ""},
		{"'f1'.upperAscii() + string(params.epochs)", "F14", ""},
		{"math.greatest(1, 3)", int64(3), ""},
		{"[3, 1, 2].sort()", []any{int64(1), int64(2), int64(3)}, ""},
		{"sets.contains([1, 2], [1])", true, ""},
		{"base64.encode(b'a')", "YQ==", ""},
		{"{'a': 1}['a']", int64(1), ""},
		{"[1, 2, 3].filter(x, x > 1).size()", int64(2), ""},
		{"1 / (params.epochs - 4)", nil, "division by zero"},
		{"[1, 2, 3].all(x, [1, 2, 3].all(y, lists.range(2000).all(a, lists.range(2000).all(b, a + b >= 0))))", nil, "operations"},
	}
	for _, tt := range tests {
		t.Run(tt.expr, func(t *testing.T) {
			document := strings.Replace(chain, `outputs: {f1: "${steps.score.metrics.f1}"}`, "outputs:\n  x: >-\n    ${"+tt.expr+"}", 1)
			got, err := mustCompile(t, document).Outputs(vars)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Fatalf("got %v, %v; want an error with %q", got, err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got["x"]); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// What came of the time of a training's nodes can be asked for, and the cost of nodes whose price nobody knows is absent.
func TestExpressionsReadTheLedger(t *testing.T) {
	three := 3.0
	outputs, err := json.Marshal(spec.TrainOutput{
		NodeSeconds: 100,
		Outcomes:    spec.Outcomes{Useful: spec.Spent{NodeSeconds: 90, CostUSD: &three}, Lost: spec.Spent{NodeSeconds: 10}},
		Costs:       []spec.CostLine{{Pool: "gpu", Outcome: spec.OutcomeUseful, Spent: spec.Spent{NodeSeconds: 90, CostUSD: &three}}},
	})
	if err != nil {
		t.Fatal(err)
	}
	vars := chainVars
	vars.Steps = maps.Clone(chainVars.Steps)
	vars.Steps["fit"] = spec.StepResult{Status: spec.StatusSucceeded, Outputs: outputs}
	for expr, want := range map[string]any{
		"steps.fit.outcomes.lost.node_seconds < 0.2 * steps.fit.node_seconds":     true,
		"steps.fit.outcomes.useful.?cost_usd.orValue(-1.0)":                       3.0,
		"steps.fit.outcomes.lost.?cost_usd.orValue(-1.0)":                         -1.0,
		"steps.fit.costs.filter(c, c.outcome == 'useful').map(c, c.node_seconds)": []any{90.0},
	} {
		document := strings.Replace(chain, `outputs: {f1: "${steps.score.metrics.f1}"}`, "outputs:\n  x: >-\n    ${"+expr+"}", 1)
		got, err := mustCompile(t, document).Outputs(vars)
		if diff := cmp.Diff(want, got["x"]); err != nil || diff != "" {
			t.Errorf("%s: %v (-want +got):\n%s", expr, err, diff)
		}
	}
}

// TestFunctions freezes the names of the functions and macros of the language: removing one breaks pipelines.
func TestFunctions(t *testing.T) {
	names, err := expr.Functions()
	if err != nil {
		t.Fatal(err)
	}
	generated(t, "testdata/functions.txt", []byte(strings.Join(names, "\n")+"\n"))
}

func TestEvaluate(t *testing.T) {
	p := mustCompile(t, chain)
	served := func(f1 string) map[string]map[string]spec.StepResult {
		return map[string]map[string]spec.StepResult{"local": {"score": {Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"metrics":{"f1":` + f1 + `}}`)}}}
	}
	tests := []struct {
		name    string
		outputs string
		serving map[string]map[string]spec.StepResult
		want    spec.Verdict
		checks  []spec.Verdict
	}{
		{"first run", `{"metrics":{"f1":0.95}}`, nil, spec.VerdictPass, []spec.Verdict{"pass", "pass", "pass"}},
		{"better", `{"metrics":{"f1":0.95}}`, served("0.9"), spec.VerdictPass, []spec.Verdict{"pass", "pass", "pass"}},
		{"not better", `{"metrics":{"f1":0.95}}`, served("0.96"), spec.VerdictFail, []spec.Verdict{"pass", "fail", "pass"}},
		{"bad", `{"metrics":{"f1":0.4}}`, nil, spec.VerdictFail, []spec.Verdict{"fail", "pass", "fail"}},
		{"not measured", `{"metrics":{}}`, nil, spec.VerdictError, []spec.Verdict{"error", "error", "error"}},
		{"null", `{"metrics":{"f1":null}}`, nil, spec.VerdictError, []spec.Verdict{"error", "error", "error"}},
		{"a text", `{"metrics":{"f1":"0.99"}}`, nil, spec.VerdictError, []spec.Verdict{"error", "error", "error"}},
		{"no outputs", ``, nil, spec.VerdictError, []spec.Verdict{"error", "error", "error"}},
		{"broken", `[1`, nil, spec.VerdictError, []spec.Verdict{"error", "error", "error"}},
		{"served broken", `{"metrics":{"f1":0.95}}`, served(`"x"`), spec.VerdictError, []spec.Verdict{"pass", "error", "pass"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			vars := chainVars
			vars.Serving = tt.serving
			checks, verdict := p.EvaluateGate("score", json.RawMessage(tt.outputs), vars)
			var got []spec.Verdict
			for _, c := range checks {
				got = append(got, c.Verdict)
				if (c.Error != "") != (c.Verdict == spec.VerdictError) {
					t.Errorf("%s: verdict %s, error %q", c.Expression, c.Verdict, c.Error)
				}
			}
			if diff := cmp.Diff(tt.checks, got); diff != "" || verdict != tt.want {
				t.Errorf("verdict %s, want %s\n%s", verdict, tt.want, diff)
			}
		})
	}
}

// TestEvaluateValues: a person sees what the condition saw.
func TestEvaluateValues(t *testing.T) {
	checks, _ := mustCompile(t, chain).EvaluateGate("score", json.RawMessage(`{"metrics":{"f1":0.95}}`), chainVars)
	want := spec.Check{
		Expression: "metrics.f1 >= serving.local.?steps.score.metrics.f1.orValue(0.0)", Message: "not better", Verdict: spec.VerdictPass, OnFail: spec.OnFailStop,
		Values: map[string]any{"metrics.f1": 0.95, "serving.local.?steps.score.metrics.f1": "absent"}, Line: 24,
	}
	if diff := cmp.Diff(want, checks[1]); diff != "" {
		t.Error(diff)
	}
}

func TestParams(t *testing.T) {
	p := mustCompile(t, `sluice: pipeline/v1
name: p
params: {n: {type: int, default: 4, min: 1, max: 9}, f: {type: double}, b: {type: bool, default: true}, s: {type: string, default: ""}}
steps: {a: {run: {command: [echo, "${params.n}${params.f}${params.b}${params.s}"]}}}
`)
	tests := []struct {
		name  string
		given map[string]string
		want  map[string]any
		errs  []string
	}{
		{"defaults", map[string]string{"f": "0.5"}, map[string]any{"n": int64(4), "f": 0.5, "b": true, "s": ""}, nil},
		{"given", map[string]string{"f": "1", "n": "9", "b": "false", "s": "a=b"}, map[string]any{"n": int64(9), "f": 1.0, "b": false, "s": "a=b"}, nil},
		{"wrong", map[string]string{"n": "10", "b": "yes", "g": "1"}, map[string]any{"s": ""}, []string{
			"`g` is not a parameter of p", "the parameter `b` is \"yes\", but must be a bool", "the parameter `f` (double) has no default and was not given",
			"the parameter `n` is 10, but must be at most 9",
		}},
		{"no number", map[string]string{"f": "NaN", "n": "4.5"}, map[string]any{"b": true, "s": ""}, []string{
			"the parameter `f` is \"NaN\", but must be a double", "the parameter `n` is \"4.5\", but must be an int",
		}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, diags := p.Params(tt.given)
			var errs []string
			for _, d := range diags {
				errs = append(errs, d.Message)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if diff := cmp.Diff(tt.errs, errs); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestStageCheck(t *testing.T) {
	tests := []struct {
		expr    spec.Expr
		delta   spec.Delta
		want    spec.Verdict
		invalid bool
	}{
		{"delta.agreement >= 0.98", spec.Delta{Samples: 10, Agreement: 0.99}, spec.VerdictPass, false},
		{"delta.agreement >= 0.98", spec.Delta{Samples: 10, Agreement: 0.9}, spec.VerdictFail, false},
		{"delta.agreement >= 0.98", spec.Delta{}, spec.VerdictError, false},
		{"candidate.errors <= 0.1 * candidate.requests", spec.Delta{}, spec.VerdictPass, false},
		{"candidate.p99_ms < 2.0 * stable.p99_ms", spec.Delta{}, spec.VerdictError, false}, // stable has no requests
		{"delta.agrement > 0.5", spec.Delta{}, "", true},
		{"candidate.requests", spec.Delta{}, "", true},
	}
	for _, tt := range tests {
		t.Run(string(tt.expr), func(t *testing.T) {
			check, err := expr.EvalStageCheck(tt.expr, spec.SideCounts{Requests: 100, Errors: 1, P99MS: 3}, spec.SideCounts{}, tt.delta)
			if (err != nil) != tt.invalid {
				t.Fatal(err)
			}
			if check.Verdict != tt.want {
				t.Errorf("%+v", check)
			}
		})
	}
}

// TestEvaluateKnowsTooLittle: a gate that is evaluated without the end of a step that it reads is an error, in whatever way it reads it.
func TestEvaluateKnowsTooLittle(t *testing.T) {
	const document = `sluice: pipeline/v1
name: p
steps:
  before: {run: {command: [echo], outputs: {n: {type: int}}}}
  after:
    run: {command: [echo], outputs: {n: {type: int}}}
    gate: `
	for _, gate := range []string{
		"n > steps.before.n", "n > steps.?before.n.orValue(0)", "!has(steps.before)", "!steps.?before.hasValue()",
		"n > 0 || steps.?before.n.orValue(0) > 0", "[0].all(x, steps.?before.n.orValue(0) >= x)",
	} {
		p := mustCompile(t, document+"'"+gate+"'\n")
		if checks, verdict := p.EvaluateGate("after", json.RawMessage(`{"n":1}`), spec.Vars{}); verdict != spec.VerdictError || !strings.Contains(checks[0].Error, "how `before` ended, which is not known here") {
			t.Errorf("%s: %s, %+v", gate, verdict, checks)
		}
		skipped := spec.Vars{Steps: map[string]spec.StepResult{"before": {Status: spec.StatusSkipped}}}
		if checks, verdict := p.EvaluateGate("after", json.RawMessage(`{"n":1}`), skipped); (verdict == spec.VerdictError) != (gate == "n > steps.before.n") {
			t.Errorf("%s, of a step that was skipped: %s, %+v", gate, verdict, checks)
		}
	}
}

// A metric whose name is no identifier is read by its index, from this run, from an earlier one and from instances.
func TestMetricsOfFrameworks(t *testing.T) {
	program := mustCompile(t, `
sluice: pipeline/v1
name: p
outputs:
  acc: "${steps.a.metrics['val/acc']}"
  best: "${steps.b.best(f, f.metrics['Hits@10']).metrics['Hits@10']}"
  last: "${last.?steps.a.metrics['val/acc'].orValue(0.0)}"
  none: "${last.?steps.a.metrics[?'val/loss'].orValue(9.0)}"
steps:
  a: {evaluate: {command: [x], metrics: [val/acc, val/loss]}}
  b: {matrix: {lr: [0.1, 0.2]}, evaluate: {command: [x], metrics: [Hits@10]}}
`)
	vars := spec.Vars{
		Steps: map[string]spec.StepResult{
			"a": {Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"metrics":{"val/acc":0.5,"val/loss":2}}`)},
			"b": {Status: spec.StatusSucceeded, Outputs: json.RawMessage(`[{"index":0,"matrix":{"lr":0.1},"metrics":{"Hits@10":0.25}},{"index":1,"matrix":{"lr":0.2},"metrics":{"Hits@10":0.75}}]`)},
		},
		Last: map[string]spec.StepResult{"a": {Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"metrics":{"val/acc":0.125}}`)}},
	}
	got, err := program.Outputs(vars)
	if diff := cmp.Diff(map[string]any{"acc": 0.5, "best": 0.75, "last": 0.125, "none": 9.0}, got); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
}

// TestDecidingElement: of a condition over all instances the one is shown that decided, and nothing where all passed.
func TestDecidingElement(t *testing.T) {
	const text = `sluice: pipeline/v1
name: p
steps:
  fit:
    matrix: {seed: [1, 2, 3]}
    run: {command: [fit], outputs: {f1: {type: double}, loss: {type: double}}}
  pick:
    run: {command: [pick], outputs: {n: {type: int}}}
    gate:
      - steps.fit.all(f, f.f1 > 0.8 && f.loss < 1.0)
      - steps.fit.all(f, f.f1 > 0.5)
      - steps.fit.exists(f, f.f1 > 0.99)
      - steps.fit.map(f, f.f1).all(x, x > 0.8)
`
	p := mustCompile(t, text)
	vars := spec.Vars{Steps: map[string]spec.StepResult{"fit": {Status: spec.StatusSucceeded, Outputs: json.RawMessage(
		`[{"f1": 0.9, "loss": 0.1, "index": 0}, {"f1": 0.7, "loss": 0.2, "index": 1}, {"f1": 0.6, "loss": 0.3, "index": 2}]`)}}}
	checks, _ := p.EvaluateGate("pick", json.RawMessage(`{"n": 1}`), vars)
	var got []map[string]any
	for _, c := range checks {
		delete(c.Values, "steps.fit")
		got = append(got, c.Values)
	}
	want := []map[string]any{{"f.f1": 0.7}, {}, {}, {"x": 0.7}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("values (-want +got):\n%s", diff)
	}
}

// TestConditionOnNone: a condition on the instances of a step does not hold because there are none, unless it says so.
func TestConditionOnNone(t *testing.T) {
	for condition, want := range map[string]map[string]spec.Verdict{ // by the loss of each instance that passed
		"steps.sweep.all(s, s.metrics.loss < 1.0)":                                  {"": spec.VerdictError, "0.5": spec.VerdictPass, "2": spec.VerdictFail},
		"!steps.sweep.exists(s, s.metrics.loss > 1.0)":                              {"": spec.VerdictError, "0.5": spec.VerdictPass, "2": spec.VerdictFail},
		"steps.sweep.filter(s, s.metrics.loss > 1.0).size() == 0":                   {"": spec.VerdictError, "0.5": spec.VerdictPass, "2": spec.VerdictFail},
		"steps.sweep.map(s, s.metrics.loss).all(l, l < 1.0)":                        {"": spec.VerdictError, "0.5": spec.VerdictPass},
		"steps.?sweep.orValue([]).all(s, s.metrics.loss < 1.0)":                     {"": spec.VerdictError, "0.5": spec.VerdictPass, "skipped": spec.VerdictPass},
		"!steps.?sweep.orValue([]).exists(s, s.metrics.loss < 1.0)":                 {"": spec.VerdictError, "0.5": spec.VerdictFail, "skipped": spec.VerdictPass},
		"(has(steps.sweep) ? steps.sweep : []).all(s, s.metrics.loss < 1.0)":        {"": spec.VerdictError, "0.5": spec.VerdictPass, "skipped": spec.VerdictPass},
		"steps.sweep.filter(s, s.metrics.loss > 1.0).all(s, s.index == 0)":          {"": spec.VerdictError, "0.5": spec.VerdictPass},
		"steps.sweep.size() == 0 || steps.sweep.all(s, s.metrics.loss < 1.0)":       {"": spec.VerdictPass, "0.5": spec.VerdictPass, "2": spec.VerdictFail},
		"steps.sweep.all(s, s.metrics.loss < 1.0) && size(steps.sweep) >= 0":        {"": spec.VerdictPass, "2": spec.VerdictFail},
		"steps.sweep.size() > 0 && steps.sweep.all(s, s.metrics.loss < 1.0)":        {"": spec.VerdictFail, "0.5": spec.VerdictPass},
		"steps.sweep.exists(s, s.metrics.loss < 1.0)":                               {"": spec.VerdictFail, "0.5": spec.VerdictPass},
		"params.force || steps.sweep.all(s, s.metrics.loss < 1.0)":                  {"": spec.VerdictError, "0.5": spec.VerdictPass},
		"[].all(x, x == 1) && params.names.all(n, n != '')":                         {"": spec.VerdictPass},
		"last.?steps.sweep.orValue([]).all(s, s.metrics.loss >= 0.1) && n >= 0":     {"": spec.VerdictPass},
		"steps.sweep.best(s, s.metrics.loss).metrics.loss < 1.0 && params.n == 0.0": {"": spec.VerdictError, "0.5": spec.VerdictPass},
	} {
		p := mustCompile(t, `sluice: pipeline/v1
name: p
params: {force: {type: bool, default: false}, names: {type: list, items: string, default: []}, n: {type: double, default: 0}}
steps:
  sweep:
    matrix: {lr: [1, 2]}
    require: 0%
    evaluate: {command: [fit], metrics: [loss]}
  pick:
    run: {command: [pick], outputs: {n: {type: int}}}
    gate: >-
      `+condition+`
`)
		for loss, verdict := range want {
			outputs := "[]"
			status := spec.StatusSucceeded
			switch loss {
			case "":
			case "skipped":
				status, outputs = spec.StatusSkipped, ""
			default:
				outputs = `[{"metrics": {"loss": ` + loss + `}, "index": 0, "matrix": {"lr": 1}}]`
			}
			vars := spec.Vars{Params: map[string]any{"force": false, "names": []any{}, "n": 0.0}, Steps: map[string]spec.StepResult{
				"sweep": {Status: status, Outputs: json.RawMessage(outputs)},
			}}
			checks, got := p.EvaluateGate("pick", json.RawMessage(`{"n": 1}`), vars)
			if got != verdict {
				t.Errorf("%s of %s: %s (%s), want %s", condition, outputs, got, checks[0].Error, verdict)
			}
			if help := "write `steps.sweep.size() > 0 && ...`"; got == spec.VerdictError && !strings.Contains(condition, "best") && !strings.Contains(checks[0].Error, help) {
				t.Errorf("%s: %s", condition, checks[0].Error)
			}
		}
	}
}
