package engine

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"

	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// begun is a run's record as it was settled, with its graph by step.
type begun struct {
	record.RunRecord
	nodes map[string]spec.Node
}

// record returns a run's record as it was settled.
func (e *Engine) record(ctx context.Context, run string) (*begun, error) {
	if b, ok := e.begun.find(run); ok {
		return b, nil
	}
	var rec record.RunRecord
	err := e.Store.GetJSON(ctx, record.RunKey(run), &rec)
	b := newBegun(rec)
	if err == nil && (rec.Settled || rec.Status.IsEnd()) {
		e.begun.put(run, b)
	}
	return b, err
}

func newBegun(rec record.RunRecord) *begun {
	b := &begun{rec, make(map[string]spec.Node, len(rec.Graph))}
	for _, n := range rec.Graph {
		b.nodes[n.ID] = n
	}
	return b
}

// stepVars is vars for a step that the workflow names, with its submission.
func (e *Engine) stepVars(
	ctx context.Context, at record.StepRef, now record.RunContext, known map[string]spec.StepResult,
) (*Submitted, spec.Node, spec.Vars, error) {
	sub, err := e.Submission(ctx, at.Submission)
	if err != nil {
		return nil, spec.Node{}, spec.Vars{}, err
	}
	node, vars, err := e.vars(ctx, sub, at, now, known)
	return sub, node, vars, err
}

// vars collects the variables of a step's expressions: the results of the steps that it needs and of all steps in earlier sections, and the
// runs behind `last` and `serving`, as the run's record resolved them. Results in known need no record.
func (e *Engine) vars(
	ctx context.Context, sub *Submitted, at record.StepRef, now record.RunContext, known map[string]spec.StepResult,
) (spec.Node, spec.Vars, error) {
	record, err := e.record(ctx, at.Run)
	if err != nil {
		return spec.Node{}, spec.Vars{}, err
	}
	node, exists := record.nodes[at.Step]
	if !exists {
		return spec.Node{}, spec.Vars{}, fault.New(fault.Invalid, "run "+at.Run+" has no step "+at.Step, nil)
	}
	vars := spec.Vars{
		Params: sub.ParamValues, Steps: map[string]spec.StepResult{}, Run: facts(record.RunRecord, now),
	}
	if err := e.upstream(ctx, record, sub.Program, node, known, vars.Steps); err != nil {
		return node, vars, err
	}
	if err := e.outside(ctx, record.RunRecord, &vars); err != nil {
		return node, vars, err
	}
	vars.Instance, err = e.instance(ctx, at)
	return node, vars, err
}

// outside adds what lies outside a run to what its expressions see, as its record settled it.
func (e *Engine) outside(ctx context.Context, rec record.RunRecord, vars *spec.Vars) (err error) {
	vars.Datasets, vars.Models = rec.Datasets, rec.Models
	if rec.Last != "" {
		if vars.Last, err = e.allResults(ctx, rec.Last); err != nil {
			return err
		}
	}
	for _, target := range slices.Sorted(maps.Keys(rec.Serving)) {
		if vars.Serving == nil {
			vars.Serving = map[string]map[string]spec.StepResult{}
		}
		if vars.Serving[target], err = e.allResults(ctx, rec.Serving[target]); err != nil {
			return err
		}
	}
	return nil
}

// upstream reads the results of the steps that node may read, but for those that are known.
func (e *Engine) upstream(
	ctx context.Context, record *begun, program *dsl.Program, node spec.Node, known, results map[string]spec.StepResult,
) (err error) {
	for id := range program.Needs(node.ID) {
		if r, ok := known[id]; ok {
			results[id] = r
			continue
		}
		results[id], err = e.result(ctx, record.Run, id)
		if errors.Is(err, store.ErrNotFound) {
			return fault.New(fault.Lost, err.Error(), err)
		} else if err != nil {
			return err
		}
	}
	var before []string
	for _, other := range record.Graph {
		if node.Section.IsAfter(other.Section) {
			before = append(before, other.ID)
		}
	}
	ended, err := e.resultsOf(ctx, record.Run, before)
	maps.Copy(results, ended)
	return err
}

// resultsOf returns those of some steps of a run that have ended, read side by side: there may be thousands, in a bucket.
func (e *Engine) resultsOf(ctx context.Context, run string, ids []string) (map[string]spec.StepResult, error) {
	all, ended := make([]spec.StepResult, len(ids)), make([]bool, len(ids))
	err := store.Each(ctx, len(ids), func(ctx context.Context, i int) (err error) {
		all[i], err = e.result(ctx, run, ids[i])
		if ended[i] = err == nil; errors.Is(err, store.ErrNotFound) {
			return nil
		}
		return err
	})
	results := make(map[string]spec.StepResult, len(ids))
	for i, id := range ids {
		if ended[i] {
			results[id] = all[i]
		}
	}
	return results, err
}

// instance reads what an instance of a fanned-out step is about.
func (e *Engine) instance(ctx context.Context, at record.StepRef) (*spec.Instance, error) {
	switch {
	case at.Instance == nil:
		return nil, nil
	case at.Instance.List != "":
		all, err := e.list(ctx, at.Instance.List)
		if err != nil {
			return nil, err
		}
		return &all[at.Instance.Index], nil
	case at.Instance.Index == 0:
		return &spec.Instance{}, nil
	}
	before := record.StepRef{Run: at.Run, Step: at.Step, Instance: &record.Instance{Index: at.Instance.Index - 1}}
	var rec record.StepRecord
	if err := e.Store.GetJSON(ctx, record.Key(before), &rec); err != nil {
		return nil, fmt.Errorf("the iteration before: %w", err)
	}
	return &spec.Instance{Index: at.Instance.Index, Previous: rec.Outputs}, nil
}

// list reads the instances of a fanned-out step.
func (e *Engine) list(ctx context.Context, digest string) ([]spec.Instance, error) {
	return e.instances.get(digest, func() ([]spec.Instance, error) {
		var all []spec.Instance
		if err := record.ReadBlob(ctx, e.Store, digest, &all); err != nil {
			return nil, fmt.Errorf("instances %s: %w", digest, err)
		}
		return all, nil
	})
}

func facts(record record.RunRecord, now record.RunContext) spec.RunFacts {
	return spec.RunFacts{
		ID: record.Run, StartedAt: record.StartedAt, ScheduledAt: record.ScheduledAt, Trigger: record.Trigger,
		CostUSD: now.CostUSD, CostUnknown: now.CostUnknown, Status: now.Status, Failed: now.Failed,
	}
}

// result returns a finished step of a run.
func (e *Engine) result(ctx context.Context, run, step string) (spec.StepResult, error) {
	return e.results.get(run+"/"+step, func() (spec.StepResult, error) {
		var r record.StepRecord
		if err := e.Store.GetJSON(ctx, record.StepKey(run, step), &r); err != nil {
			return spec.StepResult{}, fmt.Errorf("the result of step %s: %w", step, err)
		}
		return e.resultOf(ctx, r)
	})
}

// allResults returns every step of a run. Those of a run that is still open, which may have what serves, are not remembered.
func (e *Engine) allResults(ctx context.Context, run string) (map[string]spec.StepResult, error) {
	if known, ok := e.accepted.find(run); ok {
		return known, nil
	}
	record, err := record.LoadRun(ctx, e.Store, run)
	if err != nil {
		return nil, err
	}
	all := make(map[string]spec.StepResult, len(record.Steps))
	for _, s := range record.Steps {
		if all[s.Step], err = e.resultOf(ctx, s); err != nil {
			return nil, err
		}
	}
	if record.Status != spec.StatusRunning {
		e.accepted.put(run, all)
	}
	return all, nil
}

// resultOf is a record as expressions see it. The outputs of many instances lie in a blob of their own.
func (e *Engine) resultOf(ctx context.Context, r record.StepRecord) (spec.StepResult, error) {
	outputs, err := record.LoadOutputs(ctx, e.Store, record.StepOutput{Outputs: r.Outputs, OutputsRef: r.OutputsRef})
	return spec.StepResult{Status: r.Status, Outputs: outputs, Error: r.Error, Digest: digestOf(r, outputs)}, err
}

// recent is a small cache that forgets the oldest entry first. Values must not be changed once they are in it.
type recent[V any] struct {
	limit int
	mu    sync.Mutex
	byKey map[string]V
	order []string
}

func newRecent[V any](limit int) *recent[V] { return &recent[V]{limit: limit, byKey: map[string]V{}} }

func (c *recent[V]) find(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.byKey[key]
	return v, ok
}

// get returns the value under key, or what load yields, outside the lock: two callers may load the same.
func (c *recent[V]) get(key string, load func() (V, error)) (V, error) {
	if v, ok := c.find(key); ok {
		return v, nil
	}
	v, err := load()
	if err == nil {
		c.put(key, v)
	}
	return v, err
}

func (c *recent[V]) put(key string, v V) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, ok := c.byKey[key]; !ok {
		c.order = append(c.order, key)
		if len(c.order) > c.limit {
			delete(c.byKey, c.order[0])
			c.order = c.order[1:]
		}
	}
	c.byKey[key] = v
}
