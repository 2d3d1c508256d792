package activities

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
)

// vars gathers what the expressions of one step may see: the results of the steps it needs, and the runs behind `last` and
// `serving` as the run's record settled them.
func (e *Engine) vars(ctx context.Context, sub *submitted, in contract.ResolveInput) (dsl.Node, dsl.Vars, error) {
	record, err := e.record(ctx, in.Run)
	if err != nil {
		return dsl.Node{}, dsl.Vars{}, err
	}
	at := slices.IndexFunc(record.Graph, func(n dsl.Node) bool { return n.ID == in.Step })
	if at < 0 {
		return dsl.Node{}, dsl.Vars{}, contract.Error(contract.ErrInvalid, "run "+in.Run+" has no step "+in.Step, nil)
	}
	node := record.Graph[at]
	vars := dsl.Vars{Params: sub.params, Steps: make(map[string]dsl.StepResult, len(node.After)), Run: facts(in.Run, record)}
	for _, id := range node.After {
		if vars.Steps[id], err = e.result(ctx, in.Run, id); err != nil {
			return node, vars, err
		}
	}
	if record.Last != "" {
		if vars.Last, err = e.allResults(ctx, record.Last); err != nil {
			return node, vars, err
		}
	}
	for _, target := range slices.Sorted(maps.Keys(record.Serving)) {
		if vars.Serving == nil {
			vars.Serving = map[string]map[string]dsl.StepResult{}
		}
		if vars.Serving[target], err = e.allResults(ctx, record.Serving[target]); err != nil {
			return node, vars, err
		}
	}
	return node, vars, nil
}

func facts(run string, record contract.RunRecord) dsl.RunFacts {
	return dsl.RunFacts{ID: run, Attempt: 1, StartedAt: record.StartedAt}
}

// record returns a run's record as Begin settled it.
func (e *Engine) record(ctx context.Context, run string) (contract.RunRecord, error) {
	return e.begun.get(&e.mu, run, func() (contract.RunRecord, error) {
		var r contract.RunRecord
		err := e.Store.GetJSON(ctx, RunKey(run), &r)
		return r, err
	})
}

// result returns a finished step of a run.
func (e *Engine) result(ctx context.Context, run, step string) (dsl.StepResult, error) {
	return e.results.get(&e.mu, run+"/"+step, func() (dsl.StepResult, error) {
		var r contract.StepRecord
		if err := e.Store.GetJSON(ctx, StepKey(run, step), &r); err != nil {
			return dsl.StepResult{}, fmt.Errorf("the result of step %s: %w", step, err)
		}
		return result(r), nil
	})
}

// allResults returns every step of an ended run.
func (e *Engine) allResults(ctx context.Context, run string) (map[string]dsl.StepResult, error) {
	return e.accepted.get(&e.mu, run, func() (map[string]dsl.StepResult, error) {
		record, err := LoadRun(ctx, e.Store, run)
		if err != nil {
			return nil, err
		}
		all := make(map[string]dsl.StepResult, len(record.Steps))
		for _, s := range record.Steps {
			all[s.Step] = result(s)
		}
		return all, nil
	})
}

func result(r contract.StepRecord) dsl.StepResult {
	return dsl.StepResult{Status: r.Status, Outputs: r.Outputs, Error: r.Error}
}

// refusal is one line on a condition that did not hold: what it says, or its expression, with what it saw.
func refusal(c dsl.Check) string {
	if c.Verdict == dsl.VerdictError {
		return fmt.Sprintf("gate `%s` could not be evaluated: %s", c.Expression, c.Error)
	}
	said := "gate `" + c.Expression + "` does not hold"
	if c.Message != "" {
		said = c.Message + " (`" + c.Expression + "`)"
	}
	if seen := values(c); seen != "" {
		said += ": " + seen
	}
	return said
}

// summary is one line on a gate that passed: every value it saw.
func summary(checks []dsl.Check) string {
	var seen []string
	for _, c := range checks {
		if v := values(c); v != "" && !slices.Contains(seen, v) {
			seen = append(seen, v)
		}
	}
	return strings.Join(seen, ", ")
}

func values(c dsl.Check) string {
	var seen []string
	for _, name := range slices.Sorted(maps.Keys(c.Values)) {
		switch v := c.Values[name].(type) {
		case float64:
			seen = append(seen, fmt.Sprintf("%s = %.6g", name, v))
		default:
			seen = append(seen, fmt.Sprintf("%s = %v", name, v))
		}
	}
	return strings.Join(seen, ", ")
}

// recent is a small cache that forgets the oldest entry first. Values must not be changed once they are in it.
type recent[V any] struct {
	limit int
	byKey map[string]V
	order []string
}

func newRecent[V any](limit int) *recent[V] { return &recent[V]{limit: limit, byKey: map[string]V{}} }

// get returns the value under key, or what load yields, outside the lock: two callers may load the same.
func (c *recent[V]) get(mu *sync.Mutex, key string, load func() (V, error)) (V, error) {
	mu.Lock()
	v, ok := c.byKey[key]
	mu.Unlock()
	if ok {
		return v, nil
	}
	v, err := load()
	if err == nil {
		c.put(mu, key, v)
	}
	return v, err
}

func (c *recent[V]) put(mu *sync.Mutex, key string, v V) {
	mu.Lock()
	defer mu.Unlock()
	if _, ok := c.byKey[key]; !ok {
		c.order = append(c.order, key)
		if len(c.order) > c.limit {
			delete(c.byKey, c.order[0])
			c.order = c.order[1:]
		}
	}
	c.byKey[key] = v
}
