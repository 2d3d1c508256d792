package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store/record"
)

// execute does all steps of a run, with these outputs, as its workflow would. It returns those, or their instances, that were not reused.
func (b *bench) execute(run string, reuse record.Reuse, outputs map[string]string) (done []string) {
	b.Helper()
	b.begin(run)
	for _, node := range b.program.Graph() {
		done = append(done, b.executeStep(run, node, reuse, outputs)...)
	}
	return done
}

func (b *bench) executeStep(run string, node spec.Node, reuse record.Reuse, outputs map[string]string) (done []string) {
	b.Helper()
	in := b.at(run, node.ID)
	in.Reuse = reuse
	if node.Fan == spec.FanNone {
		return b.executeOne(in, node, outputs)
	}
	all, err := b.engine.Expand(b.Context(), in)
	if err != nil {
		b.Fatal(err)
	}
	if node.Fan == spec.FanRepeat {
		all.Of = 1
	}
	for i := range all.Of {
		one := in
		one.Instance = &record.Instance{Index: i, List: all.List}
		done = append(done, b.executeOne(one, node, outputs)...)
	}
	end := contract.StepEnd{StepRef: in.StepRef, Kind: node.Kind, Status: spec.StatusSucceeded}
	if _, err := b.engine.Gather(b.Context(), contract.GatherInput{StepEnd: end, Fan: node.Fan, List: all.List, Of: all.Of}); err != nil {
		b.Fatal(err)
	}
	return done
}

func (b *bench) executeOne(in contract.ResolveInput, node spec.Node, outputs map[string]string) (done []string) {
	b.Helper()
	resolved, err := b.engine.Resolve(b.Context(), in)
	if err != nil {
		b.Fatalf("%s: %v", in.ID(), err)
	}
	end := contract.StepEnd{StepRef: in.StepRef, Kind: node.Kind, Status: spec.StatusSucceeded, Key: resolved.Key, EndedAt: b.began}
	switch {
	case resolved.Skip != "":
		end.Status = spec.StatusSkipped
	case resolved.Hit != "":
		end.Output, end.ReusedFrom = resolved.Output, resolved.Hit
	default:
		done = []string{in.ID()}
		end.Output.Outputs = json.RawMessage(`{}`)
		for _, id := range []string{in.Step, in.ID()} {
			if out := outputs[id]; out != "" {
				end.Output.Outputs = json.RawMessage(out)
			}
		}
	}
	if _, err := b.engine.Verdict(b.Context(), end); err != nil {
		b.Fatalf("%s: %v", in.ID(), err)
	}
	return done
}

// A result also depends on the results of the steps that are needed, whether they are read or not.
func TestNeedsCount(t *testing.T) {
	const fitting = `steps:
  fit: {run: {command: [fit, "1"], files: none, outputs: {f1: {type: double}, made: {type: string}}}, gate: f1 > 0.5}
`
	const building = `steps:
  build: {run: {command: [build, "1"], files: none}}
`
	approved := `{"by": "user:anna", "at": "2026-01-02T03:04:05Z", "reason": ""}`
	a, other := `{"f1": 0.9, "made": "A"}`, `{"f1": 0.9, "made": "B"}`
	edit := []string{`"1"`, `"2"`}
	for _, tt := range []struct {
		name, pipeline string
		edit           []string          // of the pipeline, before the second run
		first, second  map[string]string // outputs
		want           []string          // what a rerun does again
		run            []string          // what another run does
	}{
		{
			"an approval of what has changed", fitting + "  sign: {needs: [fit], approval: {message: ship}}\n  ship: {needs: [sign], run: {command: [ship], files: none}}\n",
			edit,
			map[string]string{"fit": a, "sign": approved},
			map[string]string{"fit": other, "sign": strings.Replace(approved, "03:04", "04:04", 1)},
			[]string{"fit", "sign", "ship"},
			[]string{"fit", "sign", "ship"},
		},
		{
			"an approval of what was made again, and is the same", fitting + "  sign: {needs: [fit], approval: {message: ship}}\n",
			edit,
			map[string]string{"fit": a, "sign": approved},
			map[string]string{"fit": a, "sign": approved},
			[]string{"fit"},
			[]string{"fit", "sign"},
		},
		{
			"an approval whose `when` reads it", fitting + "  sign: {when: steps.fit.f1 > 0.5, approval: {message: ship}}\n",
			edit,
			map[string]string{"fit": a, "sign": approved},
			map[string]string{"fit": other, "sign": approved},
			[]string{"fit", "sign"},
			[]string{"fit", "sign"},
		},
		{
			"an approval whose message reads another output", fitting + "  sign: {approval: {message: \"ship ${steps.fit.f1}?\"}}\n",
			edit,
			map[string]string{"fit": a, "sign": approved},
			map[string]string{"fit": other, "sign": approved},
			[]string{"fit", "sign"},
			[]string{"fit", "sign"},
		},
		{
			"an approval behind an equal metric", fitting + `  score: {evaluate: {command: [score], files: none, metrics: [f1]}, needs: [fit]}
  sign: {needs: [score], approval: {message: ship}}
`, edit,
			map[string]string{"fit": a, "score": `{"metrics": {"f1": 0.9}}`, "sign": approved},
			map[string]string{"fit": other, "score": `{"metrics": {"f1": 0.9}}`, "sign": approved},
			[]string{"fit", "score", "sign"},
			[]string{"fit", "score", "sign"},
		},
		{
			"effects, one after the other", building + "  deploy: {needs: [build], run: {command: [deploy], files: none}}\n  tell: {needs: [deploy], run: {command: [tell], files: none}}\n",
			edit, nil, nil,
			[]string{"build", "deploy", "tell"},
			[]string{"build", "deploy", "tell"},
		},
		{
			"effects of the same", building + "  deploy: {needs: [build], run: {command: [deploy], files: none}}\n",
			nil, nil, nil, nil,
			[]string{"build", "deploy"},
		},
		{
			"a metric of data that it only needs", building + "  score: {evaluate: {command: [score], files: none, metrics: [f1]}, needs: [build]}\n",
			edit,
			map[string]string{"score": `{"metrics": {"f1": 0.9}}`},
			map[string]string{"score": `{"metrics": {"f1": 0.7}}`},
			[]string{"build", "score"},
			[]string{"build", "score"},
		},
		{
			"a metric of the same data", building + "  score: {evaluate: {command: [score], files: none, metrics: [f1]}, needs: [build]}\n",
			nil,
			map[string]string{"score": `{"metrics": {"f1": 0.9}}`},
			nil, nil,
			[]string{"build"},
		},
		{
			"what is made again and is the same, for a result", fitting + "  score: {evaluate: {command: [score], files: none, metrics: [f1]}, needs: [fit]}\n",
			edit,
			map[string]string{"fit": a, "score": `{"metrics": {"f1": 0.9}}`},
			map[string]string{"fit": a},
			[]string{"fit"},
			[]string{"fit"},
		},
		{
			"a step that is not cached, and says something else", strings.Replace(fitting, "gate:", "cache: false, gate:", 1) + "  score: {evaluate: {command: [score], files: none, metrics: [f1]}, needs: [fit]}\n",
			nil,
			map[string]string{"fit": a, "score": `{"metrics": {"f1": 0.9}}`},
			map[string]string{"fit": other, "score": `{"metrics": {"f1": 0.9}}`},
			nil,
			[]string{"fit", "score"},
		},
		{
			"one that is skipped now", fitting + "  extra: {when: \"true\", run: {command: [extra], files: none, outputs: {x: {type: int}}}}\n" +
				"  ship: {needs: {extra: not_failed}, run: {command: [ship], files: none}}\n",
			[]string{`when: "true"`, `when: "false"`},
			map[string]string{"fit": a, "extra": `{"x": 1}`},
			nil,
			[]string{"ship"},
			[]string{"ship"},
		},
		{
			"instances without outputs", `params: {regions: {type: list, default: [eu, us]}}
steps:
  build: {foreach: params.regions, run: {command: [build, "${item}", "1"], files: none}}
  deploy: {needs: [build], run: {command: [deploy], files: none}}
`, edit, nil, nil, []string{"build.0", "build.1", "deploy"}, []string{"build.0", "build.1", "deploy"},
		},
		{
			"the iterations of a step", `steps:
  build: {repeat: {until: "true"}, run: {command: [build, "1"], files: none}}
  deploy: {needs: [build], run: {command: [deploy], files: none}}
`, edit, nil, nil, []string{"build.0", "deploy"}, []string{"build.0", "deploy"},
		},
		{
			"an element of a list", `steps:
  fetch: {foreach: "['eu', 'us']", run: {command: [fetch, "${item}", "1"], files: none, outputs: {rows: {type: int}}}}
  fit: {foreach: steps.fetch, run: {command: [fit, "${item.item}"], files: none, outputs: {f1: {type: double}}}}
  sign: {foreach: steps.fetch, approval: {message: "ship ${item.item}?"}}
`, edit,
			map[string]string{"fetch.0": `{"rows": 1}`, "fetch.1": `{"rows": 2}`, "fit": `{"f1": 0.9}`, "sign": approved},
			map[string]string{"fetch.0": `{"rows": 1}`, "fetch.1": `{"rows": 3}`, "fit": `{"f1": 0.9}`, "sign": approved},
			[]string{"fetch.0", "fetch.1", "fit.1", "sign.1"},
			[]string{"fetch.0", "fetch.1", "fit.1", "sign.0", "sign.1"},
		},
		{
			"another element at the place of an approval", "steps: {sign: {foreach: \"['eu', 'us']\", approval: {message: ship}}}\n",
			[]string{`'eu'`, `'ap'`},
			map[string]string{"sign": approved},
			map[string]string{"sign": approved},
			[]string{"sign.0"},
			[]string{"sign.0", "sign.1"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			second := tt.pipeline
			if tt.edit != nil {
				if second = strings.ReplaceAll(second, tt.edit[0], tt.edit[1]); second == tt.pipeline {
					t.Fatal("nothing was edited")
				}
			}
			for from, want := range map[string][]string{"r1": tt.want, "": tt.run} {
				b := newBench(t, tt.pipeline)
				b.execute("r1", record.Reuse{}, tt.first)
				b.engine = NewEngine(b.engine.Store) // another process
				b.submit(second, document.File{})
				outputs := tt.second
				if outputs == nil {
					outputs = tt.first
				}
				if diff := cmp.Diff(want, b.execute("r2", record.Reuse{From: from}, outputs)); diff != "" {
					t.Errorf("reusing %q, these were done (-want +got):\n%s", from, diff)
				}
			}
		})
	}
}

// Instances that read nothing of what they are about are executed each, whatever other steps have done.
func TestInstancesReuseNothingOfOtherSteps(t *testing.T) {
	b := newBench(t, `steps:
  one: {run: {command: [draw], files: none, outputs: {x: {type: int}}}}
  some: {needs: {one: ended}, foreach: "[1, 2]", run: {command: [draw], files: none, outputs: {x: {type: int}}}}
  more: {needs: {one: ended}, foreach: "[1, 2]", run: {command: [draw], files: none, outputs: {x: {type: int}}}}
`)
	outputs := map[string]string{"one": `{"x": 1}`, "some": `{"x": 2}`, "more": `{"x": 3}`}
	if diff := cmp.Diff([]string{"one", "some.0", "some.1", "more.0", "more.1"}, b.execute("r1", record.Reuse{}, outputs)); diff != "" {
		t.Errorf("the first run did (-want +got):\n%s", diff)
	}
}

// The steps of a child need what the step that runs it needs: those that are cached what it needs directly, all others also what came before.
func TestStepsOfAChildNeedWhatItsStepNeeds(t *testing.T) {
	const parent = `steps:
  fetch: {run: {command: [fetch, "1"], files: none}}
  clean: {needs: [fetch], run: {command: [clean], files: none, outputs: {rows: {type: int}}}}
  sub:
    needs: [clean]
    pipeline:
      steps:
        score: {evaluate: {command: [score], files: none, metrics: [f1]}}
        next: {needs: [score], evaluate: {command: [score], files: none, metrics: [f1]}}
        sign: {approval: {message: ship}}
        ship: {run: {command: [ship], files: none}}
`
	keys := func(pipeline, rows string) map[string]string {
		b := newBench(t, pipeline)
		b.begin("r1")
		b.end("r1", "fetch", `{}`)
		b.end("r1", "clean", rows)
		resolved, err := b.engine.Resolve(t.Context(), b.at("r1", "sub"))
		if err != nil {
			t.Fatal(err)
		}
		run, err := b.engine.Child(t.Context(), contract.ChildInput{StepInput: resolved.Step, Attempt: 1})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.engine.Begin(t.Context(), contract.BeginInput{RunInput: run}); err != nil {
			t.Fatal(err)
		}
		b.submission = run.Submission
		all := map[string]string{}
		for _, step := range []string{"score", "sign", "ship"} {
			all[step] = b.key(run.Run, step)
		}
		b.end(run.Run, "score", `{"metrics": {"f1": 0.9}}`)
		all["next"] = b.key(run.Run, "next")
		return all
	}
	first := keys(parent, `{"rows": 1}`)
	for _, tt := range []struct {
		name, pipeline, rows string
		want                 []string
	}{
		{"the same", parent, `{"rows": 1}`, nil},
		{"other rows", parent, `{"rows": 2}`, []string{"score", "ship", "sign"}},
		{"other files behind the same rows", strings.Replace(parent, `"1"`, `"2"`, 1), `{"rows": 1}`, []string{"ship", "sign"}},
	} {
		if diff := cmp.Diff(tt.want, differing(first, keys(tt.pipeline, tt.rows))); diff != "" {
			t.Errorf("%s: these have another key (-want +got):\n%s", tt.name, diff)
		}
	}
}

// How a dataset or a model came about, what it cost and what it was compared with is nothing that later steps depend on.
func TestDigestOfAResult(t *testing.T) {
	for _, tt := range []struct {
		name string
		a, b record.StepRecord
		same bool
	}{
		{
			"a dataset with another account",
			record.StepRecord{Kind: spec.KindClean, Outputs: json.RawMessage(`{"dataset": {"digest": "d"}, "drift": {"against": "x"}}`)},
			record.StepRecord{Kind: spec.KindClean, Outputs: json.RawMessage(`{"dataset": {"digest": "d"}, "rows": {"reused": 3}}`)},
			true,
		},
		{
			"another dataset",
			record.StepRecord{Kind: spec.KindClean, Outputs: json.RawMessage(`{"dataset": {"digest": "d"}}`)},
			record.StepRecord{Kind: spec.KindClean, Outputs: json.RawMessage(`{"dataset": {"digest": "e"}}`)},
			false,
		},
		{
			"a model that cost more",
			record.StepRecord{Kind: spec.KindTrain, Outputs: json.RawMessage(`{"model": "m", "cost_usd": 3, "generations": [1]}`)},
			record.StepRecord{Kind: spec.KindTrain, Outputs: json.RawMessage(`{"model": "m", "cost_usd": 4, "generations": [1, 2]}`)},
			true,
		},
		{
			"a training without outputs, of something else",
			record.StepRecord{Kind: spec.KindTrain, Key: "a", Outputs: json.RawMessage(`{"metrics": {}, "steps_done": 3}`)},
			record.StepRecord{Kind: spec.KindTrain, Key: "b", Outputs: json.RawMessage(`{"metrics": {}, "steps_done": 3}`)},
			false,
		},
		{
			"what its key does not stand for", record.StepRecord{Kind: spec.KindRun, Outputs: json.RawMessage(`{}`)}, record.StepRecord{Kind: spec.KindRun, Outputs: json.RawMessage(`{}`)}, false,
		},
		{"written in another way", record.StepRecord{Outputs: json.RawMessage(`{"a": "<", "b": 1}`)}, record.StepRecord{Outputs: json.RawMessage(`{"b":1,"a":"\u003c"}`)}, true},
		{"large numbers", record.StepRecord{Outputs: json.RawMessage(`{"a": 9007199254740993}`)}, record.StepRecord{Outputs: json.RawMessage(`{"a": 9007199254740992}`)}, false},
	} {
		tt.a.Status, tt.b.Status = spec.StatusSucceeded, spec.StatusSucceeded
		if a, b := digestOf(tt.a, tt.a.Outputs), digestOf(tt.b, tt.b.Outputs); (a == b) != tt.same {
			t.Errorf("%s: %s and %s, want them to be equal: %t", tt.name, a, b, tt.same)
		}
	}
}

// What began in another world than that of its key is not found by the key.
func TestKeyIsThatOfTheWorldInWhichAStepBegins(t *testing.T) {
	b := newBench(t, "steps: {make: {run: {command: [make], files: none, outputs: {v: {type: string}}}}}\n")
	python := "foo 1.0"
	b.engine.Python = func(context.Context, string) (string, error) { return python, nil }
	for i, then := range []string{"foo 1.0", "foo 2.0"} {
		b.begin(fmt.Sprint("r", i))
		python = fmt.Sprint("foo 1.0 ", i)
		resolved, err := b.engine.Resolve(t.Context(), b.at(fmt.Sprint("r", i), "make"))
		if err != nil {
			t.Fatal(err)
		}
		if i == 1 {
			python = then
		}
		out, err := b.engine.Keyed(func(context.Context, record.StepInput) (record.StepOutput, error) { return record.StepOutput{}, nil })(t.Context(), resolved.Step)
		if err != nil || out.Unkeyed != (i == 1) {
			t.Errorf("with %s when it begins: %+v, %v", python, out, err)
		}
	}
}
