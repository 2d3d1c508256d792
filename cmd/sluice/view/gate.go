package view

import (
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
)

// values writes what a check saw: "metrics.f1 = 0.97, params.min_f1 = 0.95".
func values(c spec.Check) string {
	parts := make([]string, 0, len(c.Values))
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		parts = append(parts, name+" = "+human.Precise(c.Values[name]))
	}
	return strings.Join(parts, ", ")
}

// gate writes one check: its sign, expression, what it saw and, when it did not hold, why.
func (t Theme) gate(c spec.Check) string {
	glyph, style := "✓", green
	switch {
	case c.Verdict == spec.VerdictPass:
	case c.OnFail == spec.OnFailStop:
		glyph, style = "⊘", yellow
	case c.OnFail == spec.OnFailHold && c.Verdict == spec.VerdictFail:
		glyph, style = "◆", yellow
	default:
		glyph, style = "✗", red
	}
	line := t.paint(style, glyph) + " " + human.Line(c.Expression)
	if saw := values(c); saw != "" {
		line += t.paint(faint, "   "+human.Printable(saw))
	}
	if c.Verdict == spec.VerdictError {
		return line + "   " + t.paint(red, "cannot be evaluated: "+human.Line(c.Error))
	}
	if c.Verdict != spec.VerdictPass && c.Message != "" {
		line += "   " + t.paint(style, human.Line(c.Message))
	}
	return line
}
