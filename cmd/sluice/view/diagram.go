package view

import (
	"io"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
)

// labelWidth is how many characters of a name or a gate a diagram shows.
const labelWidth = 44

// label is what a node of a diagram says: the step's name, then its kind and marks, then its gates.
func label(s PlanStep) []string {
	kind := string(s.Kind)
	if s.Fan != "" {
		kind += " × " + string(s.Fan)
	}
	lines := []string{human.Cut(s.ID, labelWidth), kind}
	switch a := s.Plan.Action; a {
	case contract.ActionReuse, contract.ActionRunChanged, contract.ActionSkip:
		lines[1] += separator + string(a)
	case contract.ActionRun, contract.ActionNone: // what a graph shows anyway
	}
	if s.When != "" {
		lines = append(lines, human.Cut("when "+human.Line(string(s.When)), labelWidth))
	}
	for _, g := range s.Gate {
		lines = append(lines, human.Cut("gate "+human.Line(string(g.Check)), labelWidth))
	}
	return lines
}

// mermaidText escapes what Mermaid, or the Markdown and HTML in its labels, would read as its own.
var mermaidText = strings.NewReplacer(
	"#", "#35;", "&", "#amp;", "<", "#lt;", ">", "#gt;", `"`, "#quot;", "`", "#96;", "*", "#42;", "_", "#95;", "\\", "#92;", "%", "#37;",
)

// Mermaid writes a plan as a flowchart of Mermaid (mermaid.js.org), which Markdown viewers draw.
func Mermaid(w io.Writer, p Plan) error {
	out := writer{w: w}
	out.line("flowchart LR")
	for _, section := range spec.Sections {
		steps := slices.DeleteFunc(slices.Clone(p.Steps), func(s PlanStep) bool { return s.Section != section })
		if len(steps) == 0 {
			continue
		}
		indent := "    "
		if section != spec.SectionMain {
			out.line(indent, "subgraph ", string(section))
			indent += indent
		}
		for _, s := range steps {
			lines := label(s)
			for i, line := range lines {
				lines[i] = mermaidText.Replace(line)
			}
			out.line(indent, mermaidID(s.ID), `["`, strings.Join(lines, "<br/>"), `"]`)
		}
		if section != spec.SectionMain {
			out.line("    end")
		}
	}
	for _, s := range p.Steps {
		for _, id := range s.After {
			arrow := " --> "
			if need := s.Needs[id]; need != spec.NeedPassed {
				arrow = " -->|" + mermaidText.Replace(string(need)) + "| "
			}
			out.line("    ", mermaidID(id), arrow, mermaidID(s.ID))
		}
	}
	return out.err
}

// mermaidID keeps a step's name from being a word of Mermaid, such as `end`.
func mermaidID(id string) string { return "s_" + id }
