package engine

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/human"
	"github.com/sluiceml/sluice/store/record"
)

// Recheck reports why a rollout that has its target now must not begin: the gates that it waited for do not pass with what `last` and `serving`
// are now, a person approved before these changed, or something else than a gate read what its target served before. A change by the run
// itself, or another of its family, is none.
func (e *Engine) Recheck(ctx context.Context, in record.StepInput, target string) error {
	run, err := e.record(ctx, in.Run)
	if err != nil {
		return err
	}
	c := &recheck{Engine: e, target: target}
	if c.family, err = record.Family(ctx, e.Store, run.RunRecord); err != nil {
		return err
	}
	for id := in.Step; ; { // of the run, and of the step that runs it
		step, _ := record.SplitStep(id)
		if err := c.steps(ctx, run, step); err != nil {
			return err
		}
		if run.Parent.Run == "" {
			break
		}
		id = run.Parent.Step
		if run, err = e.record(ctx, run.Parent.Run); err != nil {
			return err
		}
	}
	typ, why := fault.Gate, ""
	switch {
	case c.read != "":
		why = c.read
	case c.changed != "" && c.approved != "":
		why = c.changed + ", and " + c.approved + " before this was known"
	case c.ended.Error != "":
		if why = c.ended.Error; c.changed != "" {
			why = c.changed + ": " + why
		}
		if c.ended.Status == spec.StatusDeclined {
			typ = fault.Declined
		}
	default:
		return nil
	}
	return fault.Errorf(typ, "not released: %s\nhelp: `sluice rerun %s` decides again", why, c.family)
}

// recheck is one call of Recheck.
type recheck struct {
	*Engine
	target, family string
	// read is what something else than a gate read and has changed, changed what a gate did, approved who let a step pass, and ended how the first
	// step ends now whose gate does not pass.
	read, changed, approved string
	ended                   record.StepRecord
}

// steps looks at those that a step of a run waited for, and at what the step itself reads; without a step, at all main steps of the run.
func (c *recheck) steps(ctx context.Context, run *begun, last string) error {
	sub, err := c.Submission(ctx, run.Submission)
	if err != nil {
		return err
	}
	now := run.RunRecord
	if err := c.settleRuns(ctx, sub, &now); err != nil {
		return err
	}
	for target, serving := range now.Serving {
		if !record.InFamily(serving, c.family) {
			continue
		}
		if now.Serving[target] = run.Serving[target]; now.Serving[target] == "" {
			delete(now.Serving, target)
		}
	}
	before := map[string]bool{last: true}
	for _, node := range slices.Backward(run.Graph) {
		if before[node.ID] {
			for id := range sub.Program.Needs(node.ID) {
				before[id] = true
			}
		}
	}
	for _, node := range run.Graph {
		if last == "" && node.Section == spec.SectionMain || before[node.ID] {
			if err := c.step(ctx, sub, run, now, node, node.ID == last); err != nil {
				return fmt.Errorf("look again at what the rollout waited for: %s: %w", node.ID, err)
			}
		}
	}
	return nil
}

// step looks at the executions of a step; isRollout if it has only begun.
func (c *recheck) step(ctx context.Context, sub *Submitted, run *begun, now record.RunRecord, node spec.Node, isRollout bool) error {
	at := record.StepRef{Run: run.Run, Step: node.ID}
	step, err := c.stepRecord(ctx, at)
	if err != nil {
		return err
	}
	all := []*record.StepRecord{&step}
	if step.Of > 0 && !isRollout {
		if all, err = c.readInstances(ctx, at, 0, step.Of); err != nil {
			return err
		}
	}
	reads := len(sub.Program.Outside(node.ID)) > 0
	for _, rec := range all {
		if rec == nil {
			continue
		}
		id := node.ID
		if step.Of > 0 && !isRollout {
			at.Instance = &record.Instance{Index: rec.Index}
			id = at.ID()
		}
		if err := c.child(ctx, run, node, id, *rec); err != nil {
			return err
		}
		c.person(node, id, *rec)
		if !reads || rec.Status == spec.StatusUpstream {
			continue
		}
		if err := c.reads(ctx, sub, at, now, *rec, isRollout); err != nil {
			return err
		}
	}
	return nil
}

// child looks at all steps of the child run of a step.
func (c *recheck) child(ctx context.Context, run *begun, node spec.Node, id string, rec record.StepRecord) error {
	if !kinds[node.Kind].isRun || rec.Status != spec.StatusSucceeded {
		return nil
	}
	name, err := NewestChild(ctx, c.Store, cmp.Or(rec.ReusedFrom, run.Run), id)
	if err != nil || name == "" {
		return err
	}
	child, err := c.record(ctx, name)
	if err != nil {
		return err
	}
	return c.steps(ctx, child, "")
}

// person notes who approved a step, or let its gate pass.
func (c *recheck) person(node spec.Node, id string, rec record.StepRecord) {
	var by struct{ By string }
	if kinds[node.Kind].asks && rec.Status == spec.StatusSucceeded {
		_ = json.Unmarshal(rec.Outputs, &by) // it was written by an approval
	}
	decisions := rec.Earlier
	if rec.Decision != nil {
		decisions = append(slices.Clip(decisions), *rec.Decision)
	}
	for _, d := range decisions {
		if d.Approved {
			by.By = cmp.Or(by.By, d.By)
		}
	}
	if by.By != "" {
		c.approved = cmp.Or(c.approved, by.By+" approved `"+id+"`")
	}
}

// reads compares what an execution of a step read with what that is now, and evaluates its gate with the latter.
func (c *recheck) reads(ctx context.Context, sub *Submitted, at record.StepRef, now record.RunRecord, rec record.StepRecord, isRollout bool) error {
	var context record.RunContext
	for _, check := range rec.Checks { // the cost is not that of now
		if usd, ok := check.Values["run.cost.usd"].(float64); ok {
			context.CostUSD = usd
		}
	}
	_, then, err := c.vars(ctx, sub, record.StepRef{Run: at.Run, Step: at.Step}, context, nil)
	if err != nil {
		return err
	}
	if at.Instance != nil {
		then.Instance = &spec.Instance{Index: rec.Index, Matrix: rec.Matrix, Item: rec.Item}
		if rec.Matrix == nil && rec.Item == nil && rec.Index > 0 {
			before, err := c.stepRecord(ctx, record.StepRef{Run: at.Run, Step: at.Step, Instance: &record.Instance{Index: rec.Index - 1}})
			if err != nil {
				return err
			}
			then.Instance.Previous = before.Outputs
		}
	}
	vars := then
	vars.Last, vars.Serving = nil, nil
	if err := c.outside(ctx, now, &vars); err != nil {
		return err
	}
	note := func(said *string, what, target string) bool {
		old, present := sub.Program.Reads(at.Step, target, rec.Outputs, then), sub.Program.Reads(at.Step, target, rec.Outputs, vars)
		for _, name := range slices.Sorted(maps.Keys(old)) {
			if !reflect.DeepEqual(old[name], present[name]) {
				*said = cmp.Or(*said, fmt.Sprintf("`%s` was %s when %s `%s` read it, and is %s now", name, human.Precise(old[name]), what, at.ID(), human.Precise(present[name])))
				return true
			}
		}
		return false
	}
	note(&c.read, "the step", c.target)
	if isRollout || rec.Status != spec.StatusSucceeded {
		return nil
	}
	isChanged := note(&c.changed, "the gate of", "")
	again := rec
	var verdict spec.Verdict
	again.Checks, verdict = sub.Program.EvaluateGate(at.Step, rec.Outputs, vars)
	decide(&again, nil)
	if again.Error == "" && verdict == spec.VerdictHold && isChanged {
		again.Error = "the gate asks a person now"
	}
	if c.ended.Error == "" {
		c.ended = again
	}
	return nil
}
