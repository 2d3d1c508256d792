package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

// detailRows is how many rows a table in Temporal's UI shows of what is large.
const detailRows = 60

// detailEvery spaces updates of the table where steps end in quick succession.
const detailEvery = 200 * time.Millisecond

// show updates the run's details in Temporal's UI: at once when something begins, else not more often than detailEvery.
func (r *run) show(ctx workflow.Context, now bool) {
	if t := workflow.Now(ctx); now && len(r.steps) <= detailRows || t.Sub(r.shown) >= detailEvery {
		r.shown = t
		workflow.SetCurrentDetails(ctx, r.details(dsl.StatusRunning))
	}
}

// tell says where a step is to the workflow of its run, whose details in Temporal's UI are the user's page of the run. Whether that
// hears it does not matter to the step.
func tell(ctx workflow.Context, note contract.Note) {
	parent := workflow.GetInfo(ctx).ParentWorkflowExecution
	if parent == nil {
		return
	}
	workflow.SignalExternalWorkflow(ctx, parent.ID, parent.RunID, contract.NoteSignal, note)
}

// listen puts what children tell into the run's details.
func (r *run) listen(ctx workflow.Context) {
	notes := workflow.GetSignalChannel(ctx, contract.NoteSignal)
	workflow.GoNamed(ctx, "notes", func(ctx workflow.Context) {
		for {
			var note contract.Note
			if !notes.Receive(ctx, &note) {
				return
			}
			if i, known := r.index[note.Step]; known && r.steps[i].EndedAt.IsZero() {
				r.steps[i].Done += note.Done
				r.steps[i].Summary = note.Text
				r.show(ctx, note.Done == 0)
			}
			if note.Event != "" {
				r.notify(ctx, note.Event, note.Text)
			}
		}
	})
}

// details is the run as a Markdown table.
func (r *run) details(status dsl.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** run `%s`: %s\n\n", r.in.Name, r.in.Run, status)
	b.WriteString(heads("step", "kind", "status", "time", ""))
	for i, s := range r.steps {
		if i == detailRows {
			fmt.Fprintf(&b, "\nand %d more steps", len(r.steps)-i)
			break
		}
		b.WriteString(row(named(s, r.in.Graph[i]), s.Kind, s.Status, spent(s.StartedAt, s.EndedAt), cell(account(s))))
	}
	return b.String()
}

// named is a step's name, with the section it is in when that is not the main one.
func named(s contract.StepState, node dsl.Node) string {
	if node.Section == dsl.SectionMain {
		return s.ID
	}
	return s.ID + " (" + string(node.Section) + ")"
}

// account is what is said of a step: of one with instances that runs, first how many of them have ended.
func account(s contract.StepState) string {
	if s.Of == 0 || !s.EndedAt.IsZero() {
		return s.Summary
	}
	return strings.TrimSuffix(fmt.Sprintf("%d of %d ended, %s", s.Done, s.Of, s.Summary), ", ")
}

// spent is how long something took. While it runs it is when it began: the table is not written again as time goes by.
func spent(from, to time.Time) string {
	switch {
	case from.IsZero():
		return ""
	case to.IsZero():
		return "since " + from.UTC().Format("15:04:05")
	}
	return to.Sub(from).Round(100 * time.Millisecond).String()
}

// heads begins a Markdown table.
func heads(names ...any) string {
	return row(names...) + "|" + strings.Repeat("---|", len(names)) + "\n"
}

// space stands after each cell: Temporal's UI draws columns without any space between them. It is one that Markdown does not trim.
const space = '\u2003'

// unbroken keeps text on one line.
var unbroken = strings.NewReplacer(" ", "\u00a0", "-", "\u2011")

// row is a row of a Markdown table.
func row(cells ...any) string {
	var b strings.Builder
	for i, c := range cells {
		if i > 0 {
			b.WriteRune(space)
		}
		fmt.Fprintf(&b, "| %v", c)
	}
	return b.String() + " |\n"
}

// cell makes text fit one cell of a Markdown table.
func cell(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return strings.ReplaceAll(s, "|", `\|`)
}
