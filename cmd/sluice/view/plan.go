package view

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
)

// Plan is a pipeline as `sluice plan` shows it.
type Plan struct {
	Name   string                `json:"name"`
	Params map[string]spec.Param `json:"params,omitempty"`
	// Given are the values that parameters were given for this plan, in place of their defaults.
	Given map[string]string `json:"given,omitempty"`
	// Steps in the order they may start, those of `on_failure` and `finally` last.
	Steps []PlanStep `json:"steps"`
	// Seconds and CostUSD are estimates from earlier runs, of those steps that would run and have run before.
	Seconds float64 `json:"seconds,omitempty"`
	CostUSD float64 `json:"cost_usd,omitempty"`
	// Open is the open run of the pipeline that `sluice run` would resume, or else the newest.
	Open *contract.OpenRun `json:"open,omitempty"`
	// Withheld are variables of this environment that programs may expect and do not get.
	Withheld []string `json:"withheld,omitempty"`
}

// PlanStep is a step of a Plan.
type PlanStep struct {
	ID      string       `json:"id"`
	Kind    spec.Kind    `json:"kind"`
	Section spec.Section `json:"section,omitempty"`
	// Wave counts from 1 in each section: a step starts after all that it needs of earlier waves. Steps of one wave run side by side.
	Wave  int                  `json:"wave"`
	Needs map[string]spec.Need `json:"needs,omitempty"`
	// After lists Needs in the order of the graph.
	After []string  `json:"after,omitempty"`
	When  spec.Expr `json:"when,omitempty"`
	Fan   spec.Fan  `json:"fan,omitempty"`
	// FanOf says what the instances are of: the sizes of a matrix's axes, a foreach's list, a repeat's condition.
	FanOf   string            `json:"fan_of,omitempty"`
	Gate    []spec.Gate       `json:"gate,omitempty"`
	Retry   int               `json:"attempts,omitempty"`
	Timeout spec.Duration     `json:"timeout,omitempty"`
	Publish map[string]string `json:"publish,omitempty"`
	// Defaults are the bounds of the step that the pipeline leaves out, with what holds in their place.
	Defaults []spec.Unset `json:"defaults,omitempty"`
	// Plan is what a run would do with the step, where that is known.
	Plan contract.StepPlan `json:"outlook,omitzero"`
}

// Program is a compiled pipeline: its graph in topological order, what its steps leave out, and their instances.
type Program interface {
	Pipeline() *spec.Pipeline
	Graph() []spec.Node
	Unset(id string) []spec.Unset
	Expand(id string, v spec.Vars) ([]spec.Instance, error)
}

// NewPlan puts a plan together. What is planned may be empty.
func NewPlan(program Program, planned contract.Plan) Plan {
	p := program.Pipeline()
	plan := Plan{
		Name: p.Name, Params: p.Params, Given: planned.Given, Steps: make([]PlanStep, 0, len(program.Graph())), Seconds: planned.Seconds, CostUSD: planned.CostUSD,
		Open: planned.Open,
	}
	written := map[string]spec.Step{}
	for _, s := range slices.Concat(p.Steps, p.OnFailure, p.Finally) {
		written[s.ID] = s
	}
	waves := map[string]int{}
	for _, node := range program.Graph() {
		s := written[node.ID]
		step := PlanStep{
			ID: node.ID, Kind: node.Kind, Section: node.Section, Wave: 1, Needs: node.Needs, After: node.After, Fan: node.Fan, FanOf: fanOf(program, s, planned.Steps[node.ID]), Timeout: node.Timeout,
			Retry: node.Retry.Attempts, When: s.When, Gate: s.Gate, Publish: s.Publish, Defaults: program.Unset(node.ID),
			Plan: planned.Steps[node.ID],
		}
		for _, need := range node.After {
			step.Wave = max(step.Wave, waves[need]+1)
		}
		waves[node.ID] = step.Wave
		plan.Steps = append(plan.Steps, step)
	}
	slices.SortStableFunc(plan.Steps, func(a, b PlanStep) int {
		return cmp.Or(cmp.Compare(a.Section.Rank(), b.Section.Rank()), cmp.Compare(a.Wave, b.Wave))
	})
	return plan
}

// fanOf says what the instances of a step are of, and how many a matrix has where that is known before it runs.
func fanOf(program Program, s spec.Step, planned contract.StepPlan) string {
	switch {
	case s.Foreach != "":
		return string(s.Foreach)
	case s.Repeat.Until != "":
		return fmt.Sprintf("until %s, at most %d times", s.Repeat.Until, s.Repeat.Max)
	case s.Matrix == nil:
		return ""
	}
	total := planned.Of
	if all, err := program.Expand(s.ID, spec.Vars{}); err == nil {
		total = len(all)
	}
	var axes, parts []string
	for _, axis := range slices.Sorted(maps.Keys(s.Matrix)) {
		if values, isList := s.Matrix[axis].([]any); isList {
			axis = fmt.Sprintf("%s (%d)", axis, len(values))
		}
		axes = append(axes, axis)
	}
	if len(axes) > 0 {
		parts = append(parts, strings.Join(axes, " × "))
	}
	if total > 0 {
		parts = append(parts, human.Plural(int64(total), "instance"))
	}
	return strings.Join(parts, ": ")
}

// openRun says what `sluice run` would do beside a run that has not ended.
func openRun(open contract.OpenRun) string {
	if len(open.Differs) == 0 {
		return "run " + open.Run + " is still open: `sluice run` resumes it"
	}
	return "run " + open.Run + " is still open: `sluice run` starts another, because " + Few(open.Differs)
}

// fewDiffers is how much of what differs between two submissions is named.
const fewDiffers = 3

// Few names the first of what differs between two submissions, on one line.
func Few(differs []string) string {
	n := len(differs)
	why := strings.Join(differs[:min(n, fewDiffers)], ", ")
	if n > fewDiffers {
		why += fmt.Sprintf(", and %d others", n-fewDiffers)
	}
	return human.Line(why)
}

// Plan writes a plan for people: steps by wave, with kinds, needs and gates.
func (t Theme) Plan(w io.Writer, p Plan) error {
	out := &writer{w: w}
	out.line(t.paint(bold, p.Name))
	if p.Open != nil {
		out.folded(t, 4, "  ", t.paint(yellow, openRun(*p.Open)))
	}
	for _, name := range slices.Sorted(maps.Keys(p.Params)) {
		param := p.Params[name]
		line := "  param " + name + " " + t.paint(faint, param.Type)
		given, replaced := p.Given[name]
		switch {
		case replaced && param.Default != nil:
			line += " = " + human.Printable(given) + t.paint(faint, "   in place of "+human.Value(param.Default))
		case replaced:
			line += " = " + human.Printable(given)
		case param.Default != nil:
			line += t.paint(faint, " = "+human.Value(param.Default))
		case !param.Optional():
			line += t.paint(yellow, "   set it with -p "+name+"=VALUE")
		}
		out.folded(t, 4, line)
	}
	if len(p.Withheld) > 0 {
		out.folded(t, 4, "  ", t.paint(yellow, "programs do not get "+strings.Join(p.Withheld, ", ")+" of this environment: name what they need in `env` or `secrets` of their step"))
	}
	ids, kinds := 0, 0
	for _, s := range p.Steps {
		ids, kinds = max(ids, len(s.ID)), max(kinds, len(s.Kind))
	}
	for i, s := range p.Steps {
		number := ""
		if i == 0 || s.Section != p.Steps[i-1].Section || s.Wave != p.Steps[i-1].Wave {
			out.line()
			number = fmt.Sprint(s.Wave)
		}
		if s.Section != spec.SectionMain && (i == 0 || s.Section != p.Steps[i-1].Section) {
			out.line(t.paint(faint, string(s.Section)))
		}
		out.folded(t, 5+ids+2, t.paint(faint, lead(number, 3)), "  ", t.paint(bold, pad(s.ID, ids)), "  ", t.paint(cyan, pad(string(s.Kind), kinds)), after(t, s))
		t.planDetails(out, strings.Repeat(" ", 5+ids+2), s)
	}
	if p.Seconds > 0 {
		out.line()
		out.line("  ", t.paint(faint, "about "+estimate(p.Seconds, p.CostUSD)+", from earlier runs"))
	}
	return out.err
}

// planDetails are the lines under a step.
func (t Theme) planDetails(out *writer, indent string, s PlanStep) {
	if a := s.Plan.Action; a != "" {
		known := s.Plan
		if len(known.After) == len(s.Needs) {
			known.After = nil // the line of the step names them already
		}
		out.folded(t, len(indent)+2, indent, t.paint(actionStyle(a), string(a)), "  ", human.Line(planDetail(known)))
	}
	if s.When != "" {
		out.folded(t, len(indent)+2, indent, t.paint(faint, "when  "), human.Line(string(s.When)))
	}
	if s.Fan != "" {
		out.folded(t, len(indent)+2, indent, t.paint(faint, string(s.Fan)), "  ", human.Line(s.FanOf))
	}
	for _, g := range s.Gate {
		line := human.Line(string(g.Check))
		if g.OnFail != "" && g.OnFail != spec.OnFailFail {
			line += t.paint(yellow, "   else "+string(g.OnFail))
		}
		out.folded(t, len(indent)+2, indent, t.paint(green, "gate  "), line)
	}
	if len(s.Defaults) > 0 {
		all := make([]string, len(s.Defaults))
		for i, d := range s.Defaults {
			all[i] = d.Key + " " + d.Value
		}
		out.folded(t, len(indent)+2, indent, t.paint(faint, "default  "+strings.Join(all, ", ")))
	}
	for _, output := range slices.Sorted(maps.Keys(s.Publish)) {
		out.folded(t, len(indent)+2, indent, t.paint(faint, "publish  "), output, " as ", s.Publish[output])
	}
}

// after names what a step needs; the need is spelt out where it is another than passed.
func after(t Theme, s PlanStep) string {
	if len(s.Needs) == 0 {
		return ""
	}
	parts := make([]string, 0, len(s.Needs))
	for _, id := range slices.Sorted(maps.Keys(s.Needs)) {
		part := id
		if need := s.Needs[id]; need != spec.NeedPassed {
			part += " " + string(need)
		}
		parts = append(parts, part)
	}
	return t.paint(faint, "  after ") + strings.Join(parts, ", ")
}
