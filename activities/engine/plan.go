package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/compile/trtexec"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// PlanInput describes a run that may be started.
type PlanInput struct {
	record.Submission
	Program *dsl.Program
	// Files of the workspace, which need not be in the store.
	Files []artifact.File
	// Reuse as the run would have it. Its From is also the run that is compared with; else that is the pipeline's newest.
	Reuse record.Reuse
	Now   time.Time
	// Python as in Engine. Nil: what is installed where the run would be done is not known here, and taken to be what it was.
	Python func(ctx context.Context, submitted string) (string, error)
	// Platform as in Engine. Nil as Python.
	Platform func(context.Context) (trtexec.Platform, error)
	// Here as in Engine.
	Here bool
}

// futureRun names the run that a plan is about. It exists in the memory of the planner's engine alone.
const futureRun = "future"

// NewPlan returns what a run would do with each step, from the contents of the store alone; it stores nothing. If a step's result would be
// reused, it is known in advance, so the steps after it can be planned too.
func NewPlan(ctx context.Context, s *store.Store, in PlanInput) (contract.Plan, error) {
	f := &planner{
		PlanInput: in, engine: NewEngine(s), known: map[string]record.StepRecord{}, nodes: map[string]spec.Node{},
		out: contract.Plan{Steps: map[string]contract.StepPlan{}},
	}
	f.engine.Python, f.engine.Platform, f.engine.Here = in.Python, in.Platform, in.Here
	var err error
	if f.history, err = loadHistory(ctx, s, in.Program.Pipeline().Name, in.Reuse.From); err != nil {
		return f.out, err
	}
	if err := f.begin(ctx); err != nil {
		return f.out, err
	}
	f.engine.results = newRecent[spec.StepResult](len(in.Program.Graph())) // none of what is known is forgotten
	ends := map[string]float64{}
	for _, node := range in.Program.Graph() { // in topological order
		f.nodes[node.ID] = node
		look, err := f.look(ctx, node)
		if err != nil {
			return f.out, fmt.Errorf("step %s: %w", node.ID, err)
		}
		f.history.estimate(node, &look)
		for _, id := range node.After {
			ends[node.ID] = max(ends[node.ID], ends[id])
		}
		ends[node.ID] += look.Seconds
		if node.Section != spec.SectionOnFailure {
			f.out.Seconds, f.out.CostUSD = max(f.out.Seconds, ends[node.ID]), f.out.CostUSD+look.CostUSD
		}
		f.out.Steps[node.ID] = look
	}
	return f.out, nil
}

// planner is the state of one plan in the making.
type planner struct {
	PlanInput
	engine  *Engine
	sub     *Submitted
	nodes   map[string]spec.Node
	history *history
	// known are the ends of steps that can be told in advance.
	known map[string]record.StepRecord
	out   contract.Plan
}

// begin settles what Begin would settle, in the engine's memory.
func (f *planner) begin(ctx context.Context) error {
	f.sub = &Submitted{Submission: f.Submission, Program: f.Program, files: append([]artifact.File{}, f.Files...)} // not nil
	var bad document.Diagnostics
	if f.sub.ParamValues, bad = f.sub.given(f.Program); bad.HasErrors() {
		return fault.New(fault.Invalid, bad.Text(false), nil)
	}
	b := newBegun(record.RunRecord{
		Run: futureRun, Pipeline: f.Program.Pipeline().Name, StartedAt: f.Now, Graph: f.Program.Graph(),
	})
	f.engine.begun.put(futureRun, b)
	return f.engine.settle(ctx, f.sub, &b.RunRecord)
}

// look says what would become of a step.
func (f *planner) look(ctx context.Context, node spec.Node) (contract.StepPlan, error) {
	switch {
	case node.Section == spec.SectionOnFailure:
		return contract.StepPlan{Action: contract.ActionNone, Reason: "it runs when a step fails"}, nil
	case node.Section == spec.SectionFinally:
		return contract.StepPlan{Action: contract.ActionRun, Reason: "always, at the end"}, nil
	}
	if open := f.open(node); len(open) > 0 {
		return contract.StepPlan{Action: contract.ActionRun, After: open}, nil
	}
	if look, isOut := f.admit(node); isOut {
		return look, nil
	}
	_, vars, err := f.engine.vars(ctx, f.sub, record.StepRef{Run: futureRun, Step: node.ID}, record.RunContext{}, nil)
	if err != nil {
		return contract.StepPlan{}, err
	}
	switch holds, values, err := f.Program.When(node.ID, vars); {
	case err != nil:
		return contract.StepPlan{Action: contract.ActionRun, Reason: "it would fail: " + err.Error()}, nil
	case !holds:
		f.settle(node, record.StepRecord{Status: spec.StatusSkipped})
		return contract.StepPlan{Action: contract.ActionSkip, Reason: strings.TrimSuffix("its `when` is false: "+seen(values), ": ")}, nil
	}
	switch node.Fan {
	case spec.FanNone:
		return f.plain(ctx, node, vars)
	case spec.FanRepeat:
		return f.repeat(ctx, node, vars)
	default:
		return f.fan(ctx, node, vars)
	}
}

// seen writes what an expression read.
func seen(values map[string]any) string { return summary([]spec.Check{{Values: values}}) }

// open lists the steps that node needs and of which the end is not known.
func (f *planner) open(node spec.Node) []string {
	return slices.DeleteFunc(slices.Clone(node.After), func(id string) bool { _, known := f.known[id]; return known })
}

// admit reports whether the known ends of the steps that node needs keep it from running.
func (f *planner) admit(node spec.Node) (look contract.StepPlan, isOut bool) {
	for _, id := range node.After {
		need := node.Needs[id]
		end := need.Met(f.known[id].Status, f.nodes[id].ContinueOnError)
		if end == spec.StatusPending {
			continue
		}
		look = contract.StepPlan{Action: contract.ActionNone, Reason: fmt.Sprintf("it needs `%s: %s`", id, need)}
		if end == spec.StatusSkipped {
			look.Action = contract.ActionSkip
		}
		f.settle(node, record.StepRecord{Status: end})
		return look, true
	}
	return contract.StepPlan{}, false
}

// settle notes an end that is known in advance, for the steps after it.
func (f *planner) settle(node spec.Node, record record.StepRecord) {
	f.known[node.ID] = record
	record.Kind = node.Kind
	result := spec.StepResult{Status: record.Status, Outputs: record.Outputs, Error: record.Error, Digest: digestOf(record, record.Outputs)}
	f.engine.results.put(futureRun+"/"+node.ID, result)
}

// plain looks at a step that runs once.
func (f *planner) plain(ctx context.Context, node spec.Node, vars spec.Vars) (contract.StepPlan, error) {
	found, look, err := f.one(ctx, node, vars, nil, "")
	if err != nil || found == nil {
		return look, err
	}
	look = contract.StepPlan{Action: contract.ActionReuse, From: found.run}
	rec := found.record
	rec.Outputs, err = record.LoadOutputs(ctx, f.engine.Store, record.StepOutput{Outputs: rec.Outputs, OutputsRef: rec.OutputsRef})
	if err != nil {
		return look, err
	}
	if f.evaluateGate(node, vars, &rec, &look) {
		f.settle(node, rec)
	}
	return look, nil
}

// evaluateGate applies the step's gate as it is now to a result that would be taken over. It reports false when a person would decide.
func (f *planner) evaluateGate(node spec.Node, vars spec.Vars, record *record.StepRecord, look *contract.StepPlan) bool {
	checks, verdict := f.Program.EvaluateGate(node.ID, record.Outputs, vars)
	if verdict == spec.VerdictHold {
		look.Reason = "its gate would ask a person"
		return false
	}
	record.Checks = checks
	if decide(record, nil); record.Status != spec.StatusSucceeded {
		look.Reason = record.Error
	}
	return true
}

// one looks for the result of one execution: of a step, or of an instance, which is of a list unless the step is repeated. It says what would
// become of that where there is none.
func (f *planner) one(
	ctx context.Context, node spec.Node, vars spec.Vars, instance *spec.Instance, list string,
) (found *hit, look contract.StepPlan, err error) {
	in := contract.ResolveInput{StepRef: record.StepRef{Run: futureRun, Step: node.ID, Now: f.Now}, Reuse: f.Reuse}
	if vars.Instance = instance; instance != nil {
		in.Instance = &record.Instance{Index: instance.Index, List: list}
	}
	resolved, err := f.Program.Resolve(node.ID, vars)
	if err != nil { // it would be the run's failure, not the plan's
		return nil, contract.StepPlan{Action: contract.ActionRun, Reason: "it would fail: " + err.Error()}, nil
	}
	parts, why, err := f.engine.keyParts(ctx, f.sub, in.Run, node, vars, &resolved)
	if err != nil || why.fails {
		return nil, contract.StepPlan{Action: contract.ActionRun, Reason: why.reason}, err
	}
	if f.Python == nil {
		if err := f.history.addParts(ctx, in.StepRef, parts, partPython); err != nil {
			return nil, look, err
		}
	}
	if f.Platform == nil {
		if err := f.history.addParts(ctx, in.StepRef, parts, partGPU, partComputeCapability, partDriver, partTensorRT); err != nil {
			return nil, look, err
		}
	}
	if in.Reuse.NoCache, err = f.engine.withoutCache(ctx, in.Reuse, node.ID); err != nil {
		return nil, look, err
	}
	key := keyOf(parts)
	if found, err := f.engine.lookup(ctx, f.Program, node, in, vars, resolved.Cache, key); found != nil || err != nil {
		return found, look, err
	}
	if kinds[node.Kind].asks {
		return nil, contract.StepPlan{Action: contract.ActionRun, Reason: "it asks a person"}, nil
	}
	if in.Reuse.NoCache {
		resolved.Cache.Enabled, why.reason = false, "earlier results are not reused"
	}
	look, err = f.history.compare(ctx, in.StepRef, resolved.Cache, cmp.Or(why.reason, "its results are not cached"), key, parts)
	if err == nil && slices.Contains(look.Changed, "files") {
		look.Files, err = f.edited(ctx, look.From, resolved.Files)
	}
	if err != nil {
		return nil, look, err
	}
	left, _, err := f.engine.unfinished(ctx, node, in, key)
	if err == nil && left == nil && f.Reuse.From == "" && !in.Reuse.NoCache { // what a rerun would go on from
		in.Reuse.From = f.history.in[node.ID]
		if left, _, err = f.engine.unfinished(ctx, node, in, key); left != nil {
			look.Reason += fmt.Sprintf("; `sluice rerun %s` resumes from step %d", in.Reuse.From, left.Step)
		}
		return nil, look, err
	}
	if left != nil {
		look.ResumeRun, look.ResumeStep = left.Run, left.Step
	}
	return nil, look, err
}

// fewFiles is how many of the files that have changed are named.
const fewFiles = 5

// edited names files of those that names mean which are not as a run had them; none when what it had is gone.
func (f *planner) edited(ctx context.Context, run string, names []string) ([]string, error) {
	then, err := f.history.files(ctx, run)
	if errors.Is(err, store.ErrNotFound) {
		return nil, nil
	} else if err != nil {
		return nil, err
	}
	changed, removed := artifact.Changes(then, f.Files)
	maps.Copy(changed, removed)
	maps.DeleteFunc(changed, func(path string, _ artifact.File) bool { return !f.sub.isUsed(path, names) })
	edited := slices.Sorted(maps.Keys(changed))
	return edited[:min(fewFiles, len(edited))], nil
}

// fan looks at each instance of a step with a matrix or a foreach.
func (f *planner) fan(ctx context.Context, node spec.Node, vars spec.Vars) (contract.StepPlan, error) {
	all, err := f.Program.Expand(node.ID, vars)
	switch {
	case err != nil:
		return contract.StepPlan{Action: contract.ActionRun, Reason: "it would fail: " + err.Error()}, nil
	case len(all) == 0:
		f.settle(node, record.StepRecord{Status: spec.StatusSkipped})
		return contract.StepPlan{Action: contract.ActionSkip, Reason: "it has no instances: its list is empty"}, nil
	}
	list := futureRun + "/" + node.ID // in the engine's memory alone
	f.engine.instances.put(list, all)
	look := contract.StepPlan{Action: contract.ActionReuse, Of: len(all)}
	outputs := []json.RawMessage{}
	run, err := f.engine.record(ctx, futureRun)
	if err != nil {
		return contract.StepPlan{}, err
	}
	results, asides := sha256.New(), run.asides(f.Program.Listed(node.ID))
	isKnown := true
	for i := range all {
		found, why, err := f.one(ctx, node, vars, &all[i], list)
		if err != nil {
			return look, err
		}
		if found == nil {
			if look.Cached == i { // the first that would be done tells why
				why.Of, why.Cached = look.Of, look.Cached
				look = why
			}
			isKnown = false
			continue
		}
		look.Cached++
		if look.Action == contract.ActionReuse {
			look.From = found.run
		}
		record, here := found.record, vars
		here.Instance = &all[i]
		if !f.evaluateGate(node, here, &record, &look) || record.Status != spec.StatusSucceeded {
			isKnown = false // whether the step passes depends on how many of its instances do
			continue
		}
		with, err := withInstance(record.Outputs, all[i])
		if err != nil {
			return look, err
		}
		outputs = append(outputs, with)
		addInstance(results, all[i], asides, record)
	}
	if !isKnown {
		return look, nil
	}
	raw, err := json.Marshal(outputs)
	f.settle(node, record.StepRecord{Status: spec.StatusSucceeded, Outputs: raw, Result: hex.EncodeToString(results.Sum(nil))})
	return look, err
}

// repeat looks at one iteration after the other, as long as each would be taken over.
func (f *planner) repeat(ctx context.Context, node spec.Node, vars spec.Vars) (contract.StepPlan, error) {
	look := contract.StepPlan{Action: contract.ActionReuse}
	instance := spec.Instance{}
	for ; look.Cached < node.Max; look.Cached++ {
		found, why, err := f.one(ctx, node, vars, &instance, "")
		if err != nil || found == nil {
			why.Cached = look.Cached
			return why, err
		}
		look.From = found.run
		rec, here := found.record, vars
		here.Instance = &instance
		if !f.evaluateGate(node, here, &rec, &look) || rec.Status != spec.StatusSucceeded {
			return look, nil
		}
		done, err := f.Program.Until(node.ID, rec.Outputs, here)
		if err != nil {
			look.Reason = "it would fail: " + err.Error()
			return look, nil
		}
		if done {
			look.Cached++
			look.Of = look.Cached
			f.settle(node, record.StepRecord{Status: spec.StatusSucceeded, Outputs: rec.Outputs, Result: digestOf(rec, rec.Outputs)})
			return look, nil
		}
		instance = spec.Instance{Index: instance.Index + 1, Previous: rec.Outputs}
	}
	return look, nil
}
