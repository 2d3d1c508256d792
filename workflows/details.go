package workflows

import (
	"fmt"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/workflows/durable"
)

// detailEvery is the minimum interval between updates of the table when steps end in quick succession.
const detailEvery = 200 * time.Millisecond

// show updates the run's details in Temporal's UI: at once when something begins, else not more often than detailEvery.
func (r *run) show(ctx workflow.Context, now bool) {
	if t := workflow.Now(ctx); now && len(r.Steps) <= durable.MaxRows || t.Sub(r.shown) >= detailEvery {
		r.shown = t
		workflow.SetCurrentDetails(ctx, r.details(spec.StatusRunning))
	}
}

// listen adds what child workflows report to the run's details.
func (r *run) listen(ctx workflow.Context) {
	notes := workflow.GetSignalChannel(ctx, contract.NoteSignal)
	workflow.GoNamed(ctx, "notes", func(ctx workflow.Context) {
		for {
			var note contract.Note
			if !notes.Receive(ctx, &note) {
				return
			}
			if i, known := r.index[note.Step]; known && r.Steps[i].EndedAt.IsZero() {
				r.Steps[i].Done += note.Done
				r.Steps[i].Summary = note.Text
				r.show(ctx, note.Done == 0)
			}
			if note.Event != "" {
				r.notify(ctx, note.Event, note.Text)
			}
		}
	})
}

// details is the run as a Markdown table.
func (r *run) details(status spec.Status) string {
	var b strings.Builder
	fmt.Fprintf(&b, "**%s** run `%s`: %s\n\n", r.in.Name, r.in.Run, status)
	b.WriteString(durable.TableHead("step", "kind", "status", "time", ""))
	for i, s := range r.Steps {
		if i == durable.MaxRows {
			fmt.Fprintf(&b, "\nand %d more steps", len(r.Steps)-i)
			break
		}
		b.WriteString(durable.TableRow(named(s, r.in.Graph[i]), s.Kind, s.Status, durable.Elapsed(s.StartedAt, s.EndedAt), durable.Cell(account(s))))
	}
	return b.String()
}

// named returns a step's name, with its section unless that is the main one.
func named(s contract.StepState, node spec.Node) string {
	if node.Section == spec.SectionMain {
		return s.ID
	}
	return s.ID + " (" + string(node.Section) + ")"
}

// account describes the state of a step; for a running step with instances it begins with the number of those that have ended.
func account(s contract.StepState) string {
	if s.Of == 0 || !s.EndedAt.IsZero() {
		return s.Summary
	}
	return strings.TrimSuffix(fmt.Sprintf("%d of %d ended, %s", s.Done, s.Of, s.Summary), ", ")
}
