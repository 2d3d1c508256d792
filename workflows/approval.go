package workflows

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/workflows/durable"
)

// Approval waits until a person decides. Decisions arrive by an update, which is rejected if it is not valid, or by a signal. When its
// timeout expires, its default applies.
func Approval(ctx workflow.Context, in contract.ApprovalInput) (record.Decision, error) {
	a := &approval{state: contract.ApprovalState{ApprovalInput: in, Since: workflow.Now(ctx)}}
	timeout := in.Limit()
	if timeout > 0 {
		a.state.Until = a.state.Since.Add(timeout)
	}
	if err := workflow.SetQueryHandler(ctx, contract.StateQuery, a.query); err != nil {
		return record.Decision{}, err
	}
	err := workflow.SetUpdateHandlerWithOptions(ctx, contract.DecideUpdate, a.decide, workflow.UpdateHandlerOptions{Validator: a.validate})
	if err != nil {
		return record.Decision{}, err
	}
	a.listen(ctx)
	workflow.SetCurrentDetails(ctx, a.details())
	if err := a.wait(ctx, timeout); err != nil {
		return record.Decision{}, err
	}
	workflow.SetCurrentDetails(ctx, a.details())
	// Answer an update that arrived at the last moment before the workflow ends.
	return *a.state.Decision, workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

// approval is the state of one approval workflow.
type approval struct {
	state   contract.ApprovalState
	refused string // why the last decision by signal was not taken, which its sender does not hear
}

func (a *approval) query() (contract.ApprovalState, error) { return a.state, nil }

// wait returns when somebody has decided, or when the default applies.
func (a *approval) wait(ctx workflow.Context, timeout time.Duration) error {
	decided := func() bool { return a.state.Decision != nil }
	if timeout <= 0 {
		return workflow.Await(ctx, decided)
	}
	inTime, err := durable.Await(ctx, timeout, "timeout of "+a.state.Step, decided)
	if err == nil && !inTime {
		d := &record.Decision{
			Approved: a.state.Approval.Default == contract.DefaultApprove, At: workflow.Now(ctx),
			Reason: "no decision was made within " + spec.Duration(timeout).String(),
		}
		if d.Approved { // the form has its defaults, unless somebody would have had to fill it in
			d.Fields, _ = a.state.Approval.CheckFields(nil)
		}
		a.state.Decision = d
	}
	return err
}

// validate rejects an invalid decision. It changes nothing.
func (a *approval) validate(d contract.Decide) error {
	switch {
	case a.state.Decision != nil:
		return fault.New(fault.Invalid, "it has already been decided: "+a.state.Decision.String(), nil)
	case d.By == "":
		return fault.New(fault.Invalid, "`by` is empty: it must be the name of the user who decides", nil)
	case len(a.state.Users) > 0 && !slices.Contains(a.state.Users, d.By), strings.HasPrefix(d.By, contract.OIDCPrefix):
		return fault.New(fault.Invalid, d.By+" may not decide; those who may: "+strings.Join(a.state.Users, ", "), nil)
	case !d.Approve:
		return nil // who says no need not fill in the form
	}
	if _, err := a.state.Approval.CheckFields(d.Fields); err != nil {
		return fault.New(fault.Invalid, err.Error(), nil)
	}
	return nil
}

func (a *approval) decide(ctx workflow.Context, d contract.Decide) (record.Decision, error) {
	decision := record.Decision{Approved: d.Approve, By: d.By, At: workflow.Now(ctx), Reason: d.Reason}
	if d.Approve {
		var err error
		if decision.Fields, err = a.state.Approval.CheckFields(d.Fields); err != nil {
			return decision, fault.New(fault.Invalid, err.Error(), nil)
		}
	}
	a.state.Decision = &decision
	return decision, nil
}

// listen accepts decisions by signal, which every version of Temporal's UI can send.
func (a *approval) listen(ctx workflow.Context) {
	signals := workflow.GetSignalChannel(ctx, contract.DecideUpdate)
	workflow.Go(ctx, func(ctx workflow.Context) {
		for {
			var d contract.Decide
			if !signals.Receive(ctx, &d) {
				return
			}
			err := a.validate(d)
			if err == nil {
				_, err = a.decide(ctx, d)
			}
			if err != nil {
				workflow.GetLogger(ctx).Warn("a decision was rejected", "by", d.By, "error", err)
				a.refused = fault.Message(err)
				workflow.SetCurrentDetails(ctx, a.details())
			}
		}
	})
}

// details returns the question for Temporal's UI, with instructions for answering it there.
func (a *approval) details() string {
	s := a.state
	text := fmt.Sprintf("**%s** of run `%s`: %s\n\n", s.Step, s.Run, s.Question())
	if d := s.Decision; d != nil {
		return text + d.String()
	}
	who := "Anyone"
	if len(s.Users) > 0 {
		who = strings.Join(s.Users, ", ")
	}
	text += who + " may decide"
	if !s.Until.IsZero() {
		does := "rejects"
		if s.Approval.Default == contract.DefaultApprove {
			does = "approves"
		}
		text += ", until " + s.Until.UTC().Format("2006-01-02 15:04") + " UTC; then the default " + does
	}
	payload, flags, form := "{\n  \"approve\": true,\n  \"by\": \"YOUR NAME\",\n  \"reason\": \"\"", "", "" // in short lines: the UI cuts long ones
	if names := s.Approval.FieldNames(); len(names) > 0 {
		var fields []string
		for _, name := range names {
			f := s.Approval.Fields[name]
			values := strings.ToUpper(f.Type)
			if len(f.Values) > 0 {
				values = strings.Join(f.Values, "|")
			}
			fields = append(fields, fmt.Sprintf("    %q: %q", name, values))
			flags += fmt.Sprintf(" --field %s='%s'", name, values)
			form += "\n- `" + name + "`: " + formField(f)
		}
		payload += ",\n  \"fields\": {\n" + strings.Join(fields, ",\n") + "\n  }"
	}
	text += fmt.Sprintf(".\n\nHere: *More Actions*, *Send an Update*, `%s`, with\n\n```json\n%s\n}\n```\n\n`\"approve\": false` rejects.",
		contract.DecideUpdate, payload)
	if form != "" {
		text += " The fields:\n" + form
	}
	text += fmt.Sprintf("\n\nIn a shell: `sluice approve %s %s%s`, or `sluice reject %s %s`.", s.Run, s.Step, flags, s.Run, s.Step)
	if a.refused != "" {
		text += "\n\nA decision was rejected: " + a.refused
	}
	return text
}

// formField describes the values that a field of the form accepts.
func formField(f spec.Field) string {
	takes := f.Type
	if len(f.Values) > 0 {
		takes = strings.Join(f.Values, ", ")
	}
	switch {
	case f.Default != nil:
		takes += fmt.Sprintf(" (default %v)", f.Default)
	case f.Required:
		takes += " (required)"
	}
	if f.Description != "" {
		takes += ": " + f.Description
	}
	return takes
}
