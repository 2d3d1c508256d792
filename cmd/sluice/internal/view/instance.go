package view

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/human"
)

// StepView is one step of a run with its instances, where it has any.
type StepView struct {
	Run  contract.RunRecord
	Node dsl.Node
	Step contract.StepRecord
	// Instances that have ended, those that did not succeed first; there are Total of them.
	Instances []contract.StepRecord
	Total     int
	Doing     Detail
}

// instanceID is how an instance is called: fit.3.
func instanceID(s contract.StepRecord) string { return s.Step + "." + strconv.Itoa(s.Index) }

// subject says what an instance is about: "arch = cnn", or its item.
func subject(s contract.StepRecord) string {
	var axes map[string]any
	if json.Unmarshal(s.Matrix, &axes) == nil && axes != nil {
		return fields(axes)
	}
	var item any
	if json.Unmarshal(s.Item, &item) == nil {
		return human.Value(item)
	}
	return ""
}

// Step writes a step in detail, for people.
func (t Theme) Step(w io.Writer, v StepView, now time.Time) error {
	out := &writer{w: w}
	kind := string(v.Node.Kind)
	if v.Node.Fan != dsl.FanNone {
		kind += " × " + string(v.Node.Fan)
	}
	if v.Node.Section != dsl.SectionMain {
		kind += ", " + string(v.Node.Section)
	}
	out.line(t.paint(bold, v.Step.Step), "  ", t.paint(cyan, kind), "  ", v.Run.Run)
	out.line()
	summary := Summary{Steps: []contract.StepRecord{v.Step}, Doing: map[string]Detail{v.Step.Step: v.Doing}, Attempts: true}
	t.summaryStep(out, t.summaryHead(out, summary.Steps), v.Step, summary, now)
	if v.Total > 0 {
		t.instances(out, v, now)
	}
	if len(v.Step.Outputs) > 0 && v.Node.Fan != dsl.FanMatrix && v.Node.Fan != dsl.FanForeach || v.Step.Matrix != nil || v.Step.Item != nil {
		t.outputs(out, v.Step.Outputs)
	}
	return out.err
}

func (t Theme) instances(out *writer, v StepView, now time.Time) {
	out.line()
	named := make([]contract.StepRecord, len(v.Instances))
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

// outputs writes a step's outputs as JSON.
func (t Theme) outputs(out *writer, raw json.RawMessage) {
	pretty, err := json.MarshalIndent(raw, "  ", "  ")
	if err != nil || len(raw) == 0 {
		return
	}
	out.line()
	out.line(t.paint(faint, "outputs"))
	out.line("  ", strings.TrimSpace(human.Printable(string(pretty))))
}
