package view

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/report"
)

// outputs writes a step's outputs as JSON; the profile of a dataset, what its rules left out and the generations of a training as tables.
func (t Theme) outputs(out *writer, kind spec.Kind, raw json.RawMessage) {
	var tables []string // keys of which --format json has the rest
	var fields map[string]json.RawMessage
	switch {
	case json.Unmarshal(raw, &fields) != nil:
	case kind == spec.KindClean:
		var cleaned spec.CleanOutput
		if json.Unmarshal(raw, &cleaned) == nil {
			t.columns(out, "column", cleaned.Profile, cleaned.Moved())
			t.profiles(out, cleaned.Profiles)
			t.losses(out, cleaned)
		}
		tables = []string{"profile", "profiles", "drift", "statistics", "rules", "reasons"}
	case kind == spec.KindTrain:
		t.generations(out, kind, raw)
		tables = []string{"generations", "ledger", "outcomes", "costs", "nodes"}
	}
	if tables != nil {
		maps.DeleteFunc(fields, func(key string, _ json.RawMessage) bool { return slices.Contains(tables, key) })
		raw, _ = json.Marshal(fields)
	}
	pretty, err := json.MarshalIndent(raw, "  ", "  ")
	if err != nil || len(raw) == 0 {
		return
	}
	out.line()
	out.line(t.paint(faint, "outputs"))
	out.line("  ", strings.TrimSpace(human.Printable(string(pretty))))
}

// losses writes which rules of a cleaning dropped rows, and for which reasons rows were rejected, the largest first.
func (t Theme) losses(out *writer, cleaned spec.CleanOutput) {
	if len(cleaned.Rules)+len(cleaned.Reasons) == 0 {
		return
	}
	dropped := map[string]int64{}
	width := len("rule or reason")
	for name, rule := range cleaned.Rules {
		dropped[name], width = rule.Dropped, max(width, len(name))
	}
	for name := range cleaned.Reasons {
		width = max(width, len(name))
	}
	var rows [][]string
	for _, part := range []struct {
		counts map[string]int64
		what   string
	}{{dropped, "dropped"}, {cleaned.Reasons, "rejected"}} {
		names := slices.SortedFunc(maps.Keys(part.counts), func(a, b string) int {
			return cmp.Or(cmp.Compare(part.counts[b], part.counts[a]), cmp.Compare(a, b))
		})
		for _, name := range names {
			rows = append(rows, []string{pad(human.Line(name), width), lead(human.Count(part.counts[name]), 12), "  " + part.what})
		}
	}
	out.line()
	out.padded(t, []string{pad("rule or reason", width), lead("rows", 12)}, rows)
}

// generations writes those of a training, or of a step of another kind on nodes of a pool, a line each.
func (t Theme) generations(out *writer, kind spec.Kind, raw json.RawMessage) {
	var trained spec.TrainOutput
	if json.Unmarshal(raw, &trained) != nil || len(trained.Generations) == 0 {
		return
	}
	paid := slices.ContainsFunc(trained.Generations, func(g spec.Generation) bool { return g.CostUSD > 0 })
	steps := report.HasSteps(kind, trained.Generations)
	head := []string{"generation", "  nodes"}
	if steps {
		head = append(head, "  from step", "    to step", "  committed", "       lost")
	}
	head = append(head, "      time")
	if paid {
		head = append(head, lead("cost", 10))
	}
	var rows [][]string
	for _, g := range trained.Generations {
		lost := human.Count(g.StepsLost)
		if g.StepsAtLeast {
			lost = "≥ " + lost
		}
		row := []string{lead(fmt.Sprint(g.Index), 10), lead(fmt.Sprint(g.Nodes), 7)}
		if steps {
			row = append(row, lead(human.Count(g.FromStep), 11), lead(human.Count(g.ToStep), 11), lead(human.Count(g.CommittedStep), 11), lead(lost, 11))
		}
		row = append(row, lead(human.Duration(g.EndedAt.Sub(g.StartedAt)), 10))
		if paid {
			row = append(row, lead(dollars(g.CostUSD), 10))
		}
		end := "  " + report.EndWord(kind, g.End)
		if g.Reason != "" {
			end += t.paint(faint, "  "+human.Line(g.Reason))
		}
		if g.Slow != "" {
			end += t.paint(faint, "  slow: "+human.Line(g.Slow))
		}
		rows = append(rows, append(row, end))
	}
	out.line()
	out.padded(t, append(head, "  ended"), rows)
}
