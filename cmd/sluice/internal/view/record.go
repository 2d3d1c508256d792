package view

import (
	"encoding/json"
	"io"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/internal/human"
)

// Record is a run as `sluice show --format json` prints it.
type Record struct {
	Run       string            `json:"run"`
	Pipeline  string            `json:"pipeline"`
	Status    dsl.Status        `json:"status"`
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
	// Order lists the steps in graph order.
	Order []string        `json:"order"`
	Steps map[string]Step `json:"steps"`
}

// Step is a step of a Record.
type Step struct {
	Kind       dsl.Kind        `json:"kind"`
	Needs      []string        `json:"needs"`
	Status     dsl.Status      `json:"status"`
	Error      string          `json:"error,omitempty"`
	ErrorType  string          `json:"error_type,omitempty"`
	StartedAt  time.Time       `json:"started_at,omitzero"`
	EndedAt    time.Time       `json:"ended_at,omitzero"`
	Seconds    float64         `json:"seconds"`
	Verdict    dsl.Verdict     `json:"verdict,omitempty"`
	Checks     []dsl.Check     `json:"checks,omitempty"`
	Attempts   Attempts        `json:"attempts"`
	Published  []string        `json:"published,omitempty"`
	ReusedFrom string          `json:"reused_from,omitempty"`
	Outputs    json.RawMessage `json:"outputs,omitempty"`
}

// Attempts counts the tries of a step.
type Attempts struct {
	Total int `json:"total"`
	// ByErrorType counts those that did not succeed.
	ByErrorType map[string]int     `json:"by_error_type"`
	Failed      []contract.Attempt `json:"failed,omitempty"`
}

// NewRecord puts a run's records together.
func NewRecord(run contract.RunRecord, steps []contract.StepRecord, now time.Time) Record {
	r := Record{
		Run: run.Run, Pipeline: run.Pipeline, Status: run.Status, Error: run.Error, ErrorType: run.ErrorType,
		StartedAt: run.StartedAt, EndedAt: run.EndedAt, Seconds: seconds(run.StartedAt, run.EndedAt, now),
		Params: run.Params, Outputs: run.Outputs, ReuseFrom: run.Reuse.From, Last: run.Last, Serving: run.Serving,
		Order: make([]string, 0, len(steps)), Steps: make(map[string]Step, len(steps)),
	}
	if r.Params == nil {
		r.Params = map[string]any{}
	}
	needs := map[string][]string{}
	for _, node := range run.Graph {
		needs[node.ID] = node.After
	}
	for _, s := range steps {
		r.Order = append(r.Order, s.Step)
		r.Steps[s.Step] = newStep(s, needs[s.Step], now)
	}
	return r
}

func newStep(s contract.StepRecord, needs []string, now time.Time) Step {
	attempts := Attempts{ByErrorType: map[string]int{}, Failed: s.Attempts, Total: len(s.Attempts)}
	for _, a := range s.Attempts {
		attempts.ByErrorType[a.ErrorType]++
	}
	if s.ReusedFrom == "" && (s.Status == dsl.StatusSucceeded || s.Status == dsl.StatusDeclined || s.Status == dsl.StatusRunning) {
		attempts.Total++
	}
	return Step{
		Kind: s.Kind, Needs: append([]string{}, needs...), Status: s.Status, Error: s.Error, ErrorType: s.ErrorType,
		StartedAt: s.StartedAt, EndedAt: s.EndedAt, Seconds: seconds(s.StartedAt, s.EndedAt, now),
		Verdict: s.Verdict, Checks: s.Checks, Attempts: attempts, Published: s.Published, ReusedFrom: s.ReusedFrom,
		Outputs: s.Outputs,
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
func Overlay(steps []contract.StepRecord, state contract.RunState) {
	now := make(map[string]contract.StepState, len(state.Steps))
	for _, s := range state.Steps {
		now[s.ID] = s
	}
	for i, s := range steps {
		if live, ok := now[s.Step]; ok && s.Status == dsl.StatusPending {
			steps[i].Status, steps[i].StartedAt, steps[i].EndedAt = live.Status, live.StartedAt, live.EndedAt
		}
	}
}

// Ended is how the steps of a run ended, as rows: a run may end between two looks at it.
func Ended(steps []contract.StepRecord) []Row {
	rows := make([]Row, len(steps))
	for i, s := range steps {
		rows[i].StepState = contract.StepState{
			ID: s.Step, Kind: s.Kind, Status: s.Status, StartedAt: s.StartedAt, EndedAt: s.EndedAt, Summary: result(s),
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

// Show writes a run for people; doing is as in Summary.
func (t Theme) Show(w io.Writer, run contract.RunRecord, steps []contract.StepRecord, doing map[string]Detail, now time.Time) error {
	out := writer{w: w}
	glyph, style := mark(run.Status)
	out.line(t.paint(bold, run.Pipeline), "  ", run.Run)
	line := t.paint(style, glyph+" "+word(run.Status)) + "  " + spent(run.Status, run.StartedAt, run.EndedAt, now) +
		t.paint(faint, "  started "+run.StartedAt.Local().Format(time.DateTime))
	if run.Reuse.From != "" {
		line += t.paint(faint, "  reruns "+run.Reuse.From)
	}
	out.line(line)
	if run.Error != "" && run.Status != dsl.StatusSucceeded {
		out.line(t.paint(style, human.Line(run.Error)))
	}
	if len(run.Params) > 0 {
		out.line(t.paint(faint, "params   "), fields(run.Params))
	}
	if len(run.Outputs) > 0 {
		out.line(t.paint(faint, "outputs  "), fields(run.Outputs))
	}
	out.line()
	if out.err != nil {
		return out.err
	}
	return t.Summary(w, steps, doing, now)
}

// fields writes named values in one line.
func fields(m map[string]any) string { return values(dsl.Check{Values: m}) }
