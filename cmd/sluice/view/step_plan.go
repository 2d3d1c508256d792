package view

import (
	"fmt"
	"strings"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
)

// planDetail says in one line why a run would do with a step what it would, or from where it would take the outputs.
func planDetail(p contract.StepPlan) string {
	var parts []string
	switch {
	case p.Action == contract.ActionReuse && p.Reason == "":
		parts = append(parts, "with the outputs of "+p.From)
	case p.Action == contract.ActionReuse:
		parts = append(parts, "with the outputs of "+p.From+", but "+p.Reason)
	case len(p.Changed) > 0:
		changed := strings.Join(p.Changed, ", ")
		if len(p.Files) > 0 {
			changed = strings.Replace(changed, "files", "files ("+strings.Join(p.Files, ", ")+")", 1)
		}
		parts = append(parts, changed+" since "+p.From)
	case len(p.After) > 0:
		parts = append(parts, "after "+strings.Join(p.After, ", "))
	case p.Reason != "":
		parts = append(parts, p.Reason)
	}
	if p.ResumeRun != "" {
		parts = append(parts, "resumes from step "+human.Count(p.ResumeStep)+" of "+p.ResumeRun)
	}
	if p.Of > 0 {
		parts = append(parts, human.Count(int64(p.Cached))+" of "+human.Plural(int64(p.Of), "instance")+" cached")
	}
	if p.Seconds > 0 {
		parts = append(parts, "about "+estimate(p.Seconds, p.CostUSD))
	}
	return strings.Join(parts, separator)
}

// estimate writes a time and, where there is any, a cost.
func estimate(seconds, usd float64) string {
	if usd == 0 {
		return human.Seconds(seconds)
	}
	return human.Seconds(seconds) + ", " + dollars(usd)
}

// dollars writes a sum to the cent.
func dollars(usd float64) string { return fmt.Sprintf("$%.2f", usd) }

// Cost writes what was spent, which may not be known.
func Cost(s spec.Spent) string {
	if s.CostUSD == nil {
		return "unknown"
	}
	return dollars(*s.CostUSD)
}

func actionStyle(a contract.Action) string {
	switch a {
	case contract.ActionReuse:
		return green
	case contract.ActionRunChanged:
		return yellow
	case contract.ActionRun:
		return cyan
	case contract.ActionSkip, contract.ActionNone:
	}
	return faint
}
