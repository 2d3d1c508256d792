package view

import (
	"embed"
	"fmt"
	"html/template"
	"io"
	"strings"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/internal/layered"
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
	eachSection(p, func(section spec.Section, steps []PlanStep) {
		indent := "    "
		if section != spec.SectionMain {
			out.line(indent, "subgraph ", string(section))
			indent += indent
			defer out.line("    end")
		}
		for _, s := range steps {
			lines := label(s)
			for i, line := range lines {
				lines[i] = mermaidText.Replace(line)
			}
			out.line(indent, mermaidID(s.ID), `["`, strings.Join(lines, "<br/>"), `"]`)
		}
	})
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

// dotText escapes what DOT would read as its own.
var dotText = strings.NewReplacer(`\`, `\\`, `"`, `\"`)

// DOT writes a plan in the language of Graphviz.
func DOT(w io.Writer, p Plan) error {
	out := writer{w: w}
	quote := func(s string) string { return `"` + dotText.Replace(s) + `"` }
	out.line("digraph ", quote(p.Name), " {")
	out.line("    rankdir=LR;")
	out.line(`    node [shape=box, style=rounded, fontname="sans-serif"];`)
	eachSection(p, func(section spec.Section, steps []PlanStep) {
		indent := "    "
		if section != spec.SectionMain {
			out.line(indent, "subgraph ", quote("cluster_"+string(section)), " {")
			indent += indent
			out.line(indent, "label=", quote(string(section)), ";")
			defer out.line("    }")
		}
		for _, s := range steps {
			lines := label(s)
			for i, line := range lines {
				lines[i] = dotText.Replace(line)
			}
			out.line(indent, quote(s.ID), ` [label="`, strings.Join(lines, `\n`), `"];`)
		}
	})
	for _, s := range p.Steps {
		for _, id := range s.After {
			style := ""
			if need := s.Needs[id]; need != spec.NeedPassed {
				style = " [label=" + quote(string(need)) + "]"
			}
			out.line("    ", quote(id), " -> ", quote(s.ID), style, ";")
		}
	}
	out.line("}")
	return out.err
}

// eachSection calls f with the steps of each section that has any.
func eachSection(p Plan, f func(section spec.Section, steps []PlanStep)) {
	for _, section := range spec.Sections {
		var steps []PlanStep
		for _, s := range p.Steps {
			if s.Section == section {
				steps = append(steps, s)
			}
		}
		if len(steps) > 0 {
			f(section, steps)
		}
	}
}

//go:embed plan.svg
var svgSource embed.FS

var svgTemplate = template.Must(template.New("plan.svg").Funcs(template.FuncMap{"f": layered.Coordinate}).ParseFS(svgSource, "plan.svg"))

// The measures of the drawing, in SVG units.
const (
	svgNode   = 210
	svgLine   = 15
	svgHeader = 44 // over the graph: the name, and the names of the parts
)

type svgPlan struct {
	Name          string
	Width, Height float64
	Nodes         []svgStep
	Edges         []svgEdge
	Parts         []svgPart
}

type svgStep struct {
	X, Y, Width, Height float64
	Title               string // the whole of what the lines show
	Lines               []svgText
}

type svgText struct {
	X, Y  float64
	Class string
	Text  string
}

type svgEdge struct{ Path, Need string }

type svgPart struct {
	X, Height float64
	Name      string
}

// SVG draws a plan. The picture stands by itself, and follows the reader's light or dark setting.
func SVG(w io.Writer, p Plan) error {
	lines := 0
	nodes := make([]layered.Node, len(p.Steps))
	for i, s := range p.Steps {
		lines = max(lines, len(label(s)))
		nodes[i] = layered.Node{ID: s.ID, After: s.After, Part: s.Section.Rank()}
	}
	style := layered.Style{NodeWidth: svgNode, NodeHeight: float64(lines)*svgLine + 12, LayerGap: 52, NodeGap: 18, Margin: 12}
	d := layered.Draw(nodes, style)
	plan := svgPlan{Name: p.Name, Width: max(d.Width, 240), Height: d.Height + svgHeader}
	for _, part := range d.Parts {
		if name := spec.Sections[part.Number]; name != spec.SectionMain {
			plan.Parts = append(plan.Parts, svgPart{part.X, d.Height, string(name)})
		}
	}
	for _, place := range d.Nodes {
		plan.Nodes = append(plan.Nodes, newSVGStep(p.Steps[place.Index], place, style))
	}
	for _, e := range d.Edges {
		to := p.Steps[e.To]
		edge := svgEdge{Path: e.Path}
		if need := to.Needs[p.Steps[e.From].ID]; need != spec.NeedPassed {
			edge.Need = fmt.Sprintf("%s when %s: %s", to.ID, p.Steps[e.From].ID, need)
		}
		plan.Edges = append(plan.Edges, edge)
	}
	return svgTemplate.Execute(w, plan)
}

// newSVGStep puts the lines of a step into its box. What the box has no room for is in its title.
func newSVGStep(s PlanStep, at layered.Place, style layered.Style) svgStep {
	const most = 32
	out := svgStep{X: at.X, Y: at.Y, Width: style.NodeWidth, Height: style.NodeHeight, Title: strings.Join(label(s), "\n")}
	for i, line := range label(s) {
		class := []string{"step", "kind", "gate"}[min(i, 2)]
		out.Lines = append(out.Lines, svgText{at.X + 10, at.Y + float64(i+1)*svgLine + 3, class, human.Cut(line, most)})
	}
	return out
}
