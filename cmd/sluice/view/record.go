package view

import (
	"encoding/json"
	"errors"
	"io"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/report"
	"github.com/sluiceml/sluice/store/record"
)

// Record is a run as `sluice show --format json` prints it.
type Record struct {
	Run       string            `json:"run"`
	Pipeline  string            `json:"pipeline"`
	Status    spec.Status       `json:"status"`
	Error     string            `json:"error,omitempty"`
	ErrorType string            `json:"error_type,omitempty"`
	StartedAt time.Time         `json:"started_at"`
	EndedAt   time.Time         `json:"ended_at,omitzero"`
	Seconds   float64           `json:"seconds"`
	Params    map[string]any    `json:"params"`
	Outputs   map[string]any    `json:"outputs,omitempty"`
	ReuseFrom string            `json:"reuse_from,omitempty"`
	Last      string            `json:"last,omitempty"`
	Serving   map[string]string `json:"serving,omitempty"`
	CostUSD   float64           `json:"cost_usd,omitempty"`
	// Trigger is what started the run, when nobody did by hand.
	Trigger spec.TriggerFacts `json:"trigger,omitzero"`
	// Waits is what the run waits for before it begins.
	Waits string `json:"waits,omitempty"`
	// Unattended: no process executes the run now, although it has not ended.
	Unattended bool `json:"unattended,omitempty"`
	// Waiting is what waits for a person now.
	Waiting []contract.ApprovalState `json:"waiting,omitempty"`
	// Order lists the steps in graph order.
	Order []string        `json:"order"`
	Steps map[string]Step `json:"steps"`
}

// Step is a step of a Record.
type Step struct {
	Kind       spec.Kind       `json:"kind"`
	Section    spec.Section    `json:"section,omitempty"`
	Needs      []string        `json:"needs"`
	Status     spec.Status     `json:"status"`
	Error      string          `json:"error,omitempty"`
	ErrorType  string          `json:"error_type,omitempty"`
	StartedAt  time.Time       `json:"started_at,omitzero"`
	EndedAt    time.Time       `json:"ended_at,omitzero"`
	Seconds    float64         `json:"seconds"`
	Verdict    spec.Verdict    `json:"verdict,omitempty"`
	Checks     []spec.Check    `json:"checks,omitempty"`
	Attempts   Attempts        `json:"attempts"`
	Published  []string        `json:"published,omitempty"`
	ReusedFrom string          `json:"reused_from,omitempty"`
	Outputs    json.RawMessage `json:"outputs,omitempty"`
	// Account is what nodes of pools did for a step that is no training, and cost: of the form of a training's outputs.
	Account json.RawMessage `json:"account,omitempty"`
	CostUSD float64         `json:"cost_usd,omitempty"`
	Summary string          `json:"summary,omitempty"`
	// ChildRun is the run of a step of kind pipeline.
	ChildRun string `json:"child_run,omitempty"`
	// Decision is what a person said last of the gate that held the step, Earlier what was said of other conditions of it before.
	Decision *record.Decision  `json:"decision,omitempty"`
	Earlier  []record.Decision `json:"earlier_decisions,omitempty"`
	// Fan says how the step has instances, Of how many, and Passed how many of them passed.
	Fan    spec.Fan `json:"fan,omitempty"`
	Of     int      `json:"of,omitempty"`
	Passed int      `json:"passed,omitempty"`
	// Instances of the step, when it was asked for by itself.
	Instances []Instance `json:"instances,omitempty"`
}

// Instance is one of a fanned-out step's.
type Instance struct {
	Index  int             `json:"index"`
	Matrix json.RawMessage `json:"matrix,omitempty"`
	Item   json.RawMessage `json:"item,omitempty"`
	Step
}

// Attempts counts the tries of a step.
type Attempts struct {
	Total int `json:"total"`
	// ByErrorType counts those that did not succeed, and Interrupted those of them that ended with their worker.
	ByErrorType map[string]int   `json:"by_error_type"`
	Interrupted int              `json:"interrupted,omitempty"`
	Failed      []record.Attempt `json:"failed,omitempty"`
}

// NewRecord puts a run's records together.
func NewRecord(run record.RunRecord, steps []record.StepRecord, waiting []contract.ApprovalState, now time.Time) Record {
	r := Record{
		Run: run.Run, Pipeline: run.Pipeline, Status: run.Status, Error: run.Error, ErrorType: run.ErrorType,
		StartedAt: run.StartedAt, EndedAt: run.EndedAt, Seconds: seconds(run.StartedAt, run.EndedAt, now),
		Params: run.Params, Outputs: run.Outputs, ReuseFrom: run.Reuse.From, Last: run.Last, Serving: run.Serving,
		CostUSD: run.CostUSD, Trigger: run.Trigger, Waiting: waiting,
		Order: make([]string, 0, len(steps)), Steps: make(map[string]Step, len(steps)),
	}
	if r.Params == nil {
		r.Params = map[string]any{}
	}
	nodes := map[string]spec.Node{}
	for _, node := range run.Graph {
		nodes[node.ID] = node
	}
	for _, s := range steps {
		r.Order = append(r.Order, s.Step)
		r.Steps[s.Step] = newStep(s, nodes[s.Step], now)
	}
	return r
}

// NewStep puts a step's records together: the step, or one instance of it.
func NewStep(v StepView, now time.Time) any {
	step := newStep(v.Step, v.Node, now)
	for _, s := range v.Instances {
		step.Instances = append(step.Instances, newInstance(s, v.Node, now))
	}
	if v.Step.Matrix != nil || v.Step.Item != nil {
		return newInstance(v.Step, v.Node, now)
	}
	return step
}

func newInstance(s record.StepRecord, node spec.Node, now time.Time) Instance {
	return Instance{Index: s.Index, Matrix: s.Matrix, Item: s.Item, Step: newStep(s, node, now)}
}

func newStep(s record.StepRecord, node spec.Node, now time.Time) Step {
	attempts := Attempts{ByErrorType: map[string]int{}, Failed: s.Attempts, Total: len(s.Attempts)}
	for _, a := range s.Attempts {
		attempts.ByErrorType[a.ErrorType]++
		if a.Interrupted {
			attempts.Interrupted++
		}
	}
	if s.ReusedFrom == "" && (s.Status == spec.StatusSucceeded || s.Status == spec.StatusDeclined || s.Status == spec.StatusRunning) {
		attempts.Total++
	}
	return Step{
		Kind: s.Kind, Section: node.Section, Needs: append([]string{}, node.After...), Status: s.Status, Error: s.Error, ErrorType: s.ErrorType,
		StartedAt: s.StartedAt, EndedAt: s.EndedAt, Seconds: seconds(s.StartedAt, s.EndedAt, now),
		Verdict: s.Verdict, Checks: s.Checks, Attempts: attempts, Published: s.Published, ReusedFrom: s.ReusedFrom,
		Outputs: s.Outputs, Account: s.Account, CostUSD: s.CostUSD, Summary: s.Summary, ChildRun: s.ChildRun, Decision: s.Decision, Earlier: s.Earlier, Fan: node.Fan, Of: s.Of, Passed: s.Passed,
	}
}

func seconds(from, to, now time.Time) float64 {
	if from.IsZero() {
		return 0
	}
	if to.IsZero() {
		to = now
	}
	return to.Sub(from).Round(time.Millisecond).Seconds()
}

// Overlay puts where a run is now over the records it has written so far.
func Overlay(steps []record.StepRecord, state contract.RunState) {
	now := make(map[string]contract.StepState, len(state.Steps))
	for _, s := range state.Steps {
		now[s.ID] = s
	}
	for i, s := range steps {
		if live, ok := now[s.Step]; ok && s.Status == spec.StatusPending {
			steps[i].Status, steps[i].StartedAt, steps[i].EndedAt, steps[i].Of = live.Status, live.StartedAt, live.EndedAt, live.Of
		}
	}
}

// Ended is how the steps of a run ended, as rows: a run may end between two looks at it.
func Ended(steps []record.StepRecord) []Row {
	rows := make([]Row, len(steps))
	for i, s := range steps {
		rows[i].StepState = contract.StepState{
			ID: s.Step, Kind: s.Kind, Status: s.Status, StartedAt: s.StartedAt, EndedAt: s.EndedAt, Summary: result(s), Of: s.Of, Done: s.Of,
		}
	}
	return rows
}

// JSON writes v indented.
func JSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// JSONLine writes v in one line.
func JSONLine(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// Show writes a run for people.
func (t Theme) Show(w io.Writer, run record.RunRecord, s Summary, waiting []contract.ApprovalState, now time.Time) error {
	out := writer{w: w}
	glyph, style := mark(run.Status)
	out.line(t.paint(bold, run.Pipeline), "  ", run.Run)
	line := t.paint(style, glyph+" "+report.Word(run.Status)) + "  " + spent(run.Status, run.StartedAt, run.EndedAt, now) +
		t.paint(faint, "  started "+run.StartedAt.Local().Format(clockForm))
	if run.Reuse.From != "" {
		line += t.paint(faint, "  reruns "+run.Reuse.From)
	}
	if run.Trigger.Name != "" {
		line += t.paint(faint, "  by "+run.Trigger.Name)
	}
	if run.CostUSD > 0 {
		line += "  " + dollars(run.CostUSD)
	}
	out.folded(t, 2, line)
	if text := why(run.Status, run.Error); text != "" && run.Status != spec.StatusSucceeded {
		out.folded(t, 2, t.paint(style, text))
	}
	if s.Waits != "" {
		out.line(t.paint(yellow, "waiting: "+human.Line(s.Waits)))
	}
	if len(run.Params) > 0 {
		out.folded(t, 9, t.paint(faint, "params   "), fields(run.Params))
	}
	if len(run.Outputs) > 0 {
		out.folded(t, 9, t.paint(faint, "outputs  "), fields(run.Outputs))
	}
	out.line()
	if out.err != nil {
		return out.err
	}
	if err := t.Summary(w, s, now); err != nil || len(waiting) == 0 {
		return err
	}
	out.line()
	return errors.Join(out.err, t.Waiting(w, waiting, now))
}

// fields writes named values in one line.
func fields(m map[string]any) string { return values(spec.Check{Values: m}) }
