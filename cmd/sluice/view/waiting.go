package view

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store/record"
)

// Waiting writes what waits for a person: whom, until when, for what, and the command that decides.
func (t Theme) Waiting(w io.Writer, all []contract.ApprovalState, now time.Time) error {
	out := writer{w: w}
	for _, a := range all {
		question, command := Question(a, now)
		out.folded(t, 2, t.paint(yellow, "◆ "+question))
		out.line(t.paint(faint, "  "+command))
	}
	return out.err
}

// Question is what somebody is asked, with whom and until when, and the command that answers, in a line each.
func Question(a contract.ApprovalState, now time.Time) (question, command string) {
	whom := "anyone"
	if len(a.Approval.Who) > 0 {
		whom = strings.Join(a.Approval.Who, ", ")
	}
	question = a.Step + " waits for " + whom
	if !a.Until.IsZero() {
		byDefault := "rejects"
		if a.Approval.Default == contract.DefaultApprove {
			byDefault = "approves"
		}
		question += fmt.Sprintf(" until %s (%s more, then the default %s)", a.Until.Local().Format("2006-01-02 15:04 MST"),
			human.Duration(max(0, a.Until.Sub(now))), byDefault)
	}
	if asked := human.Line(a.Question()); asked != "" {
		question += ": " + asked
	}
	return human.Printable(question), human.Printable("sluice approve " + a.Run + " " + a.Step + form(a))
}

// form is the part of the command that fills in the form.
func form(a contract.ApprovalState) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(a.Approval.Fields)) {
		f := a.Approval.Fields[name]
		value := strings.ToUpper(f.Type)
		if len(f.Values) > 0 {
			value = strings.Join(f.Values, "|")
		}
		option := " --field " + name + "=" + value
		if !f.Required {
			option = " [" + option[1:] + "]"
		}
		b.WriteString(option)
	}
	return b.String()
}

// Decided says what was decided.
func (t Theme) Decided(w io.Writer, run, step string, d record.Decision) error {
	out := writer{w: w}
	style := red
	if d.Approved {
		style = green
	}
	line := step + " of " + run + ": " + t.paint(style, decision(d))
	if len(d.Fields) > 0 {
		line += t.paint(faint, "   "+human.Printable(fields(d.Fields)))
	}
	out.line(line)
	return out.err
}

// decision is one line: approved or rejected, by whom and why.
func decision(d record.Decision) string {
	d.Reason = human.Line(d.Reason)
	return human.Printable(d.String())
}
