package view

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/training/gpu"
	"github.com/sluiceml/sluice/training/protocol"
)

var update = flag.Bool("update", false, "write the golden files anew")

var noon = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// golden compares what a view writes with testdata/<name>.txt.
func golden(t *testing.T, name string, write func(w io.Writer) error) {
	t.Helper()
	var b bytes.Buffer
	if err := write(&b); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join("testdata", name+".txt")
	if *update {
		if err := os.WriteFile(path, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), b.String()); diff != "" {
		t.Errorf("%s (-want +got); -update writes it anew:\n%s", path, diff)
	}
}

// recordOf is a run as the report's fixtures have it.
type recordOf struct {
	Run   record.RunRecord
	Steps []record.StepRecord
}

func load(t *testing.T, name string) recordOf {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("..", "..", "..", "report", "testdata", name+".json"))
	if err != nil {
		t.Fatal(err)
	}
	var r recordOf
	if err := json.Unmarshal(raw, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSummary(t *testing.T) {
	for _, name := range []string{"promoted", "rolledback", "failed"} {
		r := load(t, name)
		golden(t, "summary-"+name, func(w io.Writer) error {
			end := record.RunOutput{Status: r.Run.Status, Error: r.Run.Error, ErrorType: r.Run.ErrorType}
			return errors.Join(Theme{}.Summary(w, Summary{Graph: r.Run.Graph, Steps: r.Steps}, noon), Theme{}.Ending(w, r.Run.Pipeline, end))
		})
	}
}

func TestShow(t *testing.T) {
	r := load(t, "failed")
	r.Steps[1] = record.StepRecord{Step: "mail", Kind: spec.KindClean, Status: spec.StatusRunning, StartedAt: noon.Add(-time.Second)}
	var b bytes.Buffer
	if err := (Theme{}).Show(&b, r.Run, Summary{Steps: r.Steps, Doing: map[string]Detail{"mail": {Text: "kept 12 rows\nand more"}}}, nil, noon); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"spam-filter  spam-filter-20260314-081500-0b0b\n", "✗ failed  21.0 s", "params   epochs = 4, min_f1 = 0.95\n", "● running       1.0 s  kept 12 rows\n"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}

func TestRecord(t *testing.T) {
	r := load(t, "promoted")
	got := NewRecord(r.Run, r.Steps, nil, noon)
	if diff := cmp.Diff([]string{"fetch", "mail", "fit", "pack", "score", "ship"}, got.Order); diff != "" {
		t.Error(diff)
	}
	score := got.Steps["score"]
	if diff := cmp.Diff(Attempts{Total: 2, ByErrorType: map[string]int{"infrastructure": 1}, Failed: r.Steps[4].Attempts}, score.Attempts); diff != "" {
		t.Error(diff)
	}
	if score.Seconds != 3.6 || score.Verdict != spec.VerdictPass || len(score.Checks) != 2 || got.Seconds != 117.4 {
		t.Errorf("%+v", score)
	}
	var fit struct {
		Generations   []any `json:"generations"`
		StepsLost     *int  `json:"steps_lost"`
		StepsRepeated *int  `json:"steps_repeated"`
	}
	if err := json.Unmarshal(got.Steps["fit"].Outputs, &fit); err != nil {
		t.Fatal(err)
	}
	if len(fit.Generations) != 3 || fit.StepsLost == nil || fit.StepsRepeated == nil {
		t.Errorf("%+v", fit)
	}
	failed := load(t, "failed")
	if total := NewRecord(failed.Run, failed.Steps, nil, noon).Steps["ship"].Attempts.Total; total != 0 {
		t.Errorf("a step that never ran has %d attempts", total)
	}
}

func TestOverlay(t *testing.T) {
	steps := []record.StepRecord{{Step: "a", Status: spec.StatusSucceeded}, {Step: "b", Status: spec.StatusPending}, {Step: "c", Status: spec.StatusPending}}
	Overlay(steps, contract.RunState{Steps: []contract.StepState{
		{ID: "a", Status: spec.StatusRunning}, {ID: "b", Status: spec.StatusRunning, StartedAt: noon}, {ID: "c", Status: spec.StatusPending},
	}})
	want := []record.StepRecord{
		{Step: "a", Status: spec.StatusSucceeded}, {Step: "b", Status: spec.StatusRunning, StartedAt: noon}, {Step: "c", Status: spec.StatusPending},
	}
	if diff := cmp.Diff(want, steps); diff != "" {
		t.Error(diff)
	}
}

func TestRuns(t *testing.T) {
	local := time.Local
	time.Local = time.UTC
	defer func() { time.Local = local }()
	ok, bad := load(t, "promoted"), load(t, "rolledback")
	golden(t, "runs", func(w io.Writer) error {
		return Theme{}.Runs(w, []Listed{{RunRecord: bad.Run}, {RunRecord: ok.Run}}, noon)
	})
}

func TestPlan(t *testing.T) {
	p := &spec.Pipeline{
		Name:   "spam-filter",
		Params: map[string]spec.Param{"epochs": {Type: "int", Default: 4}, "key": {Type: "string"}, "n": {Type: "int", Default: 1}, "size": {Type: "string"}, "note": {Type: "string", Required: new(bool)}},
		Steps: spec.Steps{
			{ID: "mail", Kind: spec.KindClean, Envelope: spec.Envelope{
				Gate:    []spec.Gate{{Check: "rows.kept >= 4000"}, {Check: "rows.rejected == 0", OnFail: spec.OnFailStop}},
				Publish: map[string]string{"dataset": "spam-mail"},
			}},
			{ID: "fit", Kind: spec.KindTrain},
			{ID: "score", Kind: spec.KindEvaluate},
			{ID: "page", Kind: spec.KindRun, Envelope: spec.Envelope{When: "params.key != ''"}},
		},
	}
	graph := []spec.Node{
		{ID: "mail", Kind: spec.KindClean},
		{ID: "fit", Kind: spec.KindTrain, Needs: map[string]spec.Need{"mail": spec.NeedPassed}, After: []string{"mail"}},
		{ID: "score", Kind: spec.KindEvaluate, Needs: map[string]spec.Need{"fit": spec.NeedPassed, "mail": spec.NeedPassed}, After: []string{"fit", "mail"}},
		{ID: "page", Kind: spec.KindRun, Needs: map[string]spec.Need{"mail": spec.NeedFailed}, After: []string{"mail"}},
	}
	planned := contract.Plan{Given: map[string]string{"n": "2", "size": "large"}}
	golden(t, "plan", func(w io.Writer) error { return Theme{}.Plan(w, NewPlan(program{p, graph}, planned)) })
}

// program is one that was not compiled.
type program struct {
	pipeline *spec.Pipeline
	graph    []spec.Node
}

func (p program) Pipeline() *spec.Pipeline { return p.pipeline }
func (p program) Graph() []spec.Node       { return p.graph }

func (program) Unset(id string) []spec.Unset {
	if id == "score" {
		return nil
	}
	return []spec.Unset{{Key: "timeout", Value: "24h"}, {Key: "max_parallel", Value: "64"}}
}

func (program) Expand(string, spec.Vars) ([]spec.Instance, error) {
	return nil, errors.New("not compiled")
}

func TestHealth(t *testing.T) {
	golden(t, "health", func(w io.Writer) error {
		return Theme{}.Health(w, []Finding{
			{Name: "bash", Detail: "/usr/bin/bash"},
			{Name: "port 8080", State: Note, Detail: "in use", Help: "end the program"},
			{Name: "torch", State: Missing, Detail: "cannot be imported\nfor two reasons", Help: "install it"},
		})
	})
}

func TestDetails(t *testing.T) {
	busy, idle := 0.9, 0.0
	for _, c := range []struct {
		got  Detail
		want Detail
	}{
		{
			TrainDetail(spec.KindTrain, contract.TrainState{Generation: 2, Phase: "running", Nodes: []string{"a", "b"}},
				[]protocol.TrainProgress{{Generation: 2, Node: 1, Step: 120}, {Generation: 2, Step: 140, Of: 520, Loss: 0.21034, StepsPerSecond: 11.04}}),
			Detail{"generation 2 · 2 nodes · step 140/520 · loss 0.2103 · 11.0 steps/s", 140.0 / 520},
		},
		{ // progress of the generation before says nothing of this one
			TrainDetail(spec.KindTrain, contract.TrainState{Generation: 3, Phase: "preparing", Nodes: []string{"a"}}, []protocol.TrainProgress{{Generation: 2, Step: 140, Of: 520}}),
			Detail{"generation 3 preparing · 1 node", -1},
		},
		{ // nothing of what happens to this generation now
			TrainDetail(spec.KindTrain, contract.TrainState{Generation: 2, Phase: "stopping", Nodes: []string{"a"}, Ended: []spec.Generation{{Index: 1, End: spec.EndNodeLost, Reason: "node 0 is gone"}}}, nil),
			Detail{"generation 2 stopping · 1 node", -1},
		},
		{
			TrainDetail(spec.KindTrain, contract.TrainState{Generation: 5, Phase: "acquiring: no capacity", Ended: []spec.Generation{{Index: 4, End: spec.EndNotice}}}, nil),
			Detail{"generation 5 acquiring: no capacity · after generation 4 ended: spot notice", -1},
		},
		{ // why there is another generation, until its ranks run
			TrainDetail(spec.KindTrain, contract.TrainState{Generation: 2, Phase: "preparing", Nodes: []string{"a"}, Ended: []spec.Generation{{Index: 1, End: spec.EndNodeLost, Reason: "node 0 is gone"}}}, nil),
			Detail{"generation 2 preparing · 1 node · after generation 1 ended: node lost, node 0 is gone", -1},
		},
		{
			TrainDetail(spec.KindTrain, contract.TrainState{Generation: 2, Phase: "running", Nodes: []string{"a"}, Ended: []spec.Generation{{Index: 1, End: spec.EndNodeLost, Reason: "node 0 is gone"}}}, nil),
			Detail{"generation 2 · 1 node", -1},
		},
		{
			TrainDetail(spec.KindTrain, contract.TrainState{Generation: 1}, []protocol.TrainProgress{
				{Generation: 1, Node: 2, Idle: "the GPUs were busy 3% of the last 10m"},
				{Generation: 1, Node: 1, GPUs: []gpu.Reading{{Utilization: &idle, Memory: 40 << 30, MemoryUsed: 1 << 30, Temperature: 70, Throttled: []string{"thermal", "power"}}}},
				{Generation: 1, GPUs: []gpu.Reading{{Utilization: &busy, Memory: 40 << 30, MemoryUsed: 31 << 30, Temperature: 61}}},
				{Generation: 1, Node: 3, Idle: "the GPUs were busy 4% of the last 10m"},
			}),
			Detail{"generation 1 · 2 GPUs 45%, 31 GiB of 40 GiB, 70 °C, slowed by power, thermal · idle: node 2: the GPUs were busy 3% of the last 10m, and so on 1 other node", -1},
		},
		{ // of an instance the driver knows its memory alone
			TrainDetail(spec.KindTrain, contract.TrainState{Generation: 1}, []protocol.TrainProgress{{Generation: 1, GPUs: []gpu.Reading{{Memory: 5 << 30, MemoryUsed: 1 << 30}}, Idle: "yes"}}),
			Detail{"generation 1 · GPU 1.0 GiB of 5.0 GiB · idle: yes", -1},
		},
		{
			TrainDetail(spec.KindClean, contract.TrainState{Generation: 2, Phase: "running", Nodes: []string{"a"}}, []protocol.TrainProgress{
				{Generation: 2, Doing: &protocol.Progress{Text: "cleaning · 2,000 rows read", Share: 0.25}},
			}),
			Detail{"generation 2 · 1 node · cleaning · 2,000 rows read", 0.25},
		},
		{
			TrainDetail(spec.KindTrain, contract.TrainState{Generation: 1}, []protocol.TrainProgress{{Generation: 1, Step: 8, Risk: "EC2 recommends to rebalance since 14:02 UTC"}}),
			Detail{"generation 1 · step 8 · at risk: EC2 recommends to rebalance since 14:02 UTC", -1},
		},
		{
			TrainDetail(spec.KindTrain, contract.TrainState{Generation: 1}, []protocol.TrainProgress{
				{Generation: 1, Step: 8}, {Generation: 1, Node: 1, CommitError: "commit step-5: no space left"}, {Generation: 1, Node: 2, CommitError: "commit step-5: no space left"},
			}),
			Detail{"generation 1 · step 8 · checkpoints fail: node 1: commit step-5: no space left, and so on 1 other node", -1},
		},
		{
			TrainDetail(spec.KindTrain, contract.TrainState{Generation: 1}, []protocol.TrainProgress{{Generation: 1, Step: 8, Hang: "no new step, output or file for 30m0s after step 8"}}),
			Detail{"generation 1 · step 8 · hangs: no new step, output or file for 30m0s after step 8", -1},
		},
		{
			TrainDetail(spec.KindTrain, contract.TrainState{Generation: 1}, []protocol.TrainProgress{
				{Generation: 1, Step: 8, Work: &protocol.StepWork{Rank: 0, Seconds: 0.2, Steps: 20}}, {Generation: 1, Node: 1, Work: &protocol.StepWork{Rank: 9, Seconds: 0.42, Steps: 20}},
			}),
			Detail{"generation 1 · step 8 · slow: node 1: rank 9 works 0.42 s on a step, those of the other nodes 0.2 s", -1},
		},
		{TrainDetail(spec.KindTrain, contract.TrainState{}, nil).With(""), Detail{"generation 1", -1}},
		{
			TrainDetail(spec.KindTrain, contract.TrainState{Generation: 2, Phase: "sealing"}, nil).With("attempt 3 after: no space left"),
			Detail{"generation 2 sealing · attempt 3 after: no space left", -1},
		},
		{
			RolloutDetail(contract.RolloutState{Phase: "stage", Stage: 2, Stages: 4, Weight: 0.1, Look: &spec.Look{
				Candidate: spec.SideCounts{Requests: 312}, EValue: 0.4, Reason: "88 more answers are needed",
			}}),
			Detail{"stage 2/4 10% · 312 answers · e-value 0.4 · 88 more answers are needed", -1},
		},
		{RolloutDetail(contract.RolloutState{Phase: "stage", Stage: 1, Stages: 4, Shadow: 1}), Detail{"stage 1/4 shadow 100%", -1}},
		{RolloutDetail(contract.RolloutState{Phase: "rolling back"}), Detail{"rolling back", -1}},
		{RolloutDetail(contract.RolloutState{}), Detail{"", -1}},
	} {
		if diff := cmp.Diff(c.want, c.got); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

// rowsAt are the rows of a run in three moments.
func rowsAt(moment int) []Row {
	row := func(id string, kind spec.Kind, status spec.Status) Row {
		r := Row{StepState: contract.StepState{ID: id, Kind: kind, Status: status}, Detail: Detail{Share: -1}}
		if status != spec.StatusPending {
			r.StartedAt = noon
		}
		if status == spec.StatusSucceeded || status == spec.StatusFailed {
			r.EndedAt = noon.Add(12400 * time.Millisecond)
		}
		return r
	}
	mail, fit, ship := row("mail", spec.KindClean, spec.StatusSucceeded), row("fit", spec.KindTrain, spec.StatusRunning), row("ship", spec.KindRollout, spec.StatusPending)
	mail.Summary = "rows.kept >= 4000: rows.kept = 5689"
	fit.Detail = Detail{fmt.Sprintf("generation %d · 2 nodes · step %d/520", 1+moment/2, 100+moment), 0.25}
	if moment == 3 {
		fit = row("fit", spec.KindTrain, spec.StatusFailed)
		fit.Summary = "`python3 train.py` ended with exit code 1\nTraceback"
		ship.Status, ship.StartedAt, ship.EndedAt, ship.Summary = spec.StatusUpstream, noon, noon, "not run: it needs `fit: passed`"
	}
	return []Row{mail, fit, ship}
}

func TestTable(t *testing.T) {
	golden(t, "table", func(w io.Writer) error {
		for moment := range 4 {
			for _, line := range (Theme{}).Table(rowsAt(moment), noon.Add(time.Minute), 100, 20, 0) {
				fmt.Fprintln(w, line)
			}
			fmt.Fprintln(w)
		}
		return nil
	})
}

func TestPlain(t *testing.T) {
	golden(t, "plain", func(w io.Writer) error {
		p := NewPlain(w, noon)
		for _, at := range []struct {
			moment int
			after  time.Duration
		}{{0, 13}, {0, 14}, {1, 15}, {1, 24}, {2, 25}, {2, 26}, {3, 27}, {3, 28}} {
			if err := p.Show(rowsAt(at.moment), noon.Add(at.after*time.Second)); err != nil {
				return err
			}
		}
		return nil
	})
}

// A rollout says how far its evidence is from what takes it back; a run of an earlier version of Sluice does not know.
func TestRolloutDetailNamesItsLimit(t *testing.T) {
	state := contract.RolloutState{Phase: "stage", Stage: 1, Stages: 2, Weight: 0.1, Look: &spec.Look{Candidate: spec.SideCounts{Requests: 312}, EValue: 0.9524, Alpha: 0.01}}
	got := []string{RolloutDetail(state).Text}
	state.Look.Alpha = 0
	got = append(got, RolloutDetail(state).Text)
	state.Look.EValue, state.Look.Alpha = 2e7, 0.01 // the candidate is better: only a worse one is rolled back
	got = append(got, RolloutDetail(state).Text)
	want := []string{
		"stage 1/2 10% · 312 answers · e-value 0.9524, rolls back at 100", "stage 1/2 10% · 312 answers · e-value 0.9524",
		"stage 1/2 10% · 312 answers · e-value 20,000,000, in favour of the candidate",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// A step that is tried again says why: on the line it has, and as a line of a log.
func TestAttemptSaysWhy(t *testing.T) {
	row := Row{
		StepState: contract.StepState{ID: "a", Kind: spec.KindRun, Status: spec.StatusRunning, StartedAt: noon, Attempt: 2, Before: "no space left on device\nat line 3"},
		Detail:    Detail{Share: -1},
	}
	said := row
	said.Detail.Text = "row 7"
	var log strings.Builder
	if err := NewPlain(&log, noon).Show([]Row{row}, noon.Add(time.Second)); err != nil {
		t.Fatal(err)
	}
	got := append(Theme{}.Table([]Row{row, said}, noon.Add(time.Second), 90, 9, 0), log.String())
	want := []string{
		"  ● a     run      1.0 s  attempt 2 after: no space left on device",
		"  ● a     run      1.0 s  attempt 2 after: no space left on device · row 7",
		"   1.0 s  a running: attempt 2 after: no space left on device\n",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// Between two generations the bar of a training stays where it was.
func TestLiveKeepsTheBarOfATraining(t *testing.T) {
	var b strings.Builder
	live := NewLive(&b, Theme{Terminal: true}, func() (int, int) { return 100, 24 })
	for _, detail := range []Detail{{"step 50/100", 0.5}, {"generation 2 acquiring", -1}} {
		b.Reset()
		row := Row{contract.StepState{ID: "fit", Kind: spec.KindTrain, Status: spec.StatusRunning, StartedAt: noon}, detail}
		if err := live.Show([]Row{row}, nil, noon.Add(time.Second)); err != nil {
			t.Fatal(err)
		}
	}
	if want := "━━━━━━━━──────── generation 2 acquiring"; !strings.Contains(b.String(), want) {
		t.Errorf("%q has no %q", b.String(), want)
	}
}

func TestTableFits(t *testing.T) {
	statuses := []spec.Status{
		spec.StatusPending, spec.StatusRunning, spec.StatusSucceeded, spec.StatusFailed, spec.StatusDeclined, spec.StatusSkipped,
		spec.StatusUpstream, spec.StatusCanceled,
	}
	rapid.Check(t, func(t *rapid.T) {
		rows := make([]Row, rapid.IntRange(1, 30).Draw(t, "steps"))
		running := 0
		for i := range rows {
			rows[i].ID, rows[i].Kind = rapid.StringMatching(`[a-z][a-z0-9_]{0,9}`).Draw(t, "id"), spec.KindEvaluate
			rows[i].Status = rapid.SampledFrom(statuses).Draw(t, "status")
			rows[i].Summary = rapid.String().Draw(t, "summary")
			rows[i].Detail = Detail{rapid.String().Draw(t, "detail"), rapid.Float64Range(-1, 2).Draw(t, "share")}
			if rows[i].Status == spec.StatusRunning {
				running++
			}
		}
		width, height := rapid.IntRange(40, 200).Draw(t, "width"), rapid.IntRange(2, 40).Draw(t, "height")
		lines := Theme{Terminal: true}.Table(rows, noon, width, height, 3)
		if len(lines) > height {
			t.Fatalf("%d lines on a terminal with room for %d", len(lines), height)
		}
		for _, line := range lines {
			if n := human.Width(line); n > width || strings.ContainsAny(line, "\x1b\n\r") {
				t.Fatalf("%d cells in %q, room for %d", n, line, width)
			}
		}
		if shown := strings.Count(strings.Join(lines, ""), string(spinner[3])); running <= height-1 && shown < running {
			t.Fatalf("%d of %d running steps are shown", shown, running)
		}
	})
}

// screen is a terminal that knows what Live writes, and nothing else.
type screen struct {
	lines []string
	y     int
}

func (s *screen) write(t *testing.T, text string) {
	t.Helper()
	for text != "" {
		var n int
		switch {
		case strings.HasPrefix(text, "\x1b[?"):
			_, text, _ = strings.Cut(text[3:], text[strings.IndexAny(text, "hl"):][:1])
		case strings.HasPrefix(text, "\x1b[K"):
			text = text[3:] // the line was written from its start, so that what is left of it is old
		case strings.HasPrefix(text, "\x1b[J"):
			s.lines, text = s.lines[:s.y], text[3:]
		case strings.HasPrefix(text, "\x1b["):
			if _, err := fmt.Sscanf(text, "\x1b[%dA", &n); err != nil {
				t.Fatalf("unknown sequence in %q", text)
			}
			if s.y -= n; s.y < 0 {
				t.Fatal("the cursor left the table")
			}
			_, text, _ = strings.Cut(text, "A")
		case text[0] == '\r':
			text = text[1:]
		default:
			line, rest, _ := strings.Cut(text, "\n")
			if s.y == len(s.lines) {
				s.lines = append(s.lines, "")
			}
			s.lines[s.y], text = strings.TrimSuffix(line, "\x1b[K"), rest
			s.y++
		}
	}
}

func TestLiveDrawsOverItself(t *testing.T) {
	var b bytes.Buffer
	live := NewLive(&b, Theme{Terminal: true}, func() (int, int) { return 100, 24 })
	s := &screen{}
	for moment, notes := range [][]string{nil, {"fit waits", "sluice approve"}, {"canceling"}, nil} {
		if err := live.Show(rowsAt(moment), notes, noon.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		s.write(t, b.String())
		b.Reset()
		want := Theme{Terminal: true}.Table(rowsAt(moment), noon.Add(time.Minute), 99, 21, moment)
		if notes != nil {
			want = append(append(want, ""), notes...)
		}
		if diff := cmp.Diff(want, s.lines); diff != "" {
			t.Fatalf("frame %d (-want +got):\n%s", moment, diff)
		}
	}
	if err := live.Clear(); err != nil {
		t.Fatal(err)
	}
	if s.write(t, b.String()); len(s.lines) != 0 || s.y != 0 {
		t.Errorf("left on the terminal: %q", s.lines)
	}
}

// TestMarks: every status has a sign and a style. The constants are read from their source, so that none is forgotten.
func TestMarks(t *testing.T) {
	source, err := os.ReadFile("../../../dsl/spec/result.go")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^\tStatus\w+ +Status = "(\w+)"`).FindAllSubmatch(source, -1)
	for _, status := range found {
		if glyph, style := mark(spec.Status(status[1])); glyph == "?" || style == "" {
			t.Errorf("%s is marked by %q in style %q", status[1], glyph, style)
		}
	}
}

func TestThemeOf(t *testing.T) {
	if got := ThemeOf(new(bytes.Buffer)); got != (Theme{}) {
		t.Errorf("a buffer is %+v", got)
	}
	f, err := os.Create(filepath.Join(t.TempDir(), "file"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if got := ThemeOf(f); got != (Theme{}) {
		t.Errorf("a file is %+v", got)
	}
	if got := (Theme{Color: true}).paint(red, "x"); got != "\x1b[31mx\x1b[0m" {
		t.Errorf("%q", got)
	}
}

type broken struct{}

func (broken) Write([]byte) (int, error) { return 0, io.ErrClosedPipe }

func TestWriteErrors(t *testing.T) {
	r := load(t, "promoted")
	for name, err := range map[string]error{
		"summary": Theme{}.Summary(broken{}, Summary{Steps: r.Steps}, noon),
		"show":    Theme{}.Show(broken{}, r.Run, Summary{Steps: r.Steps}, nil, noon),
		"runs":    Theme{}.Runs(broken{}, nil, noon),
		"plain":   NewPlain(broken{}, noon).Show(rowsAt(0), noon),
		"json":    JSON(broken{}, 1),
		"event":   Event(broken{}, "started", nil),
	} {
		if !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFold(t *testing.T) {
	tests := []struct {
		name, line    string
		width, indent int
		want          []string
	}{
		{"no terminal", "a line that is not folded at all, however long it may be", 0, 2, []string{"a line that is not folded at all, however long it may be"}},
		{"between words", "one two three four five six", 24, 4, []string{"one two three four five", "    six"}},
		{"what is aligned stays so", "one       ✓ two three four", 24, 4, []string{"one       ✓ two three", "    four"}},
		{"a word that is too long", "at http://127.0.0.1:8080/v2/models/spam now", 24, 2, []string{"at", "  http://127.0.0.1:8080/v2/models/spam", "  now"}},
		{"colours have no width", "\x1b[1mone two\x1b[0m three four five six", 24, 4, []string{"\x1b[1mone two\x1b[0m three four five", "    six"}},
		{"no room after the indent", "one two three four five six", 24, 20, []string{"one two three four five six"}},
		{"nothing", "", 24, 2, []string{""}},
	}
	for _, tt := range tests {
		if diff := cmp.Diff(tt.want, fold(tt.line, tt.width, tt.indent)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", tt.name, diff)
		}
	}
}

func TestTables(t *testing.T) {
	train := spec.TrainOutput{Steps: 60, Generations: []spec.Generation{
		{Index: 1, Nodes: 2, ToStep: 40, CommittedStep: 30, StepsLost: 10, StepsAtLeast: true, End: spec.EndNodeLost, StartedAt: noon, EndedAt: noon.Add(time.Minute), Reason: "node 1 went away"},
		{Index: 2, Nodes: 2, FromStep: 30, ToStep: 60, CommittedStep: 60, End: spec.EndFinished, StartedAt: noon, EndedAt: noon.Add(time.Second)},
	}}
	clean := spec.CleanOutput{Rules: map[string]spec.Rule{"short": {Dropped: 3}, "ads": {Dropped: 1200}}, Reasons: map[string]int64{"cost": 1}}
	golden(t, "step-tables", func(w io.Writer) error {
		out := &writer{w: w}
		raw, err := json.Marshal(train)
		Theme{}.outputs(out, spec.KindTrain, raw)
		Theme{}.losses(out, clean)
		return errors.Join(out.err, err)
	})
}
