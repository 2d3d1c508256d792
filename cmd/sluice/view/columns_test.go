package view

import (
	"bytes"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store/record"
)

// A terminal that is too narrow gets the words of what a pipe gets, and none of its lines is wider than it.
func TestNarrowTerminal(t *testing.T) {
	number := 12345.678
	column := spec.ColumnProfile{Types: []string{"double"}, Mean: &number, P01: &number, P50: &number, P99: &number, Distinct: 1234567, Nulls: 7654321}
	profile := spec.Profile{Columns: map[string]spec.ColumnProfile{"kilometres_of_the_way": column, "label": {Types: []string{"string"}, Distinct: 2}}}
	raw := func(v any) json.RawMessage {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	cleaned := raw(map[string]any{
		"profile": profile, "drift": spec.Drift{Columns: map[string]spec.ColumnDrift{"label": {PSI: 0.25}}},
		"reasons": map[string]int{"read/parcels.csv: field km: type conversion error from 'string' to 'double'": 3, "types/type": 1},
	})
	trained := raw(spec.TrainOutput{Generations: []spec.Generation{
		{
			Index: 1, Nodes: 16, FromStep: 0, ToStep: 1234567, CommittedStep: 1234000, StepsLost: 567, StepsAtLeast: true, CostUSD: 1234.5, EndedAt: time.Unix(9, 0), StartedAt: time.Unix(1, 0),
			End: spec.EndNodeLost, Reason: "node 0 is gone: its machine was taken away", Slow: "node 3 took 3 times as long as the others",
		},
		{Index: 2, Nodes: 8, FromStep: 1234000, ToStep: 2234567, CommittedStep: 2234567, CostUSD: 3, EndedAt: time.Unix(9, 0), StartedAt: time.Unix(1, 0), End: spec.EndFinished},
	}})
	step := func(kind spec.Kind, out json.RawMessage) func(Theme, io.Writer) error {
		return func(theme Theme, w io.Writer) error {
			v := StepView{Run: record.RunRecord{Run: "spam-1"}, Node: spec.Node{ID: "fit", Kind: kind}}
			v.Step = record.StepRecord{Step: "fit", Kind: kind, Status: spec.StatusSucceeded, StartedAt: noon, EndedAt: noon.Add(time.Minute), Outputs: out}
			return theme.Step(w, v, noon)
		}
	}
	run, steps := fanned()
	long := strings.Repeat("a long text ", 12)
	plan := Plan{
		Name: "spam", Params: map[string]spec.Param{"rate": {Type: "float", Default: long}},
		Steps: []PlanStep{{
			ID: "fit", Kind: spec.KindTrain, Wave: 1, Needs: map[string]spec.Need{"mail": spec.NeedPassed}, When: spec.Expr(long), Fan: spec.FanForeach, FanOf: long,
			Gate: []spec.Gate{{Check: spec.Expr(long), OnFail: spec.OnFailHold}}, Publish: map[string]string{"model": "spam"},
			Defaults: []spec.Unset{{Key: "timeout", Value: "none"}, {Key: "attempts", Value: "three"}, {Key: "one", Value: long}},
			Plan:     contract.StepPlan{Action: contract.ActionRun, Reason: long},
		}},
	}
	trigger := contract.Trigger{Name: "nightly-training", Kind: "schedule", Next: []time.Time{noon}, Runs: []contract.TriggerRun{{Run: "spam-filter-20260314-1200", Status: spec.StatusFailed, At: noon, Error: long}}}
	trigger.Look = &contract.TriggerLook{At: noon, Error: long}
	for name, write := range map[string]func(Theme, io.Writer) error{
		"profile, rules and reasons": step(spec.KindClean, cleaned),
		"generations":                step(spec.KindTrain, trained),
		"instances": func(theme Theme, w io.Writer) error {
			return theme.Step(w, StepView{Run: run, Node: run.Graph[1], Step: steps[1], Instances: instances(), Total: 40}, noon)
		},
		"plan":  func(theme Theme, w io.Writer) error { return theme.Plan(w, plan) },
		"codes": func(theme Theme, w io.Writer) error { return theme.Codes(w, document.Codes()) },
		"code": func(theme Theme, w io.Writer) error {
			return theme.Code(w, document.Code{Name: "odd", Title: long, Text: long})
		},
		"triggers": func(theme Theme, w io.Writer) error { return theme.Triggers(w, []contract.Trigger{trigger}, noon) },
		"trigger":  func(theme Theme, w io.Writer) error { return theme.Trigger(w, trigger) },
	} {
		var wide, narrow bytes.Buffer
		if err := write(Theme{}, &wide); err != nil {
			t.Fatal(err)
		}
		if err := write(Theme{Width: 80}, &narrow); err != nil {
			t.Fatal(err)
		}
		for line := range strings.Lines(narrow.String()) {
			if got := human.Width(strings.TrimSuffix(line, "\n")); got > 80 && !strings.Contains(line, `"`) { // JSON is for copying
				t.Errorf("%s: a line has %d columns: %s", name, got, line)
			}
		}
		if diff := cmp.Diff(strings.Fields(wide.String()), strings.Fields(narrow.String())); diff != "" {
			t.Errorf("%s (-wide +narrow):\n%s", name, diff)
		}
	}
}

func TestColumns(t *testing.T) {
	const digest = "sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"
	for name, tt := range map[string]struct {
		width int
		rows  [][]string
		want  []string
	}{
		"wide enough": {40, [][]string{{"run", "size"}, {"spam-1", "12 B"}}, []string{"run     size", "spam-1  12 B"}},
		"a long text": {
			40,
			[][]string{{"revision", "change"}, {"3", "release 4 gets 10% and release 3 gets 90%"}},
			[]string{"revision  change", "3         release 4 gets 10% and release", "          3 gets 90%"},
		},
		"too many columns": {
			40,
			[][]string{{"name", "version", "published", "run"}, {"mail", "0123abcd", "2026-03-14 12:00 UTC", "spam-1/clean"}, {"label", "77", "2026-03-15 12:00 UTC"}},
			[]string{
				"name   version   published", "    run",
				"mail   0123abcd  2026-03-14 12:00 UTC", "    spam-1/clean",
				"label  77        2026-03-15 12:00 UTC",
			},
		},
		"names and values": {
			80,
			[][]string{{"mail@0123abcd"}, {"digest", digest}, {"created by", "spam-1/clean"}},
			[]string{"mail@0123abcd", "digest", "    " + digest, "created by  spam-1/clean"},
		},
		"no terminal": {0, [][]string{{"", "old", "new"}, {"size", strings.Repeat("x", 90), "y"}}, []string{"      old" + strings.Repeat(" ", 89) + "new", "size  " + strings.Repeat("x", 90) + "  y"}},
	} {
		t.Run(name, func(t *testing.T) {
			var b bytes.Buffer
			if err := (Theme{Width: tt.width}).Columns(&b, tt.rows); err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, slices.Collect(strings.Lines(b.String())), cmp.Transformer("trim", func(s string) string { return strings.TrimSuffix(s, "\n") })); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
