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
	waits := record.Parent{Run: in.Run, Step: in.Step}
	for err == nil && waits.Run != "" { // and what runs it
		waits, err = c.run(ctx, waits.Run, waits.Step)
	}
	if err != nil {
		return fmt.Errorf("look again at what the rollout waited for: %w", err)
	}
	typ, why := fault.Gate, c.read
	switch {
	case why != "":
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

// run looks at the steps of a run that one waits for, and at what that reads itself; without one, at all main steps. It returns what runs it.
func (c *recheck) run(ctx context.Context, name, waits string) (record.Parent, error) {
	run, err := c.record(ctx, name)
	if err != nil {
		return record.Parent{}, err
	}
	sub, err := c.Submission(ctx, run.Submission)
	if err != nil {
		return record.Parent{}, err
	}
	now := run.RunRecord
	if err := c.settleRuns(ctx, sub, &now); err != nil {
		return record.Parent{}, err
	}
	maps.DeleteFunc(now.Serving, func(_, serving string) bool { return record.InFamily(serving, c.family) })
	for target, serving := range run.Serving {
		now.Serving[target] = cmp.Or(now.Serving[target], serving)
	}
	last, _ := record.SplitStep(waits)
	before := c.before(sub.Program, last, false)
	for _, node := range run.Graph {
		if last == "" && node.Section == spec.SectionMain || before[node.ID] || node.ID == last {
			if err := c.step(ctx, sub, run, now, node, node.ID == last); err != nil {
				return record.Parent{}, err
			}
		}
	}
	return run.Parent, nil
}

// step looks at the executions of a step; isLast if it is the one that waits.
func (c *recheck) step(ctx context.Context, sub *Submitted, run *begun, now record.RunRecord, node spec.Node, isLast bool) error {
	at := record.StepRef{Run: run.Run, Step: node.ID}
	step, err := c.stepRecord(ctx, at)
	if err != nil {
		return err
	}
	all := []*record.StepRecord{&step}
	if isLast {
		step = record.StepRecord{}
	} else if step.Of > 0 {
		if all, err = c.readInstances(ctx, at, 0, step.Of); err != nil {
			return err
		}
	}
	for _, rec := range all {
		if rec == nil || rec.Status == spec.StatusUpstream {
			continue
		}
		if step.Of > 0 {
			at.Instance = &record.Instance{Index: rec.Index}
		}
		if kinds[node.Kind].isRun && rec.Status == spec.StatusSucceeded {
			name, err := NewestChild(ctx, c.Store, cmp.Or(rec.ReusedFrom, run.Run), at.ID())
			if err == nil && name != "" { // else it was removed
				_, err = c.run(ctx, name, "")
			}
			if err != nil {
				return err
			}
		}
		if by := personOf(*rec); by != "" {
			c.approved = cmp.Or(c.approved, by+" approved `"+at.ID()+"`")
		}
		if sub.Program.ReadsOutside(node.ID) {
			if err := c.reads(ctx, sub, at, now, *rec); err != nil {
				return err
			}
		}
	}
	return nil
}

// personOf returns who approved a step, or let its gate pass.
func personOf(rec record.StepRecord) string {
	var person struct {
		By string `json:"by"`
	}
	if kinds[rec.Kind].asks && rec.Status == spec.StatusSucceeded {
		_ = json.Unmarshal(rec.Outputs, &person) // an approval wrote it
	}
	if d := rec.Decision; d != nil && d.Approved {
		person.By = d.By
	}
	return person.By
}

// reads compares what an execution of a step read with what that is now, and evaluates its gate with the latter.
func (c *recheck) reads(ctx context.Context, sub *Submitted, at record.StepRef, now record.RunRecord, rec record.StepRecord) error {
	var facts record.RunContext
	for _, check := range rec.Checks { // the cost is not that of now
		if usd, ok := check.Values["run.cost.usd"].(float64); ok {
			facts.CostUSD = usd
		}
	}
	_, then, err := c.vars(ctx, sub, record.StepRef{Run: at.Run, Step: at.Step}, facts, nil)
	if err != nil {
		return err
	}
	if at.Instance != nil {
		then.Instance = &spec.Instance{Index: rec.Index, Matrix: rec.Matrix, Item: rec.Item}
	}
	vars := then
	vars.Last, vars.Serving = nil, nil
	if err := c.outside(ctx, now, &vars); err != nil {
		return err
	}
	note := func(said *string, reader, target string) bool {
		old, present := sub.Program.Reads(at.Step, target, rec.Outputs, then), sub.Program.Reads(at.Step, target, rec.Outputs, vars)
		for _, name := range slices.Sorted(maps.Keys(old)) {
			if !reflect.DeepEqual(old[name], present[name]) {
				*said = cmp.Or(*said, fmt.Sprintf("`%s` was %s when %s `%s` read it, and is %s now",
					name, human.Precise(old[name]), reader, at.ID(), human.Precise(present[name])))
				return true
			}
		}
		return false
	}
	note(&c.read, "the step", c.target)
	if rec.Status != spec.StatusSucceeded {
		return nil
	}
	isChanged := note(&c.changed, "the gate of", "")
	var verdict spec.Verdict
	rec.Checks, verdict = sub.Program.EvaluateGate(at.Step, rec.Outputs, vars)
	if decide(&rec, nil); rec.Error == "" && verdict == spec.VerdictHold && isChanged {
		rec.Error = "the gate asks a person now"
	}
	if c.ended.Error == "" {
		c.ended = rec
	}
	return nil
}
