package view

import (
	"fmt"
	"strings"

	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/internal/human"
)

// Outlook is what a run would do with a step.
type Outlook struct {
	engine.Outlook
	// Detail says why, or from where, in one line.
	Detail string `json:"-"`
}

func newOutlook(o engine.Outlook) Outlook {
	var parts []string
	switch {
	case o.Prospect == engine.ProspectCached && o.Reason == "":
		parts = append(parts, "with the outputs of "+o.From)
	case o.Prospect == engine.ProspectCached:
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
	return Outlook{Outlook: o, Detail: strings.Join(parts, separator)}
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

func outlookStyle(p engine.Prospect) string {
	switch p {
	case engine.ProspectCached:
		return green
	case engine.ProspectChanged:
		return yellow
	case engine.ProspectRuns:
		return cyan
	case engine.ProspectSkipped, engine.ProspectNotRun:
	}
	return faint
}
