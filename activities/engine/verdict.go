package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/store/registry"
)

// Verdict ends a step or an instance: it evaluates the gate, publishes if it passed, and writes the record, in this order, so a record that
// says "succeeded" exists only after all of that. A gate with the verdict hold writes no record: the person's decision comes with a second
// call.
func (e *Engine) Verdict(ctx context.Context, in contract.StepEnd) (contract.StepVerdict, error) {
	if err := e.flush(ctx, in.Ends); err != nil {
		return contract.StepVerdict{}, err
	}
	in.Ends = nil
	record, verdict, err := e.evaluate(ctx, in)
	if err != nil || verdict.Status == spec.StatusHold {
		return verdict, err
	}
	if in.Unsynced {
		e.behind.do(ctx, in.Run, func(ctx context.Context) error { return e.keep(ctx, in, record) })
	} else if err := e.keep(ctx, in, record); err != nil {
		return verdict, err
	}
	if in.Instance == nil {
		result, err := e.resultOf(ctx, record)
		if err != nil {
			return verdict, err
		}
		e.results.put(in.Run+"/"+in.Step, result)
	}
	if record.Status == spec.StatusSucceeded {
		verdict.Next = e.resolveAll(ctx, in.Next, nil)
	}
	return verdict, nil
}

// evaluate makes a step's record and verdict.
func (e *Engine) evaluate(ctx context.Context, in contract.StepEnd) (record.StepRecord, contract.StepVerdict, error) {
	var verdict contract.StepVerdict
	record, err := e.recordOf(ctx, in)
	if err == nil && in.Status == spec.StatusSucceeded {
		verdict, err = e.evaluateGate(ctx, in, &record)
	}
	if err != nil || verdict.Status == spec.StatusHold {
		return record, verdict, err
	}
	verdict.Status, verdict.Error, verdict.ErrorType = record.Status, record.Error, record.ErrorType
	verdict.Summary, verdict.Checks, verdict.CostUSD = cmp.Or(record.Summary, summary(record.Checks)), record.Checks, record.CostUSD
	verdict.CostUnknown = record.CostUnknown
	return record, verdict, nil
}

// resolveAll resolves steps ahead of their start. One that cannot be resolved now is left to an attempt of its own, which says why.
func (e *Engine) resolveAll(ctx context.Context, steps []contract.ResolveInput, known map[string]spec.StepResult) []*contract.Resolved {
	all := make([]*contract.Resolved, len(steps))
	for i, in := range steps {
		if r, err := e.resolve(ctx, in, known); err == nil {
			all[i] = &r
		}
	}
	return all
}

// keep writes the record, and makes the result findable by its key. A result gets no younger by being taken over.
func (e *Engine) keep(ctx context.Context, in contract.StepEnd, rec record.StepRecord) error {
	opts := store.WriteOptions{Unsynced: in.Unsynced}
	if rec.Status == spec.StatusSucceeded && rec.Key != "" && in.ReusedFrom == "" {
		opts.LinkAs = record.CacheKey(rec.Key)
	}
	return e.Store.PutJSON(ctx, record.Key(in.StepRef), record.Result{StepRecord: rec, Cached: record.Cached{At: in.StepRef}}, opts)
}

// recordOf is a step's record before its gate was evaluated.
func (e *Engine) recordOf(ctx context.Context, in contract.StepEnd) (record.StepRecord, error) {
	rec := record.StepRecord{
		Step: in.Step, Kind: in.Kind, Status: in.Status, Error: in.Error, ErrorType: in.ErrorType,
		StartedAt: in.Now, EndedAt: in.EndedAt, Attempts: in.Attempts, ReusedFrom: in.ReusedFrom, Key: in.Key,
		Decision: in.Decision, Earlier: in.Earlier, CostUSD: in.CostUSD, CostUnknown: in.CostUnknown, Summary: in.Line,
	}
	var err error
	if in.Instance != nil {
		if err = e.describe(ctx, *in.Instance, &rec); err != nil {
			return rec, err
		}
	}
	if in.Output.Unkeyed {
		rec.Key = ""
	} else if in.Key != "" {
		rec.Parts, _ = e.keys.find(in.Key)
	}
	if !in.Output.IsZero() {
		rec.Outputs, err = record.LoadOutputs(ctx, e.Store, in.Output)
	}
	rec.Account = in.Output.Account
	if trained := rec.Trained(); trained != nil && in.ReusedFrom == "" {
		var cost fault.Costs
		_ = json.Unmarshal(trained, &cost) // a training wrote it
		rec.CostUSD, rec.CostUnknown = cost.USD, cost.Unknown
	}
	return rec, err
}

// describe adds to an instance's record which one it is.
func (e *Engine) describe(ctx context.Context, of record.Instance, record *record.StepRecord) error {
	record.Index = of.Index
	if of.List == "" {
		return nil
	}
	all, err := e.list(ctx, of.List)
	if err != nil {
		return err
	}
	record.Matrix, record.Item = all[of.Index].Matrix, all[of.Index].Item
	return nil
}

// evaluateGate applies the step's gate to its outputs.
func (e *Engine) evaluateGate(ctx context.Context, in contract.StepEnd, record *record.StepRecord) (verdict contract.StepVerdict, err error) {
	sub, node, vars, err := e.stepVars(ctx, in.StepRef, in.RunContext, nil)
	if err != nil {
		return verdict, err
	}
	if kinds[in.Kind].cleans {
		if record.Outputs, err = e.compare(ctx, sub, in.StepRef, vars, record.Outputs); err != nil {
			return verdict, err
		}
	}
	record.Checks, record.Verdict = sub.Program.EvaluateGate(in.Step, record.Outputs, vars)
	said := decisions(in)
	if open := undecided(record.Checks, said); record.Verdict == spec.VerdictHold && open >= 0 {
		verdict.Status = spec.StatusHold
		verdict.Hold = hold(sub, in, record.Checks[open], open)
		return verdict, nil
	}
	decide(record, said)
	if record.Status != spec.StatusSucceeded {
		return verdict, nil
	}
	if node.Fan == spec.FanRepeat && in.Instance != nil {
		if verdict.Done, err = sub.Program.Until(in.Step, record.Outputs, vars); err != nil {
			return verdict, fault.New(fault.Invalid, err.Error(), err)
		}
	}
	verdict.Published, record.Published, err = e.publish(ctx, sub, in, vars, record.Outputs)
	return verdict, err
}

// decisions are what people said of the conditions of a gate, by the condition's place.
func decisions(in contract.StepEnd) map[int]record.Decision {
	said := map[int]record.Decision{}
	for _, d := range in.Earlier {
		said[d.Check-1] = d
	}
	if in.Decision != nil {
		said[in.Decision.Check-1] = *in.Decision
	}
	return said
}

// undecided is the place of the next condition that somebody has to be asked about; negative when there is none, or one was rejected.
func undecided(checks []spec.Check, said map[int]record.Decision) int {
	for i, c := range checks {
		if !holds(c) {
			continue
		}
		d, decided := said[i]
		switch {
		case !decided:
			return i
		case !d.Approved:
			return -1
		}
	}
	return -1
}

// decide turns the verdicts of a gate, and the words of people on those that hold, into the step's status.
func decide(record *record.StepRecord, said map[int]record.Decision) {
	for i, c := range record.Checks {
		decision, decided := said[i]
		switch {
		case c.Verdict == spec.VerdictPass:
			continue
		case holds(c) && (!decided || decision.Approved): // nobody is asked where another condition decides
			continue
		}
		record.Status, record.Error, record.ErrorType = spec.StatusFailed, refusal(c), fault.Gate
		if holds(c) && decided {
			record.Error += "; " + decision.String()
		}
		if c.OnFail == spec.OnFailStop && c.Verdict == spec.VerdictFail {
			record.Status = spec.StatusDeclined
			continue // a later condition may still fail the step outright
		}
		return
	}
}

// holds reports whether a condition that is not met leaves it to a person.
func holds(c spec.Check) bool { return c.Verdict == spec.VerdictFail && c.OnFail == spec.OnFailHold }

// holdPass is the default of a hold that lets the step pass when nobody decides.
const holdPass = "pass"

// hold is what a person is asked about the condition of a gate that is at a place.
func hold(sub *Submitted, in contract.StepEnd, c spec.Check, at int) *contract.ApprovalInput {
	ask := &contract.ApprovalInput{Run: in.Run, Step: in.ID(), Seen: refusal(c), Users: users(sub, c.Hold.Who), Check: at + 1}
	ask.Approval.Who = c.Hold.Who
	if c.Hold.Timeout > 0 {
		ask.Approval.Timeout = &c.Hold.Timeout
	}
	if c.Hold.Default == holdPass {
		ask.Approval.Default = contract.DefaultApprove
	}
	return ask
}

// publish registers the outputs a step publishes, one version per run and step, so that a retry writes the same again. It returns those
// that are registered, and the words for it in the step's record, also for those that are not registered again and are not the current ones.
func (e *Engine) publish(
	ctx context.Context, sub *Submitted, in contract.StepEnd, vars spec.Vars, outputs json.RawMessage,
) (done []record.Version, words []string, err error) {
	at := in.StepRef
	names := sub.Program.Publishes(at.Step)
	if len(names) == 0 {
		return nil, nil, nil
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(outputs, &fields); err != nil {
		return nil, nil, fmt.Errorf("publish: the outputs of %s: %w", at.Step, err)
	}
	resolved, err := sub.Program.Resolve(at.Step, vars)
	if err != nil {
		return nil, nil, fault.New(fault.Invalid, err.Error(), err)
	}
	artifacts := artifact.In(outputs)
	for _, output := range slices.Sorted(maps.Keys(names)) {
		ref, ok := artifacts[output]
		if !ok || ref.Type != artifact.Dataset && ref.Type != artifact.Model {
			return nil, nil, fault.New(fault.Invalid, "publish: output `"+output+"` of "+at.Step+" is not a dataset or a model", nil)
		}
		version := registry.Published{Name: names[output], Artifact: ref, Run: at.Run, Step: at.ID(), At: at.Now}
		if in.ReusedFrom != "" {
			made, err := e.madeAt(ctx, in.StepRef, in.ReusedFrom, in.Key)
			if err != nil {
				return nil, nil, err
			}
			version.Run, version.Step, version.By = made.Run, made.ID(), at.Run
		}
		if err := registry.AddLineage(ctx, e.Store, resolved.Spec, fields, &version); err != nil {
			return nil, nil, err
		}
		switch registered, behind, err := registry.Publish(ctx, e.Store, version); {
		case err != nil:
			return nil, nil, err
		case registered || behind != "":
			if registered {
				done = append(done, record.Version{Type: ref.Type, Name: names[output]})
			}
			published := string(ref.Type) + " " + names[output] // see versionOf
			if behind != "" {
				published += " (" + behind + ")"
			}
			words = append(words, published)
		}
	}
	return done, words, nil
}

// madeAt returns the step that made a reused result: the step of the same name in that run, or the one that the step cache names, because a
// step with another name may have the same key.
func (e *Engine) madeAt(ctx context.Context, at record.StepRef, reusedFrom, key string) (record.StepRef, error) {
	at.Run = reusedFrom
	rec, err := e.madeFrom(ctx, at, key)
	if err != nil || rec.Key != "" || key == "" {
		return at, err
	}
	var entry record.Cached
	if err := e.Store.GetJSON(ctx, record.CacheKey(key), &entry); err == nil && entry.At.Run == at.Run {
		return entry.At, nil
	}
	return at, nil
}

// versionOf reads what publish wrote into a step's record.
func versionOf(words string) record.Version {
	typ, name, _ := strings.Cut(words, " ")
	name, _, _ = strings.Cut(name, " ")
	return record.Version{Type: artifact.Type(typ), Name: name}
}

// refusal is one line on a condition that did not hold: what it says, or its expression, with what it saw.
func refusal(c spec.Check) string {
	if c.Verdict == spec.VerdictError {
		return fmt.Sprintf("gate `%s` could not be evaluated: %s", c.Expression, c.Error)
	}
	said := "gate `" + c.Expression + "` failed"
	if c.Message != "" {
		said = c.Message + " (`" + c.Expression + "`)"
	}
	if seen := values(c); len(seen) > 0 {
		said += ": " + strings.Join(seen, ", ")
	}
	return said
}

// summary is one line on a gate that passed: every value it saw, once.
func summary(checks []spec.Check) string {
	var seen []string
	for _, c := range checks {
		for _, v := range values(c) {
			if !slices.Contains(seen, v) {
				seen = append(seen, v)
			}
		}
	}
	return strings.Join(seen, ", ")
}

// values are what a condition saw, each with its name.
func values(c spec.Check) (seen []string) {
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		seen = append(seen, name+" = "+human.Precise(c.Values[name]))
	}
	return seen
}
