package view

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store/record"
)

// StepView is one step of a run with its instances, where it has any.
type StepView struct {
	Run  record.RunRecord
	Node spec.Node
	Step record.StepRecord
	// Instances that have ended, those that did not succeed first; there are Total of them.
	Instances []record.StepRecord
	Total     int
	Doing     Detail
	// Rejected is the first rejected row of each reason, of a cleaning.
	Rejected map[string]string
}

// instanceID is how an instance is called: fit.3.
func instanceID(s record.StepRecord) string { return s.Step + "." + strconv.Itoa(s.Index) }

// subject says what an instance is about: "arch = cnn", or its item.
func subject(s record.StepRecord) string {
	switch subject := s.Subject().(type) {
	case nil:
		return ""
	case map[string]any:
		return fields(subject)
	default:
		return human.Value(subject)
	}
}

// Step writes a step in detail, for people.
func (t Theme) Step(w io.Writer, v StepView, now time.Time) error {
	out := &writer{w: w}
	kind := string(v.Node.Kind)
	if v.Node.Fan != spec.FanNone {
		kind += " × " + string(v.Node.Fan)
	}
	if v.Node.Section != spec.SectionMain {
		kind += ", " + string(v.Node.Section)
	}
	out.line(t.paint(bold, v.Step.Step), "  ", t.paint(cyan, kind), "  ", v.Run.Run)
	out.line()
	summary := Summary{Steps: []record.StepRecord{v.Step}, Doing: map[string]Detail{v.Step.Step: v.Doing}, Attempts: true}
	t.summaryStep(out, t.summaryHead(out, summary.Steps), v.Step, summary, now)
	if v.Total > 0 {
		t.instances(out, v, now)
	}
	if len(v.Step.Account) > 0 {
		t.generations(out, v.Node.Kind, v.Step.Account)
	}
	if len(v.Step.Outputs) > 0 && v.Node.Fan != spec.FanMatrix && v.Node.Fan != spec.FanForeach || v.Step.Matrix != nil || v.Step.Item != nil {
		t.outputs(out, v.Node.Kind, v.Step.Outputs)
	}
	if len(v.Rejected) > 0 {
		out.line()
		out.folded(t, 2, t.paint(faint, "the first rejected row of each reason; `sluice data checkout "+v.Run.Run+"/"+v.Step.Step+".dead_letter DIR` writes all"))
		for _, reason := range slices.Sorted(maps.Keys(v.Rejected)) {
			out.folded(t, 4, "  ", human.Printable(reason), ": ", v.Rejected[reason])
		}
	}
	return out.err
}

func (t Theme) instances(out *writer, v StepView, now time.Time) {
	out.line()
	named := make([]record.StepRecord, len(v.Instances))
	for i, s := range v.Instances {
		named[i] = s
		named[i].Step = instanceID(s)
	}
	ids := t.summaryHead(out, named)
	for _, s := range named {
		t.summaryStep(out, ids, s, Summary{Attempts: true}, now)
	}
	if more := v.Total - len(named); more > 0 {
		out.line(t.paint(faint, fmt.Sprintf("and %s more; `sluice show %s %s.N` shows one", human.Plural(int64(more), "instance"), v.Run.Run, v.Node.ID)))
	}
}

// typeWidth is that of the column of types.
const typeWidth = 13

// fewColumns is how many columns of a profile are listed.
const fewColumns = 20

// profiles writes those of the Profile transforms.
func (t Theme) profiles(out *writer, all map[string]spec.Profile) {
	for _, name := range slices.Sorted(maps.Keys(all)) {
		t.columns(out, "at "+human.Cut(human.Line(name), 37), all[name], nil)
	}
}

// columns writes a profile in brief under a title, the columns that have moved most first.
func (t Theme) columns(out *writer, title string, profile spec.Profile, moved *spec.Drift) {
	if len(profile.Columns) == 0 {
		return
	}
	var drift spec.Drift
	if moved != nil {
		drift = *moved
	}
	names := slices.SortedFunc(maps.Keys(profile.Columns), func(a, b string) int {
		return cmp.Or(cmp.Compare(drift.Columns[b].PSI, drift.Columns[a].PSI), cmp.Compare(a, b))
	})
	shown := names[:min(len(names), fewColumns)]
	width := human.Width(title)
	for _, name := range shown {
		width = max(width, human.Width(human.Line(name)))
	}
	width = min(width, 40)
	number := func(x *float64) string {
		if x == nil {
			return lead("-", 10)
		}
		return lead(human.Number(*x), 10)
	}
	head := []string{
		pad(title, width) + "  ", pad("type", typeWidth), lead("mean", 10), lead("p01", 10), lead("p50", 10), lead("p99", 10), lead("distinct", 12), lead("nulls", 12),
	}
	if drift.Columns != nil {
		head = append(head, lead("psi", 10))
	}
	var rows [][]string
	for _, name := range shown {
		c := profile.Columns[name]
		row := []string{
			pad(human.Cut(human.Line(name), width), width) + "  ", pad(human.Cut(c.TypeWords(), typeWidth), typeWidth), number(c.Mean), number(c.P01), number(c.P50), number(c.P99),
			lead(human.Count(c.Distinct), 12), lead(human.Count(c.Nulls), 12),
		}
		if d, ok := drift.Columns[name]; ok {
			row = append(row, lead(fmt.Sprintf("%.3f", d.PSI), 10))
		}
		rows = append(rows, row)
	}
	out.line()
	out.padded(t, head, rows)
	if more := len(names) - len(shown); more > 0 {
		out.line(t.paint(faint, fmt.Sprintf("and %s more; --format json shows them all", human.Plural(int64(more), "column"))))
	}
}
