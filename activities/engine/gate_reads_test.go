package engine

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// TestAGateSeesWhatLintAccepts: whatever the graph, a gate that lint accepts is judged with the true end of every step it reads. The
// test knows these ends from a walk of its own over the steps it made, and writes each condition such that it knows the verdict too.
func TestAGateSeesWhatLintAccepts(t *testing.T) {
	rapid.Check(t, func(r *rapid.T) {
		g := drawGraph(r)
		b := newBench(t, g.document())
		g.earlierRun(b)
		b.begin("r1")
		rec := b.runRecord("r1")
		rec.Last, rec.Serving = "r0", map[string]string{"local": "r0"}
		if err := b.engine.Store.PutJSON(b.Context(), record.RunKey("r1"), rec, store.WriteOptions{}); err != nil {
			t.Fatal(err)
		}
		for _, section := range sections {
			g.walk(b, section)
		}
	})
}

var sections = []spec.Section{spec.SectionMain, spec.SectionOnFailure, spec.SectionFinally}

// example is a step of some kind with one number among its outputs.
type example struct {
	kind spec.Kind
	body string // in the document
	path string // to the number
	out  string // the outputs, around the number
	fans bool   // it is tried with instances too
}

// The source of what some kinds take is a step of its own, `src`.
var examples = []example{
	{spec.KindRun, `{command: [echo], outputs: {n: {type: double}}}`, "n", `{"n": %d}`, true},
	{spec.KindEvaluate, `{command: [echo], metrics: [f1]}`, "metrics.f1", `{"metrics": {"f1": %d}}`, true},
	{spec.KindTrain, `{command: [echo], metrics: [f1]}`, "metrics.f1", `{"metrics": {"f1": %d}}`, true},
	{
		spec.KindClean, `{transforms: [{type: ReadFromJson, config: {path: "*.json"}}, {type: WriteToJson}]}`, "rows.kept",
		`{"rows": {"kept": %d}}`, false,
	},
	{
		spec.KindCompile, `{model: "${steps.src.model}", samples: {dataset: "${steps.src.data}"}, variants: {a: {onnx: {}}}}`,
		"variants.a.bytes", `{"variants": {"a": {"bytes": %d}}}`, false,
	},
	{
		spec.KindRollout, `{target: local, ungated: true, model: "${steps.src.model}", stages: [{weight: 100%}]}`, "stages[0].index",
		`{"stages": [{"index": %d}]}`, false,
	},
	{spec.KindApproval, `{fields: {n: {type: double, default: 1}}}`, "n", `{"n": %d}`, false},
	{
		spec.KindPipeline, `{steps: {one: {run: {command: [echo], outputs: {n: {type: double}}}}}, outputs: {n: "${steps.one.n}"}}`, "n",
		`{"n": %d}`, true,
	},
}

// drawn is a step of a drawn graph, with what is to become of it.
type drawn struct {
	example
	id        string
	section   spec.Section
	fan       spec.Fan
	when      bool // its `when`
	does      bool // what it does succeeds
	tolerated bool // continue_on_error
	explicit  map[string]spec.Need
	needs     map[string]spec.Need // with those by reference
	gates     []condition
	until     *condition
	number    int
	status    spec.Status // its true end
}

// condition is a bool expression with the verdict that it must have.
type condition struct {
	text string
	want spec.Verdict
}

type graph struct {
	r     *rapid.T
	steps []*drawn // each after those it reads
	order []int    // in the document
}

// earlier is how much larger a number is in the run before.
const earlier = 100

// wasThere tells of the run before which steps passed in it.
func (s *drawn) wasThere() bool { return s.number%3 > 0 }

func drawGraph(r *rapid.T) *graph {
	g := &graph{r: r}
	for i := range rapid.IntRange(2, 8).Draw(r, "steps") {
		s := &drawn{
			example: rapid.SampledFrom(examples).Draw(r, "kind"), id: fmt.Sprintf("s%d", i), number: i + 1, section: spec.SectionMain,
			when: rapid.IntRange(0, 4).Draw(r, "when") > 0, does: rapid.IntRange(0, 4).Draw(r, "does") > 0,
			tolerated: rapid.IntRange(0, 6).Draw(r, "tolerated") == 0, explicit: map[string]spec.Need{}, needs: map[string]spec.Need{},
		}
		if i > 1 {
			last := slices.Index(sections, g.steps[i-1].section)
			s.section = sections[min(2, last+rapid.SampledFrom([]int{0, 0, 0, 1, 2}).Draw(r, "section"))]
		}
		if s.fans {
			s.fan = rapid.SampledFrom([]spec.Fan{spec.FanNone, spec.FanNone, spec.FanMatrix, spec.FanForeach, spec.FanRepeat}).Draw(r, "fan")
		}
		g.steps = append(g.steps, s)
		g.drawEdges(s)
		g.end(s)
	}
	g.order = rapid.Permutation(indices(len(g.steps))).Draw(r, "order")
	return g
}

func indices(n int) []int {
	all := make([]int, n)
	for i := range all {
		all[i] = i
	}
	return all
}

// drawEdges draws what a step needs, and what its gates read.
func (g *graph) drawEdges(s *drawn) {
	for _, up := range g.steps[:s.number-1] {
		if up.section == s.section && rapid.IntRange(0, 3).Draw(g.r, "needs") == 0 {
			s.explicit[up.id] = rapid.SampledFrom([]spec.Need{spec.NeedPassed, spec.NeedNotFailed, spec.NeedEnded, spec.NeedFailed}).Draw(g.r, "need")
		}
	}
	maps.Copy(s.needs, s.explicit)
	type read struct {
		up   *drawn
		form int
	}
	var reads []read
	for range rapid.IntRange(1, 3).Draw(g.r, "gates") {
		if s.number == 1 {
			break
		}
		of := read{rapid.SampledFrom(g.steps[:s.number-1]).Draw(g.r, "reads"), rapid.IntRange(0, 8).Draw(g.r, "form")}
		if said, has := s.explicit[of.up.id]; has && (said == spec.NeedFailed || said != spec.NeedPassed && of.form < plainForms) {
			continue // an error[needs]
		}
		reads = append(reads, of)
		if need, has := s.needs[of.up.id]; of.up.section == s.section && of.form < earlierForms && (!has || s.explicit[of.up.id] == "" && need == spec.NeedNotFailed) {
			s.needs[of.up.id] = spec.NeedNotFailed
			if of.form < plainForms {
				s.needs[of.up.id] = spec.NeedPassed
			}
		}
	}
	for _, of := range reads {
		s.gates = append(s.gates, g.condition(of.up, of.form, rapid.IntRange(0, 5).Draw(g.r, "holds") > 0))
	}
	if s.fan == spec.FanRepeat {
		s.until = &condition{"index == 0", spec.VerdictPass}
		if len(reads) > 0 {
			until := g.condition(reads[0].up, reads[0].form, true)
			s.until = &until
		}
	}
}

// The forms of reading a step: first the plain ones, then those by an optional, then those of an earlier run.
const (
	plainForms   = 2
	earlierForms = 6
)

// condition reads a step in a form. As far as it can be evaluated it holds as is asked for.
func (g *graph) condition(up *drawn, form int, holds bool) condition {
	there, number, of := up.status == spec.StatusSucceeded, up.number, "steps.?"+up.id
	switch {
	case form < plainForms:
		of = "steps." + up.id
	case form == 6 || form == 7:
		of, there, number = "last.?steps."+up.id, up.wasThere(), up.number+earlier
	case form == 8:
		of, there, number = "serving.local.?steps."+up.id, up.wasThere(), up.number+earlier
	}
	isNumber := fmt.Sprintf("%s == %d.0", up.path, number)
	var text string
	switch listed := up.fan == spec.FanMatrix || up.fan == spec.FanForeach; {
	case form == 2:
		text = of + ".hasValue()"
	case form == 3:
		text = "has(steps." + up.id + ")"
	case form == 1 && listed:
		text = of + ".all(x, x." + isNumber + ")"
	case form == 1:
		text = "[0].all(zero, " + of + "." + isNumber + ")"
	case form == 0 && listed:
		text = of + ".size() == 2 && " + of + "[1]." + isNumber
	case form == 0:
		text = of + "." + isNumber
	case listed:
		text = of + ".orValue([]).exists(x, x." + isNumber + ")"
	default:
		text = of + ".optMap(x, x." + isNumber + ").orValue(false)"
	}
	switch {
	case form < plainForms && !there:
		return condition{text, spec.VerdictError}
	case there != holds:
		text = "!(" + text + ")"
	}
	if holds {
		return condition{text, spec.VerdictPass}
	}
	return condition{text, spec.VerdictFail}
}

// end decides how a step ends.
func (g *graph) end(s *drawn) {
	s.status = spec.StatusPending
	for _, up := range g.steps[:s.number-1] {
		need, has := s.needs[up.id]
		if !has {
			continue
		}
		switch need.Met(up.status, up.tolerated) {
		case spec.StatusUpstream:
			s.status = spec.StatusUpstream
		case spec.StatusSkipped:
			if s.status == spec.StatusPending {
				s.status = spec.StatusSkipped
			}
		default:
		}
	}
	failed := slices.ContainsFunc(g.steps, func(up *drawn) bool {
		return up.section == spec.SectionMain && up.status == spec.StatusFailed && !up.tolerated
	})
	switch {
	case s.section == spec.SectionOnFailure && !failed:
		s.status = spec.StatusSkipped
	case s.status != spec.StatusPending:
	case !s.when:
		s.status = spec.StatusSkipped
	case !s.does || slices.ContainsFunc(s.gates, func(c condition) bool { return c.want != spec.VerdictPass }):
		s.status = spec.StatusFailed
	case s.until != nil && s.until.want != spec.VerdictPass:
		s.status = spec.StatusFailed
	default:
		s.status = spec.StatusSucceeded
	}
}

func (g *graph) document() string {
	var b strings.Builder
	for _, section := range sections {
		word := string(section)
		if section == spec.SectionMain {
			word = "steps"
		} else if !slices.ContainsFunc(g.steps, func(s *drawn) bool { return s.section == section }) {
			continue
		}
		fmt.Fprintf(&b, "%s:\n", word)
		if section == spec.SectionMain {
			b.WriteString("  src: {run: {command: [echo], outputs: {model: {type: model, path: m}, data: {type: dataset, path: d}}}}\n")
		}
		for _, i := range g.order {
			if g.steps[i].section == section {
				g.steps[i].write(&b)
			}
		}
	}
	return b.String()
}

func (s *drawn) write(b *strings.Builder) {
	fmt.Fprintf(b, "  %s:\n    %s: %s\n    when: run.attempt == %d\n    continue_on_error: %t\n", s.id, s.kind, s.body, map[bool]int{true: 1}[s.when], s.tolerated)
	if len(s.explicit) > 0 {
		b.WriteString("    needs:\n")
		for _, id := range slices.Sorted(maps.Keys(s.explicit)) {
			fmt.Fprintf(b, "      %s: %s\n", id, s.explicit[id])
		}
	}
	for i, c := range s.gates {
		if i == 0 {
			b.WriteString("    gate:\n")
		}
		fmt.Fprintf(b, "      - '%s'\n", c.text)
	}
	switch s.fan {
	case spec.FanMatrix:
		b.WriteString("    matrix: {a: [x, y]}\n")
	case spec.FanForeach:
		b.WriteString("    foreach: '[1, 2]'\n")
	case spec.FanRepeat:
		fmt.Fprintf(b, "    repeat: {max: 1, until: '%s'}\n", s.until.text)
	default:
	}
}

// outputs are what a step leaves, or each of its instances.
func (s *drawn) outputs(number int) string { return fmt.Sprintf(s.out, number) }

// earlierRun writes the run before.
func (g *graph) earlierRun(b *bench) {
	b.begin("r0")
	for _, s := range g.steps {
		rec := record.StepRecord{Step: s.id, Kind: s.kind, Status: spec.StatusDeclined}
		if s.wasThere() {
			rec.Status, rec.Outputs = spec.StatusSucceeded, json.RawMessage(s.outputs(s.number+earlier))
			if s.fan == spec.FanMatrix || s.fan == spec.FanForeach {
				rec.Outputs = json.RawMessage("[" + string(rec.Outputs) + "]")
			}
		}
		if err := b.engine.Store.PutJSON(b.Context(), record.StepKey("r0", s.id), rec, store.WriteOptions{}); err != nil {
			b.Fatal(err)
		}
	}
}

func (b *bench) runRecord(run string) record.RunRecord {
	b.Helper()
	var rec record.RunRecord
	if err := b.engine.Store.GetJSON(b.Context(), record.RunKey(run), &rec); err != nil {
		b.Fatal(err)
	}
	return rec
}

// walk ends a section's steps, each some time after those that the compiled graph has it wait for.
func (g *graph) walk(b *bench, section spec.Section) {
	var waiting []spec.Node
	for _, node := range b.program.Graph() {
		switch {
		case node.ID == "src" && section == spec.SectionMain:
			b.end("r1", "src", `{"model": {"type": "model", "digest": "sha256:1"}, "data": {"type": "dataset", "digest": "sha256:2"}}`)
		case node.Section == section:
			waiting = append(waiting, node)
		}
	}
	for len(waiting) > 0 {
		var ready []int
		for i, node := range waiting {
			if !slices.ContainsFunc(waiting, func(other spec.Node) bool { return slices.Contains(node.After, other.ID) }) {
				ready = append(ready, i)
			}
		}
		i := rapid.SampledFrom(ready).Draw(g.r, "next")
		s := g.steps[slices.IndexFunc(g.steps, func(s *drawn) bool { return s.id == waiting[i].ID })]
		waiting = slices.Delete(waiting, i, i+1)
		g.do(b, s)
	}
}

// do ends a step as the engine would, and compares what it makes of the gates with what it must.
func (g *graph) do(b *bench, s *drawn) {
	at := b.at("r1", s.id).StepRef
	in := contract.StepEnd{StepRef: at, Kind: s.kind, Status: s.status}
	if s.status == spec.StatusSucceeded || s.status == spec.StatusFailed && s.does {
		in.Status, in.Output.Outputs = spec.StatusSucceeded, json.RawMessage(s.outputs(s.number))
	}
	if s.fan == spec.FanNone || in.Status != spec.StatusSucceeded {
		word, err := b.engine.Verdict(b.Context(), in)
		if err != nil {
			g.r.Fatal(err)
		}
		g.compare(s, in, word)
		return
	}
	all, err := b.engine.Expand(b.Context(), b.at("r1", s.id))
	if err != nil {
		g.r.Fatal(err)
	}
	for i := range all.Of {
		in.Instance = &record.Instance{Index: i, List: all.List}
		word, err := b.engine.Verdict(b.Context(), in)
		untilFails := s.until != nil && s.until.want == spec.VerdictError
		if err != nil && !untilFails {
			g.r.Fatal(err)
		} else if err == nil {
			g.compare(s, in, word)
		}
	}
	in.Instance, in.Status = nil, s.status
	if _, err := b.engine.Gather(b.Context(), contract.GatherInput{StepEnd: in, Fan: s.fan, List: all.List, Of: all.Of}); err != nil {
		g.r.Fatal(err)
	}
}

func (g *graph) compare(s *drawn, in contract.StepEnd, word contract.StepVerdict) {
	if s.until != nil && word.Status == spec.StatusSucceeded && word.Done != (s.until.want == spec.VerdictPass) {
		g.r.Fatalf("`until` of %s: %t\n%s", s.id, word.Done, g.document())
	}
	if in.Status != spec.StatusSucceeded {
		return
	}
	if len(word.Checks) != len(s.gates) {
		g.r.Fatalf("%s has %d checks\n%s", s.id, len(word.Checks), g.document())
	}
	for i, c := range word.Checks {
		if c.Verdict != s.gates[i].want {
			g.r.Fatalf("%s: `%s` is %s, want %s; it saw %v: %s\n%s", s.id, c.Expression, c.Verdict, s.gates[i].want, c.Values, c.Error, g.document())
		}
	}
	want := spec.StatusSucceeded
	if slices.ContainsFunc(s.gates, func(c condition) bool { return c.want != spec.VerdictPass }) {
		want = spec.StatusFailed
	}
	if word.Status != want {
		g.r.Fatalf("%s ended as %s (%s), want %s\n%s", s.id, word.Status, word.Error, want, g.document())
	}
}
