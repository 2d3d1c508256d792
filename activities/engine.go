// Package activities holds the side effects that workflows ask for. Every effect is idempotent by a key that survives retries.
package activities

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/store"
)

// inlineLimit is how large outputs and specs may be to travel through history; larger ones go by digest.
const inlineLimit = 4 << 10

// Engine holds the activities that resolve, judge and record steps. They run as local activities, so they are quick: programs
// and step results are kept in memory and read from the store only after a restart.
type Engine struct {
	Store *store.Store

	mu       sync.Mutex
	programs *recent[*submitted]
	results  *recent[dsl.StepResult]
	accepted *recent[map[string]dsl.StepResult]
	begun    *recent[contract.RunRecord]
}

// NewEngine makes the engine's activities on a store.
func NewEngine(s *store.Store) *Engine {
	return &Engine{
		Store: s, programs: newRecent[*submitted](64), results: newRecent[dsl.StepResult](8192),
		accepted: newRecent[map[string]dsl.StepResult](64), begun: newRecent[contract.RunRecord](256),
	}
}

// submitted is a submission, compiled.
type submitted struct {
	contract.Submission
	program *dsl.Program
	params  map[string]any
}

// submission loads and compiles what was submitted under a digest. It was checked when it was submitted; that it no longer
// compiles means that another version of Sluice is running now.
func (e *Engine) submission(ctx context.Context, digest string) (*submitted, error) {
	return e.programs.get(&e.mu, digest, func() (*submitted, error) {
		var sub submitted
		if err := readBlob(ctx, e.Store, digest, &sub.Submission); err != nil {
			return nil, fmt.Errorf("submission %s: %w", digest, err)
		}
		program, diags := dsl.Compile(
			dsl.File{Name: sub.File, Source: sub.Pipeline}, dsl.File{Name: sub.EnvFile, Source: sub.Environment}, nil)
		if program == nil {
			return nil, contract.Error(contract.ErrInvalid, "this version of Sluice refuses the pipeline:\n"+diags.Text(false), nil)
		}
		params, diags := program.Params(sub.Params)
		if diags.HasErrors() {
			return nil, contract.Error(contract.ErrInvalid, diags.Text(false), nil)
		}
		sub.program, sub.params = program, params
		return &sub, nil
	})
}

// Begin opens the run's record. What `last` and `serving` mean is settled here, once for the whole run.
func (e *Engine) Begin(ctx context.Context, in contract.BeginInput) error {
	key := RunKey(in.Run)
	var record contract.RunRecord
	if err := e.Store.GetJSON(ctx, key, &record); err == nil {
		return nil // a retry: what was settled stays settled
	} else if !errors.Is(err, store.ErrNotFound) {
		return err
	}
	sub, err := e.submission(ctx, in.Submission)
	if err != nil {
		return err
	}
	record = contract.RunRecord{
		Run: in.Run, Pipeline: in.Name, Submission: in.Submission, Status: dsl.StatusRunning,
		StartedAt: in.StartedAt, Params: sub.params, Graph: in.Graph, ReuseFrom: in.ReuseFrom,
		Serving: map[string]string{},
	}
	if record.Last, err = lastAccepted(ctx, e.Store, in.Name); err != nil {
		return err
	}
	for target := range sub.program.Environment().Targets {
		run, err := servingRun(ctx, e.Store, target)
		if err != nil {
			return err
		}
		if run != "" {
			record.Serving[target] = run
		}
	}
	return e.Store.PutJSON(ctx, key, record, store.WriteOptions{})
}

// Resolve evaluates a step's `when` and fills in its spec.
func (e *Engine) Resolve(ctx context.Context, in contract.ResolveInput) (contract.Resolved, error) {
	sub, err := e.submission(ctx, in.Submission)
	if err != nil {
		return contract.Resolved{}, err
	}
	node, vars, err := e.vars(ctx, sub, in)
	if err != nil {
		return contract.Resolved{}, err
	}
	resolved, err := sub.program.Resolve(in.Step, vars)
	if err != nil {
		return contract.Resolved{}, contract.Error(contract.ErrInvalid, err.Error(), err)
	}
	if !resolved.Run {
		return contract.Resolved{Skip: true}, nil
	}
	step := contract.StepInput{
		Run: in.Run, Step: in.Step, Kind: node.Kind, Spec: resolved.Spec, Env: resolved.Env,
		Workspace: sub.Workspace, Submission: in.Submission,
	}
	// A rollout's workflow reads its spec itself, and a rollout's is never large.
	if len(step.Spec) > inlineLimit && node.Kind != dsl.KindRollout {
		if step.SpecRef, _, err = e.Store.PutBlob(ctx, bytes.NewReader(step.Spec)); err != nil {
			return contract.Resolved{}, err
		}
		step.Spec = nil
	}
	return contract.Resolved{Step: step}, nil
}

// Judge ends a step: it judges the gate, publishes what passed and writes the step's record, in this order, so that a record
// that says "succeeded" is only there when all of it was done.
func (e *Engine) Judge(ctx context.Context, in contract.JudgeInput) (contract.Judged, error) {
	record := contract.StepRecord{
		Step: in.Step, Kind: in.Kind, Status: in.Status, Error: in.Error, ErrorType: in.ErrorType,
		StartedAt: in.Now, EndedAt: in.EndedAt, Attempts: in.Attempts,
	}
	var err error
	switch {
	case in.ReuseFrom != "":
		if record, err = e.reuse(ctx, in); err != nil {
			return contract.Judged{}, err
		}
	case in.Status == dsl.StatusSucceeded:
		if record.Outputs, err = LoadOutputs(ctx, e.Store, in.Output); err != nil {
			return contract.Judged{}, err
		}
		if err := e.judge(ctx, in, &record); err != nil {
			return contract.Judged{}, err
		}
	case in.Output.Outputs != nil || in.Output.OutputsRef != "":
		if record.Outputs, err = LoadOutputs(ctx, e.Store, in.Output); err != nil {
			return contract.Judged{}, err
		}
	}
	if err := e.Store.PutJSON(ctx, StepKey(in.Run, in.Step), record, store.WriteOptions{}); err != nil {
		return contract.Judged{}, err
	}
	e.results.put(&e.mu, in.Run+"/"+in.Step, result(record))
	return contract.Judged{
		Status: record.Status, Error: record.Error, ErrorType: record.ErrorType,
		Summary: summary(record.Checks), Checks: record.Checks,
	}, nil
}

// judge applies the step's gate to its outputs.
func (e *Engine) judge(ctx context.Context, in contract.JudgeInput, record *contract.StepRecord) error {
	sub, err := e.submission(ctx, in.Submission)
	if err != nil {
		return err
	}
	_, vars, err := e.vars(ctx, sub, in.ResolveInput)
	if err != nil {
		return err
	}
	record.Checks, record.Verdict = sub.program.Judge(in.Step, record.Outputs, vars)
	for _, c := range record.Checks {
		if c.Verdict == dsl.VerdictPass {
			continue
		}
		record.Status, record.Error, record.ErrorType = dsl.StatusFailed, refusal(c), contract.ErrGate
		if c.OnFail == dsl.OnFailStop && c.Verdict == dsl.VerdictFail {
			record.Status = dsl.StatusDeclined
			continue // a later condition may still fail the step outright
		}
		return nil
	}
	if record.Status != dsl.StatusSucceeded {
		return nil
	}
	record.Published, err = e.publish(ctx, sub, in, record.Outputs)
	return err
}

// reuse copies a step's record from the run it is taken from.
func (e *Engine) reuse(ctx context.Context, in contract.JudgeInput) (contract.StepRecord, error) {
	var record contract.StepRecord
	if err := e.Store.GetJSON(ctx, StepKey(in.ReuseFrom, in.Step), &record); err != nil {
		return record, fmt.Errorf("take step %s over from run %s: %w", in.Step, in.ReuseFrom, err)
	}
	if record.ReusedFrom == "" {
		record.ReusedFrom = in.ReuseFrom
	}
	return record, nil
}

// Finish closes the run's record; a run that succeeded becomes the pipeline's last accepted one.
func (e *Engine) Finish(ctx context.Context, in contract.FinishInput) (contract.RunOutput, error) {
	var record contract.RunRecord
	if err := e.Store.GetJSON(ctx, RunKey(in.Run), &record); err != nil {
		return in.RunOutput, err
	}
	out := in.RunOutput
	if out.Status == dsl.StatusSucceeded {
		sub, err := e.submission(ctx, in.Submission)
		if err != nil {
			return out, err
		}
		if record.Outputs, err = e.outputs(ctx, sub, record, in); err != nil {
			return out, err
		}
	}
	record.Status, record.Error, record.ErrorType, record.EndedAt = out.Status, out.Error, out.ErrorType, in.EndedAt
	if err := e.Store.PutJSON(ctx, RunKey(in.Run), record, store.WriteOptions{}); err != nil {
		return out, err
	}
	if out.Status == dsl.StatusSucceeded {
		return out, accept(ctx, e.Store, record)
	}
	return out, nil
}

// outputs evaluates the pipeline's outputs over all its steps. One that cannot be evaluated, since its step was skipped, is absent.
func (e *Engine) outputs(
	ctx context.Context, sub *submitted, record contract.RunRecord, in contract.FinishInput,
) (map[string]any, error) {
	if len(sub.program.Pipeline().Outputs) == 0 {
		return nil, nil
	}
	vars := dsl.Vars{Params: sub.params, Steps: map[string]dsl.StepResult{}, Run: facts(in.Run, record)}
	for _, node := range record.Graph {
		r, err := e.result(ctx, in.Run, node.ID)
		if err != nil {
			return nil, err
		}
		vars.Steps[node.ID] = r
	}
	outputs, err := sub.program.Outputs(vars)
	if err != nil && activity.IsActivity(ctx) {
		activity.GetLogger(ctx).Warn("outputs are absent", "run", in.Run, "error", err)
	}
	return outputs, nil
}

func readBlob(ctx context.Context, s *store.Store, digest string, v any) error {
	r, err := s.Blob(ctx, digest)
	if err != nil {
		return err
	}
	defer r.Close()
	return json.NewDecoder(r).Decode(v)
}
