package dsl

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/expr"
	"github.com/sluiceml/sluice/dsl/spec"
)

// fanned is a pipeline of one step `a` that fans out as it is told, and one that reads it.
func fanned(fan, reader string) string {
	return `sluice: pipeline/v1
name: p
params: {archs: {type: list, default: [bow, cnn]}, sizes: {type: list, items: int, default: [1, 2]}, none: {type: list, default: []}}
steps:
  a:
    ` + fan + `
    run: {command: [echo, "${index}"], outputs: {n: {type: int}, f1: {type: double}}}
  b:
    when: params.archs.size() + params.sizes.size() + params.none.size() > 0
    run: {command: [echo, "${` + reader + `}"]}
`
}

var fannedParams = map[string]any{"archs": []any{"bow", "cnn"}, "sizes": []any{1.0, 2.0}, "none": []any{}}

func shownInstances(instances []spec.Instance) []string {
	var out []string
	for i, instance := range instances {
		if instance.Index != i {
			out = append(out, fmt.Sprintf("index %d at %d", instance.Index, i))
		}
		out = append(out, string(instance.Matrix)+string(instance.Item))
	}
	return out
}

func TestExpand(t *testing.T) {
	tests := []struct {
		name, fan string
		want      []string
	}{
		{"product", "matrix: {b: [1, 2], a: [x, y]}", []string{`{"a":"x","b":1}`, `{"a":"y","b":1}`, `{"a":"x","b":2}`, `{"a":"y","b":2}`}},
		{"holes", `matrix: {arch: "${params.archs}", n: ["${params.sizes[1]}", "s${params.sizes[0]}"]}`, []string{
			`{"arch":"bow","n":2}`, `{"arch":"bow","n":"s1"}`, `{"arch":"cnn","n":2}`, `{"arch":"cnn","n":"s1"}`,
		}},
		{"exclude", "matrix: {a: [1, 2], b: [1, 2], exclude: [{a: 1, b: 2}, {a: 2.0}]}", []string{`{"a":1,"b":1}`}},
		{"include adds keys", "matrix: {a: [1, 2], include: [{a: 2, gpu: 1}, {c: x}]}", []string{`{"a":1,"c":"x"}`, `{"a":2,"c":"x","gpu":1}`}},
		{"include adds combinations", "matrix: {a: [1], include: [{a: 3}, {a: 3, gpu: 1}]}", []string{`{"a":1}`, `{"a":3}`, `{"a":3,"gpu":1}`}},
		{"include only", "matrix: {include: [{a: 1}, {b: 2}]}", []string{`{"a":1}`, `{"b":2}`}},
		{"exclude before include", "matrix: {a: [1, 2], exclude: [{a: 2}], include: [{a: 2, b: 1}]}", []string{`{"a":1}`, `{"a":2,"b":1}`}},
		{"values of any form", "matrix: {a: [{x: [1, {y: <b>}]}, true, 0.5]}", []string{`{"a":{"x":[1,{"y":"<b>"}]}}`, `{"a":true}`, `{"a":0.5}`}},
		{"foreach", "foreach: params.archs + ['rnn']", []string{`"bow"`, `"cnn"`, `"rnn"`}},
		{"foreach of numbers", "foreach: params.sizes.map(s, s * 10)", []string{`10`, `20`}},
		{"foreach of maps", "foreach: 'params.sizes.map(s, {\"z\": s, \"a\": 1})'", []string{`{"a":1,"z":1}`, `{"a":1,"z":2}`}},
		{"foreach of nothing", "foreach: params.none", nil},
		{"matrix of nothing", `matrix: {a: "${params.none}", b: [1]}`, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			p := mustCompile(t, fanned(tt.fan, "steps.a.size()"))
			for range 3 {
				got, err := p.Expand("a", spec.Vars{Params: fannedParams})
				if err != nil {
					t.Fatal(err)
				}
				if diff := cmp.Diff(tt.want, shownInstances(got)); diff != "" {
					t.Error(diff)
				}
			}
		})
	}
}

func TestExpandFails(t *testing.T) {
	tests := []struct{ name, fan, want string }{
		{"too many items", "foreach: params.sizes.map(x, lists.range(50500)).flatten()", "more than 100,000"},
		{"too many combinations", `matrix: {a: "${lists.range(1000)}", b: "${lists.range(101)}"}`, "more than 100,000"},
		{"absent", "foreach: '[serving.local.?steps.a[0].n.value()]'", "none"},
		{"null", "foreach: '[null]'", "item 0 is null"},
		{"repeat", "repeat: {until: n > 1}", "neither a matrix nor a foreach"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reader := "steps.a.size()"
			if strings.HasPrefix(tt.fan, "repeat") {
				reader = "steps.a.n"
			}
			_, err := mustCompile(t, fanned(tt.fan, reader)).Expand("a", spec.Vars{Params: fannedParams})
			if err == nil || !strings.Contains(err.Error(), tt.want) {
				t.Errorf("%v does not say %q", err, tt.want)
			}
		})
	}
}

// TestMatrixProduct: without include, the instances are the product less what exclude names, each once, in the order of the axes.
func TestMatrixProduct(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		axes := rapid.IntRange(1, 4).Draw(t, "axes")
		var fan strings.Builder
		sizes := make([]int, axes)
		for i := range axes {
			sizes[i] = rapid.IntRange(1, 4).Draw(t, "size")
			fmt.Fprintf(&fan, "x%d: %s, ", i, strings.ReplaceAll(fmt.Sprint(seq(sizes[i])), " ", ", "))
		}
		excluded := rapid.SliceOfDistinct(rapid.IntRange(0, sizes[0]-1), rapid.ID[int]).Filter(func(s []int) bool { return len(s) < sizes[0] }).Draw(t, "excluded")
		var exclude []string
		for _, x := range excluded {
			exclude = append(exclude, fmt.Sprintf("{x0: %d}", x))
		}
		p, diags := Compile(document.File{Name: "p.yaml", Source: []byte(fanned("matrix: {"+fan.String()+"exclude: ["+strings.Join(exclude, ", ")+"]}", "steps.a.size()"))}, document.File{}, nil)
		if p == nil {
			t.Fatal(diags)
		}
		got, err := p.Expand("a", spec.Vars{Params: fannedParams})
		if err != nil {
			t.Fatal(err)
		}
		want := sizes[0] - len(excluded)
		for _, n := range sizes[1:] {
			want *= n
		}
		if len(got) != want {
			t.Fatalf("%d instances of %v less %v", len(got), sizes, excluded)
		}
		order := make([][]int, len(got))
		for i, instance := range got {
			var values map[string]int
			if err := json.Unmarshal(instance.Matrix, &values); err != nil {
				t.Fatal(err)
			}
			for axis := range axes {
				order[i] = append(order[i], values[fmt.Sprintf("x%d", axis)])
			}
			if slices.Contains(excluded, order[i][0]) {
				t.Fatalf("%v was excluded", order[i])
			}
		}
		if !slices.IsSortedFunc(order, slices.Compare[[]int]) {
			t.Fatalf("out of order: %v", order)
		}
	})
}

const search = `sluice: pipeline/v1
name: p
params: {token: {type: string, secret: true}}
steps:
  fit:
    matrix: {arch: [bow, cnn], include: [{arch: cnn, gpu: 2}]}
    when: run.id == "r"
    secrets: {A: npm-token, B: "${params.token}"}
    summary: "
      ${matrix.arch}
      number ${index}"
    env: {GPU: "${matrix.?gpu.orValue(0)}"}
    run: {command: [echo, "${matrix.arch}"], files: [a.py], outputs: {f1: {type: double}}}
    gate:
      - f1 > 0.5 && matrix.arch != "rnn" && index < 5
      - check: f1 > 0.8
        on_fail: hold
        hold: {who: ["user:anna"]}
      - check: f1 > 0.7
        on_fail: stop
  tune:
    repeat: {until: "f1 > 0.9 || f1 - previous.?f1.orValue(0.0) < 0.01", max: 5}
    run: {command: [echo, "${index} ${previous.?f1.orValue(0.0)}"], outputs: {f1: {type: double}}}
    gate: f1 > previous.?f1.orValue(0.0)
  pick:
    foreach: steps.fit
    when: steps.fit.best(f, f.f1).f1 > 0.0
    run:
      command:
        - "${item.matrix.arch} ${item.f1} ${item.matrix.?gpu.orValue(0)}"
        - "${steps.fit.best(f, f.f1).matrix.arch} ${steps.fit.best(f, -f.index).index} ${steps.fit.best(f, f.matrix.arch).index}"
        - "${steps.fit.map(f, f.index).map(i, string(i)).join('+')} ${steps.tune.f1} ${steps.fit.size()}"
finally:
  report:
    run: {command: [echo, "${run.status} ${run.failed.map(f, f.step + ':' + f.type).join(' ')}", "${steps.tune.f1}"]}
`

const searchEnv = `sluice: environment/v1
name: lab
pools: {local: {local: {nodes: 2}}}
secrets: {npm-token: {env: NPM_TOKEN}}
`

var searchVars = spec.Vars{
	Params: map[string]any{"token": "npm-token"},
	Run:    spec.RunFacts{ID: "r", StartedAt: time.Unix(0, 0), Status: spec.StatusFailed, Failed: []spec.FailedStep{{Step: "fit", Error: "boom", Type: "user"}, {Step: "x", Error: "e", Type: "gate"}}},
	Steps: map[string]spec.StepResult{
		"fit": {Status: spec.StatusSucceeded, Outputs: json.RawMessage(`[
			{"f1": 0.6, "index": 0, "matrix": {"arch": "bow"}}, {"f1": 0.9, "index": 1, "matrix": {"arch": "cnn", "gpu": 2}}, {"f1": 0.9, "index": 2, "matrix": {"arch": "bow"}}]`)},
		"tune": {Status: spec.StatusSucceeded, Outputs: json.RawMessage(`{"f1": 0.95}`)},
	},
}

func compileSearch(t *testing.T) *Program {
	t.Helper()
	p, diags := Compile(document.File{Name: "p.yaml", Source: []byte(search)}, document.File{Name: "env.yaml", Source: []byte(searchEnv)}, nil)
	if len(diags) > 0 {
		t.Fatal(diags)
	}
	return p
}

// with is the vars as an instance sees them.
func with(v spec.Vars, instance spec.Instance) spec.Vars {
	v.Instance = &instance
	return v
}

func command(t *testing.T, r Resolved) []string {
	t.Helper()
	var spec spec.Run
	if err := json.Unmarshal(r.Spec, &spec); err != nil {
		t.Fatal(err)
	}
	return spec.Command.Command
}

func TestResolveInstance(t *testing.T) {
	p := compileSearch(t)
	once, err := p.Resolve("fit", searchVars)
	if diff := cmp.Diff(Resolved{Run: true, Cache: spec.Cache{Enabled: true}}, once); diff != "" || err != nil {
		t.Error(diff, err)
	}
	second := searchVars
	second.Run.ID = "r2"
	if once, err = p.Resolve("fit", second); once.Run || err != nil {
		t.Errorf("%+v %v", once, err)
	}
	if holds, _, err := p.When("fit", with(second, spec.Instance{})); holds || err != nil {
		t.Errorf("%v %v", holds, err)
	}
	instances, err := p.Expand("fit", searchVars)
	if err != nil || len(instances) != 2 {
		t.Fatal(instances, err)
	}
	one, err := p.Resolve("fit", with(second, instances[1])) // its `when` was judged before
	want := Resolved{
		Run: true, Env: map[string]string{"GPU": "2"}, Secrets: map[string]string{"A": "npm-token", "B": "npm-token"}, Summary: "cnn number 1",
		Cache: spec.Cache{Enabled: true}, Files: []string{"a.py"}, Spec: one.Spec,
	}
	if diff := cmp.Diff(want, one); diff != "" || err != nil {
		t.Error(diff, err)
	}
	if diff := cmp.Diff([]string{"echo", "cnn"}, command(t, one)); diff != "" {
		t.Error(diff)
	}
}

func TestReadInstances(t *testing.T) {
	p := compileSearch(t)
	instances, err := p.Expand("pick", searchVars)
	if err != nil || len(instances) != 3 {
		t.Fatal(instances, err)
	}
	r, err := p.Resolve("pick", with(searchVars, instances[1]))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"cnn 0.9 2", "cnn 0 1", "0+1+2 0.95 3"}, command(t, r)); diff != "" {
		t.Error(diff)
	}
	empty := searchVars
	empty.Steps = maps.Clone(empty.Steps)
	empty.Steps["fit"] = spec.StepResult{Status: spec.StatusSucceeded, Outputs: json.RawMessage(`[]`)}
	if _, err := p.Resolve("pick", empty); !expr.IsAbsent(err) || !strings.Contains(err.Error(), "`best` of an empty list is undefined") {
		t.Error(err)
	}
}

func TestRepeat(t *testing.T) {
	p := compileSearch(t)
	first, err := p.Resolve("tune", with(searchVars, spec.Instance{}))
	if err != nil || command(t, first)[1] != "0 0" {
		t.Error(first, err)
	}
	later := with(searchVars, spec.Instance{Index: 3, Previous: json.RawMessage(`{"f1": 0.5}`)})
	if r, err := p.Resolve("tune", later); err != nil || command(t, r)[1] != "3 0.5" {
		t.Error(r, err)
	}
	for outputs, want := range map[string]bool{`{"f1": 0.95}`: true, `{"f1": 0.505}`: true, `{"f1": 0.6}`: false} {
		if done, err := p.Until("tune", json.RawMessage(outputs), later); done != want || err != nil {
			t.Errorf("%s: %v %v", outputs, done, err)
		}
	}
	if _, err := p.Until("tune", json.RawMessage(`{}`), later); err == nil {
		t.Error("a condition over nothing was evaluated")
	}
	if _, err := p.Until("fit", nil, later); err == nil {
		t.Error("a step without repeat ended one")
	}
	if _, verdict := p.EvaluateGate("tune", json.RawMessage(`{"f1": 0.4}`), later); verdict != spec.VerdictFail {
		t.Error(verdict)
	}
}

func TestEvaluateHold(t *testing.T) {
	p := compileSearch(t)
	vars := with(searchVars, spec.Instance{Index: 1, Matrix: json.RawMessage(`{"arch": "cnn"}`)})
	tests := []struct {
		f1   string
		want spec.Verdict
	}{
		{"0.95", spec.VerdictPass},
		{"0.75", spec.VerdictHold},
		{"0.65", spec.VerdictFail}, // a person cannot let pass what another check stops
		{"0.4", spec.VerdictFail},
		{"null", spec.VerdictError},
	}
	for _, tt := range tests {
		checks, verdict := p.EvaluateGate("fit", json.RawMessage(`{"f1": `+tt.f1+`}`), vars)
		if verdict != tt.want {
			t.Errorf("%s: %s %+v", tt.f1, verdict, checks)
		}
		if diff := cmp.Diff(&spec.Hold{Who: []string{"user:anna"}, Timeout: spec.Duration(72 * time.Hour), Default: "fail"}, checks[1].Hold); diff != "" || checks[0].Hold != nil {
			t.Error(diff)
		}
	}
	if _, verdict := p.EvaluateGate("fit", json.RawMessage(`{"f1": 0.95}`), searchVars); verdict != spec.VerdictError {
		t.Errorf("judged without an instance: %s", verdict)
	}
}

func TestSections(t *testing.T) {
	p := compileSearch(t)
	var order []string
	for _, n := range p.Graph() {
		order = append(order, n.ID+" "+string(n.Section))
	}
	if diff := cmp.Diff([]string{"fit ", "tune ", "pick ", "report finally"}, order); diff != "" {
		t.Error(diff)
	}
	want := spec.Node{
		ID: "fit", Kind: spec.KindRun, HasGate: true, HasWhen: true, Fan: spec.FanMatrix, Require: 1, Needs: map[string]spec.Need{}, Retry: spec.Retry{}.WithDefaults(),
	}
	if diff := cmp.Diff(want, p.Graph()[0]); diff != "" {
		t.Error(diff)
	}
	if n := p.Graph()[1]; n.Fan != spec.FanRepeat || n.Max != 5 || n.Require != 0 {
		t.Errorf("%+v", n)
	}
	if n := p.Graph()[3]; len(n.After) > 0 || len(n.Needs) > 0 {
		t.Errorf("an edge crosses sections: %+v", n)
	}
	if pipeline := p.Pipeline(); len(pipeline.Steps) != 3 || len(pipeline.Finally) != 1 || len(pipeline.OnFailure) != 0 {
		t.Errorf("%+v", pipeline)
	}
	r, err := p.Resolve("report", searchVars)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"echo", "failed fit:user x:gate", "0.95"}, command(t, r)); diff != "" {
		t.Error(diff)
	}
	without := searchVars
	without.Steps = map[string]spec.StepResult{"tune": {Status: spec.StatusFailed}}
	if _, err := p.Resolve("report", without); !expr.IsAbsent(err) || !strings.Contains(err.Error(), "`steps.tune` is absent") {
		t.Error(err)
	}
}

// TestDefaultsTaken: a default is taken where a step has no such key, and not where it has.
func TestDefaultsTaken(t *testing.T) {
	p := mustCompile(t, `sluice: pipeline/v1
name: p
defaults: {step: {timeout: 1h, env: {A: x}, require: 20%}, train: {pool: local, nodes: 2, metrics: [f1]}}
steps:
  a: {train: {command: [echo]}, gate: metrics.f1 > 0.5}
  b: {train: {command: [echo], nodes: 1, metrics: [f2]}, timeout: 5m, env: {B: y}, foreach: "[1]"}
  c: {approval: {timeout: 20h, default: approve}}
`)
	a, b, c := p.Graph()[0], p.Graph()[1], p.Graph()[2]
	if c.Timeout != 0 {
		t.Errorf("a person who has 20h is cut off after %s", c.Timeout)
	}
	if a.Timeout.String() != "1h" || b.Timeout.String() != "5m" || a.Require != 0 || b.Require != 0.2 {
		t.Errorf("%+v\n%+v", a, b)
	}
	ra, errA := p.Resolve("a", spec.Vars{})
	rb, errB := p.Resolve("b", with(spec.Vars{}, spec.Instance{Item: json.RawMessage("1")}))
	if errA != nil || errB != nil {
		t.Fatal(errA, errB)
	}
	if diff := cmp.Diff([]map[string]string{{"A": "x"}, {"B": "y"}}, []map[string]string{ra.Env, rb.Env}); diff != "" {
		t.Error(diff)
	}
	for raw, want := range map[string]spec.Nodes{string(ra.Spec): {Min: 2, Max: 2}, string(rb.Spec): {Min: 1, Max: 1}} {
		sp, err := spec.Decode[spec.Train](json.RawMessage(raw))
		if err != nil || sp.Nodes != want {
			t.Errorf("%s: %v", raw, err)
		}
	}
}
