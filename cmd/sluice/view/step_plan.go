package view

import (
	"fmt"
	"strings"

	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/internal/human"
)

// StepPlan is what a run would do with a step.
type StepPlan struct {
	engine.StepPlan
	// Detail says why, or from where, in one line.
	Detail string `json:"-"`
}

func newOutlook(o engine.StepPlan) StepPlan {
	var parts []string
	switch {
	case o.Prospect == engine.ActionReuse && o.Reason == "":
		parts = append(parts, "with the outputs of "+o.From)
	case o.Prospect == engine.ActionReuse:
		parts = append(parts, "with the outputs of "+o.From+", but "+o.Reason)
	case len(o.Changed) > 0:
		changed := strings.Join(o.Changed, ", ")
		if len(o.Files) > 0 {
			changed = strings.Replace(changed, "files", "files ("+strings.Join(o.Files, ", ")+")", 1)
		}
		parts = append(parts, changed+" since "+o.From)
	case len(o.After) > 0:
		parts = append(parts, "after "+strings.Join(o.After, ", "))
	case o.Reason != "":
		parts = append(parts, o.Reason)
	}
	if o.Of > 0 {
		parts = append(parts, human.Count(int64(o.Cached))+" of "+human.Plural(int64(o.Of), "instance")+" cached")
	}
	if o.Seconds > 0 {
		parts = append(parts, "about "+estimate(o.Seconds, o.CostUSD))
	}
	return StepPlan{StepPlan: o, Detail: strings.Join(parts, separator)}
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

func outlookStyle(p engine.Action) string {
	switch p {
	case engine.ActionReuse:
		return green
	case engine.ActionRunChanged:
		return yellow
	case engine.ActionRun:
		return cyan
	case engine.ActionSkip, engine.ActionNone:
	}
	return faint
}
