// Package engine has the local activities that advance a run: they resolve steps, evaluate their results, reuse results from the cache, and
// write the records.
package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"slices"

	"go.temporal.io/sdk/activity"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/compile/trtexec"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/secret"
	"github.com/sluiceml/sluice/serving/routing"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
	"github.com/sluiceml/sluice/store/registry"
)

// Engine has the activities that resolve, evaluate and record steps. They run as local activities and are fast: programs and results of
// steps are kept in memory, and are read from the store only after a restart.
type Engine struct {
	Store *store.Store
	// Home is that of contract.RunRecord.
	Home string
	// Python returns the interpreter that runs of a submission with this Python use here, and the packages installed for it, which are part
	// of the keys of steps that run programs here; it is nil if that is unknown.
	Python func(ctx context.Context, submitted string) (string, error)
	// Platform returns what TensorRT engines that are built here depend on, which is part of the keys of such steps; it is nil if that is
	// unknown.
	Platform func(context.Context) (trtexec.Platform, error)
	// Here is set if steps run on this machine, so the files that they read in place are on this machine.
	Here bool
	// Logs is the folder of this machine's logs, which go with their runs.
	Logs string
	// Secrets finds the values that keys of results have fingerprints of.
	Secrets *secret.Resolver
	// Holder returns the run that holds a concurrency group; empty if there is none. Open reports whether a run has not ended.
	Holder func(ctx context.Context, group string) (run string, err error)
	Open   func(ctx context.Context, run string) (bool, error)

	behind    writeBehind
	programs  *recent[*Submitted]
	results   *recent[spec.StepResult]
	accepted  *recent[map[string]spec.StepResult]
	begun     *recent[*begun]
	instances *recent[[]spec.Instance]
	files     *recent[string]
	inPlace   *recent[string]
	keys      *recent[map[string]string]

	fingerprints *recent[string]
}

// NewEngine makes the engine's activities on a store.
func NewEngine(s *store.Store) *Engine {
	return &Engine{
		Store: s, Secrets: secret.NewResolver(), fingerprints: newRecent[string](256),
		programs: newRecent[*Submitted](64), results: newRecent[spec.StepResult](8192),
		accepted: newRecent[map[string]spec.StepResult](64), begun: newRecent[*begun](256),
		instances: newRecent[[]spec.Instance](64), files: newRecent[string](1024), inPlace: newRecent[string](2 * inPlaceFiles),
		keys: newRecent[map[string]string](4096),
	}
}

// Submitted is a submission, compiled.
type Submitted struct {
	record.Submission
	Program     *dsl.Program
	ParamValues map[string]any
	// files of a workspace that is not stored; nil when Workspace names them.
	files []artifact.File
}

// Submission loads and compiles a submission by its digest. It was checked when it was submitted; if it no longer compiles, another version
// of Sluice is running now.
func (e *Engine) Submission(ctx context.Context, digest string) (*Submitted, error) {
	return e.programs.get(digest, func() (*Submitted, error) {
		var sub Submitted
		var err error
		if sub.Submission, err = record.LoadSubmission(ctx, e.Store, digest); err != nil {
			return nil, err
		}
		folder := &workspace{ctx: ctx, store: e.Store, ref: sub.Workspace}
		program, diags := dsl.Compile(document.File{Name: sub.File, Source: sub.Pipeline, Accepted: true}, document.File{Name: sub.EnvFile, Source: sub.Environment, Accepted: true}, folder)
		if folder.failed != nil {
			return nil, fmt.Errorf("the workspace: %w", folder.failed) // the pipeline is not to blame
		}
		if program == nil {
			return nil, fault.New(fault.Invalid, "this version of Sluice rejects the pipeline:\n"+diags.Text(false), nil)
		}
		params, diags := sub.given(program)
		if diags.HasErrors() {
			return nil, fault.New(fault.Invalid, diags.Text(false), nil)
		}
		sub.Program, sub.ParamValues = program, params
		return &sub, nil
	})
}

// Environment is the one that a submission came with.
func (e *Engine) Environment(ctx context.Context, submission string) (*spec.Environment, error) {
	sub, err := e.Submission(ctx, submission)
	if err != nil {
		return nil, err
	}
	return sub.Program.Environment(), nil
}

// given are the run's parameters: those a parent run gives, or those of a command line.
func (s *Submitted) given(program *dsl.Program) (map[string]any, document.Diagnostics) {
	if s.Values != nil {
		return program.ChildParams(s.Values)
	}
	return program.Params(s.Params)
}

// workspace is a submitted folder, as the language looks into it for child pipelines.
type workspace struct {
	ctx   context.Context //nolint:containedctx // it lives as long as one call of dsl.Compile
	store *store.Store
	ref   artifact.Ref
	// failed is why a file could not be read that may be there.
	failed error
}

// Exists implements document.Workspace. What was there when the pipeline was submitted is there.
func (w *workspace) Exists(string) bool { return true }

// LeftOut implements document.Workspace.
func (w *workspace) LeftOut(string) (why, help string) { return "", "" }

// ReadFile implements document.Workspace.
func (w *workspace) ReadFile(path string) ([]byte, error) {
	data, err := w.read(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		w.failed = err
	}
	return data, err
}

func (w *workspace) read(path string) ([]byte, error) {
	if w.ref.IsZero() {
		return nil, fs.ErrNotExist
	}
	manifest, err := w.store.Manifest(w.ctx, w.ref)
	if err != nil {
		return nil, err
	}
	for _, f := range manifest.Files {
		if f.Path == path {
			return w.store.ReadBlob(w.ctx, f.Digest)
		}
	}
	return nil, fs.ErrNotExist
}

// Begin opens the run's record. A run without a concurrency group has its turn at once: see Settle.
func (e *Engine) Begin(ctx context.Context, in contract.BeginInput) (contract.BeginOutput, error) {
	sub, err := e.Submission(ctx, in.Submission)
	if err != nil {
		return contract.BeginOutput{}, err
	}
	begun := contract.BeginOutput{
		Concurrency: sub.Program.Pipeline().Concurrency, BudgetUSD: sub.Program.Pipeline().Budget.USD, Notify: events(sub.Program.Pipeline()),
		Keeps: sub.Program.Pipeline().Keep != spec.Keep{},
	}
	if begun.Concurrency.Group, err = sub.Program.ConcurrencyGroup(sub.ParamValues); err != nil {
		return begun, fault.New(fault.Invalid, err.Error(), err)
	}
	key := record.RunKey(in.Run)
	var rec record.RunRecord
	if err := e.Store.GetJSON(ctx, key, &rec); err == nil {
		isRetry := rec.Execution == in.Execution // what was settled stays settled
		begun.MadeUp = !isRetry && !in.ScheduledAt.IsZero() && in.Reuse.From == ""
		if isRetry || begun.MadeUp {
			return begun, nil
		}
		return begun, fault.New(fault.Invalid, "run "+in.Run+" already exists and has not been changed: `sluice rerun "+in.Run+"` runs it again", nil)
	} else if !errors.Is(err, store.ErrNotFound) {
		return begun, err
	}
	rec = record.RunRecord{
		Run: in.Run, Execution: in.Execution, Home: e.Home, Pipeline: in.Name, Submission: in.Submission, Status: spec.StatusRunning, StartedAt: in.StartedAt,
		ScheduledAt: in.ScheduledAt, Trigger: in.Trigger, Params: sub.ParamValues, Graph: in.Graph, Reuse: in.Reuse, Parent: in.Parent,
	}
	if begun.Concurrency.Group == "" {
		if err := e.settle(ctx, sub, &rec); err != nil {
			return begun, err
		}
	}
	return begun, e.Store.PutJSON(ctx, key, rec, store.WriteOptions{})
}

// Settle resolves `last`, `serving`, `datasets` and `models` once, for the whole run, when it has its turn in its concurrency group: the run
// before it may have changed them.
func (e *Engine) Settle(ctx context.Context, in contract.SettleInput) error {
	sub, err := e.Submission(ctx, in.Submission)
	if err != nil {
		return err
	}
	var rec record.RunRecord
	if err := e.Store.GetJSON(ctx, record.RunKey(in.Run), &rec); err != nil || rec.Settled {
		return err
	}
	if err := e.settle(ctx, sub, &rec); err != nil {
		return err
	}
	return e.Store.PutJSON(ctx, record.RunKey(in.Run), rec, store.WriteOptions{})
}

// settle writes down what the names of things outside the run mean for it.
func (e *Engine) settle(ctx context.Context, sub *Submitted, rec *record.RunRecord) (err error) {
	if err := e.settleRuns(ctx, sub, rec); err != nil {
		return err
	}
	rec.Settled = true
	// Only those that the pipeline reads: what a record names is not removed from the store as long as the run is kept.
	if rec.Datasets, err = registry.Refs(ctx, e.Store, artifact.Dataset); err != nil {
		return err
	}
	maps.DeleteFunc(rec.Datasets, func(name string, _ artifact.Ref) bool { return !sub.Program.ReadsPublished("datasets", name) })
	if rec.Models, err = registry.Refs(ctx, e.Store, artifact.Model); err != nil {
		return err
	}
	maps.DeleteFunc(rec.Models, func(name string, _ artifact.Ref) bool { return !sub.Program.ReadsPublished("models", name) })
	return nil
}

// settleRuns is settle for `last` and `serving`. The runs of a child's own family are not its `last`: it would depend on which of them ends first.
func (e *Engine) settleRuns(ctx context.Context, sub *Submitted, rec *record.RunRecord) error {
	family, err := record.Family(ctx, e.Store, *rec)
	if err != nil {
		return err
	}
	last, err := record.LastAccepted(ctx, e.Store, rec.Pipeline, family)
	if err != nil {
		return err
	}
	if rec.Parent.Run != "" && last.Run != "" { // one of before its family may have been removed since
		if _, err := e.record(ctx, last.Run); errors.Is(err, store.ErrNotFound) {
			last.Run = ""
		} else if err != nil {
			return err
		}
	}
	rec.Last, rec.Serving = last.Run, map[string]string{}
	for target := range sub.Program.Environment().Targets {
		doc, err := routing.Current(ctx, e.Store, target)
		if err != nil {
			return err
		}
		if release, _ := doc.Serving(); release.Run != "" {
			rec.Serving[target] = release.Run
		}
	}
	return nil
}

// events lists what somebody wants to hear of.
func events(p *spec.Pipeline) []string {
	var wanted []string
	for _, n := range p.Notify {
		wanted = append(wanted, n.On...)
	}
	slices.Sort(wanted)
	return slices.Compact(wanted)
}

// Finish closes the run's record. A run that succeeded becomes the pipeline's last accepted one, unless it ran selected steps only.
func (e *Engine) Finish(ctx context.Context, in contract.FinishInput) (record.RunOutput, error) {
	var rec record.RunRecord
	if err := e.Store.GetJSON(ctx, record.RunKey(in.Run), &rec); err != nil {
		return in.RunOutput, err
	}
	out := in.RunOutput
	if out.Status == spec.StatusSucceeded {
		sub, err := e.Submission(ctx, in.Submission)
		if err != nil {
			return out, err
		}
		if rec.Outputs, err = e.outputs(ctx, sub, rec, in); err != nil {
			return out, err
		}
		if out.Outputs, err = record.StoreOutputs(ctx, e.Store, rec.Outputs); err != nil {
			return out, err
		}
		isSame, err := e.HasPython(ctx, in.Submission, rec.Parent.Python)
		if err != nil {
			return out, err
		}
		out.Outputs.Unkeyed = !isSame
	}
	rec.Status, rec.Error, rec.ErrorType, rec.GaveWayTo, rec.EndedAt = out.Status, out.Error, out.ErrorType, out.GaveWayTo, in.EndedAt
	if err := e.handBack(ctx, rec); err != nil {
		return out, err
	}
	rec.CostUSD, rec.CostUnknown = in.CostUSD, in.CostUnknown
	if err := e.Store.PutJSON(ctx, record.RunKey(in.Run), rec, store.WriteOptions{}); err != nil {
		return out, err
	}
	if spec.EndOfRun(out.Status, out.ErrorType).Accepted && len(rec.Reuse.Only) == 0 {
		return out, record.Accept(ctx, e.Store, rec)
	}
	return out, nil
}

// handBack records for the trigger of a run that the run has not processed what it was started for, because it, or a child of it, gave way to
// another run of a concurrency group.
func (e *Engine) handBack(ctx context.Context, rec record.RunRecord) error {
	if rec.Trigger.Name == "" || !rec.ScheduledAt.IsZero() || rec.Status != spec.StatusSkipped && rec.ErrorType != fault.Canceled {
		return nil
	}
	back := record.Returned{At: rec.Trigger.Time, By: rec.GaveWayTo, Evicted: rec.Status != spec.StatusSkipped}
	if back.By == "" {
		children, err := record.Below(ctx, e.Store, rec.Run)
		if err != nil {
			return err
		}
		for _, child := range children {
			back.By = cmp.Or(back.By, child.GaveWayTo)
		}
	}
	if back.By == "" && back.Evicted { // a person canceled it
		return nil
	}
	return e.Store.PutJSON(ctx, record.ReturnedKey(rec.Pipeline, rec.Trigger), back, store.WriteOptions{})
}

// outputs evaluates the pipeline's outputs over all steps. An output that cannot be evaluated, because its step was skipped, is absent.
func (e *Engine) outputs(
	ctx context.Context, sub *Submitted, rec record.RunRecord, in contract.FinishInput,
) (map[string]any, error) {
	if len(sub.Program.Pipeline().Outputs) == 0 {
		return nil, nil
	}
	ids := make([]string, len(rec.Graph))
	for i, node := range rec.Graph {
		ids[i] = node.ID
	}
	steps, err := e.resultsOf(ctx, in.Run, ids)
	if err != nil {
		return nil, err
	}
	vars := spec.Vars{
		Params: sub.ParamValues, Steps: steps, Run: facts(rec, record.RunContext{CostUSD: in.CostUSD, CostUnknown: in.CostUnknown}),
	}
	if err := e.outside(ctx, rec, &vars); err != nil {
		return nil, err
	}
	for _, id := range ids {
		if _, ended := steps[id]; !ended {
			steps[id] = spec.StepResult{Status: spec.StatusSkipped} // an on_failure step, which no failure asked for
		}
	}
	outputs, err := sub.Program.Outputs(vars)
	if err != nil && activity.IsActivity(ctx) {
		activity.GetLogger(ctx).Warn("outputs are absent", "run", in.Run, "error", err)
	}
	return outputs, nil
}
