package view

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/human"
)

// Plan is a pipeline as `sluice plan` shows it.
type Plan struct {
	Name   string               `json:"name"`
	Params map[string]dsl.Param `json:"params,omitempty"`
	// Steps in the order they may start.
	Steps []PlanStep `json:"steps"`
}

// PlanStep is a step of a Plan.
type PlanStep struct {
	ID   string   `json:"id"`
	Kind dsl.Kind `json:"kind"`
	// Wave counts from 1: a step starts after all that it needs of earlier waves. Steps of one wave run side by side.
	Wave    int                 `json:"wave"`
	Needs   map[string]dsl.Need `json:"needs,omitempty"`
	When    dsl.Expr            `json:"when,omitempty"`
	Gate    []dsl.Gate          `json:"gate,omitempty"`
	Retry   int                 `json:"attempts,omitempty"`
	Timeout dsl.Duration        `json:"timeout,omitempty"`
	Publish map[string]string   `json:"publish,omitempty"`
}

// NewPlan puts a plan together from a pipeline and its graph in topological order.
func NewPlan(p *dsl.Pipeline, graph []dsl.Node) Plan {
	plan := Plan{Name: p.Name, Params: p.Params}
	waves := map[string]int{}
	for _, node := range graph {
		step := PlanStep{ID: node.ID, Kind: node.Kind, Wave: 1, Needs: node.Needs, Timeout: node.Timeout, Retry: node.Retry.Attempts}
		for _, need := range node.After {
			step.Wave = max(step.Wave, waves[need]+1)
		}
		waves[node.ID] = step.Wave
		if i := slices.IndexFunc(p.Steps, func(s dsl.Step) bool { return s.ID == node.ID }); i >= 0 {
			step.When, step.Gate, step.Publish = p.Steps[i].When, p.Steps[i].Gate, p.Steps[i].Publish
		}
		plan.Steps = append(plan.Steps, step)
	}
	slices.SortStableFunc(plan.Steps, func(a, b PlanStep) int { return cmp.Compare(a.Wave, b.Wave) })
	return plan
}

// Plan writes a plan for people: steps by wave, with kinds, needs and gates.
func (t Theme) Plan(w io.Writer, p Plan) error {
	out := writer{w: w}
	out.line(t.paint(bold, p.Name))
	for _, name := range slices.Sorted(maps.Keys(p.Params)) {
		param := p.Params[name]
		line := "  param " + name + " " + t.paint(faint, param.Type)
		if param.Default != nil {
			line += t.paint(faint, " = "+human.Value(param.Default))
		}
		out.line(line)
	}
	ids, kinds := 0, 0
	for _, s := range p.Steps {
		ids, kinds = max(ids, len(s.ID)), max(kinds, len(s.Kind))
	}
	indent := strings.Repeat(" ", 5+ids+2)
	wave := 0
	for _, s := range p.Steps {
		number := ""
		if s.Wave != wave {
			wave = s.Wave
			number = fmt.Sprint(wave)
			out.line()
		}
		out.line(t.paint(faint, lead(number, 3)), "  ", t.paint(bold, pad(s.ID, ids)), "  ", t.paint(cyan, pad(string(s.Kind), kinds)), after(t, s))
		if s.When != "" {
			out.line(indent, t.paint(faint, "when  "), human.Line(string(s.When)))
		}
		for _, g := range s.Gate {
			line := human.Line(string(g.Check))
			if g.OnFail == dsl.OnFailStop {
				line += t.paint(yellow, "   else stop")
			}
			out.line(indent, t.paint(green, "gate  "), line)
		}
		for _, output := range slices.Sorted(maps.Keys(s.Publish)) {
			out.line(indent, t.paint(faint, "publish  "), output, " as ", s.Publish[output])
		}
	}
	return out.err
}

// after names what a step needs; the need is spelt out where it is another than passed.
func after(t Theme, s PlanStep) string {
	if len(s.Needs) == 0 {
		return ""
	}
	parts := make([]string, 0, len(s.Needs))
	for _, id := range slices.Sorted(maps.Keys(s.Needs)) {
		part := id
		if need := s.Needs[id]; need != dsl.NeedPassed {
			part += " " + string(need)
		}
		parts = append(parts, part)
	}
	return t.paint(faint, "  after ") + strings.Join(parts, ", ")
}
