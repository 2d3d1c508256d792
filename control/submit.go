package control

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/codec"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/document"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/fault"
	"github.com/sluiceml/sluice/internal/suggest"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// SubmitRequest names what to run.
type SubmitRequest struct {
	// PipelineFile is a path, EnvFile one or the name of an environment; no EnvFile means the default environment.
	PipelineFile, EnvFile string
	Params                map[string]string
	// From is a step: it and all that come after it are done again, whatever there is to take over.
	From string
	// Only names the steps to do; the others must be there to take over.
	Only []string
	// NoCache turns the step cache off.
	NoCache bool

	loaded *loaded
}

// loaded are the documents of a request, which are read and compiled once: what was checked is what is run.
type loaded struct {
	program    *dsl.Program
	submission record.Submission
	unpriced   document.Diagnostics
}

// Submitted is a run that was started or found open.
type Submitted struct {
	Run  string
	Name string
	// Resumed is true when the same pipeline, parameters and files were running already.
	Resumed bool
	// Beside is another run of the pipeline that has not ended, and was started with something else; empty when there is none.
	Beside string
	// Differs says what it was started with otherwise; empty when it is not known, and when only what is to be done again differs.
	Differs []string
	Graph   []spec.Node
	// Workspace is what of the pipeline's folder went along.
	Workspace Snapshot
}

// Snapshot says what of a pipeline's folder went into the store as a run's workspace.
type Snapshot struct {
	Files int   `json:"files"`
	Bytes int64 `json:"bytes"`
	// Withheld are the paths that stayed out since they seem to hold secrets.
	Withheld []string `json:"withheld,omitempty"`
}

// LintError says why a pipeline was not started.
type LintError struct{ Diagnostics document.Diagnostics }

func (e *LintError) Error() string { return e.Diagnostics.Text(false) }

// Compile reads and checks a request's pipeline, its environment and the parameters given. The error is a *LintError when the files can be
// read and are wrong.
func Compile(req *SubmitRequest) error {
	_, _, err := req.compile()
	return err
}

// Unpriced are the limits of the run's cost, of a request that was compiled, that have no effect because a price is not known.
func (req *SubmitRequest) Unpriced() document.Diagnostics { return req.loaded.unpriced }

func (req *SubmitRequest) compile() (*dsl.Program, record.Submission, error) {
	program, sub, err := req.load()
	if err != nil {
		return nil, sub, err
	}
	if _, bad := program.Params(req.Params); bad.HasErrors() {
		return nil, sub, &LintError{bad}
	}
	return program, sub, nil
}

// Program reads and checks a request's pipeline and its environment, as Compile does, without a look at the parameters.
func (req *SubmitRequest) Program() (*dsl.Program, error) {
	program, _, err := req.load()
	return program, err
}

// load is compile without a look at the parameters.
func (req *SubmitRequest) load() (*dsl.Program, record.Submission, error) {
	if req.loaded == nil {
		pipeline, environment, err := ReadDocuments(req.PipelineFile, req.EnvFile)
		if err != nil {
			return nil, record.Submission{}, err
		}
		folder, err := OpenFolder(req.PipelineFile, environment)
		if err != nil {
			return nil, record.Submission{}, err
		}
		program, diags := dsl.Compile(pipeline, environment, folder)
		if program == nil {
			if req.EnvFile == "" {
				HintEnvironment(req.PipelineFile, diags)
			}
			return nil, record.Submission{}, &LintError{diags}
		}
		if bad := CheckTemplates(environment, program.Environment()); len(bad) > 0 {
			return nil, record.Submission{}, &LintError{bad}
		}
		req.loaded = &loaded{program, record.Submission{
			File: req.PipelineFile, Pipeline: pipeline.Source, EnvFile: environment.Name, Environment: environment.Source, Python: pythonBeside(req.PipelineFile),
		}, slices.DeleteFunc(diags, func(d document.Diagnostic) bool { return d.Code != "price" })}
	}
	sub := req.loaded.submission
	sub.Params = req.Params
	return req.loaded.program, sub, nil
}

// checkPython is state.CheckPython where programs of a pipeline run on this machine.
func checkPython() error {
	if connect.ClusterNamed() {
		return nil
	}
	return state.CheckPython()
}

// pythonBeside is the virtual environment that programs of a pipeline find first on this machine. A cluster's workers are elsewhere.
func pythonBeside(pipeline string) string {
	if connect.ClusterNamed() {
		return ""
	}
	return state.PythonBeside(filepath.Dir(pipeline))
}

// Submit checks a pipeline, snapshots its folder and starts a run. The same pipeline, parameters and files that are running already
// are not started again: that run is returned.
func (s *Session) Submit(ctx context.Context, req SubmitRequest) (Submitted, error) {
	in, workspace, err := s.prepare(ctx, req)
	if err != nil {
		return Submitted{}, err
	}
	beside, err := s.openRunOf(ctx, in.Name)
	if err != nil {
		return Submitted{}, fmt.Errorf("look for open runs: %w", err)
	}
	run, resumed, err := s.open(ctx, in)
	out := Submitted{Run: run.Run, Name: run.Name, Resumed: resumed, Graph: run.Graph, Workspace: workspace}
	if beside.Run != "" && !resumed && err == nil {
		out.Beside = beside.Run
		out.Differs, _ = diffSubmissions(ctx, s.Store, beside.Submission, in.Submission) // the run has begun: what cannot be told now is no reason to fail
	}
	return out, err
}

// prepare makes the input of a run of what a request names.
func (s *Session) prepare(ctx context.Context, req SubmitRequest) (in contract.RunInput, workspace Snapshot, err error) {
	program, sub, err := req.compile()
	if err != nil {
		return in, workspace, err
	}
	in = contract.RunInput{Name: program.Pipeline().Name, Graph: program.Graph()}
	if in.Reuse, err = reuse(in.Graph, req.From, req.Only, req.NoCache); err != nil {
		return in, workspace, err
	}
	if err := errors.Join(s.checkPools(program), s.checkPorts(program)); err != nil {
		return in, workspace, err
	}
	if workspace, err = s.pack(ctx, req, program, &sub); err != nil {
		return in, workspace, err
	}
	in.Submission, err = record.WriteBlob(ctx, s.Store, sub)
	return in, workspace, err
}

// reuse says what a run may take over.
func reuse(graph []spec.Node, from string, only []string, noCache bool) (record.Reuse, error) {
	r := record.Reuse{Only: only, NoCache: noCache}
	known := map[string]bool{}
	again := map[string]bool{}
	for _, node := range graph { // in topological order
		known[node.ID] = true
		again[node.ID] = node.ID == from || slices.ContainsFunc(node.After, func(id string) bool { return again[id] })
		if again[node.ID] || slices.Contains(only, node.ID) {
			r.Again = append(r.Again, node.ID)
		}
	}
	for i := len(graph) - 1; i >= 0; i-- { // each step after those that wait for it
		if node := graph[i]; slices.Contains(only, node.ID) || slices.Contains(r.Needed, node.ID) {
			for _, id := range node.After {
				if !slices.Contains(only, id) && !slices.Contains(r.Needed, id) {
					r.Needed = append(r.Needed, id)
				}
			}
		}
	}
	for _, id := range append(slices.Clone(only), from) {
		if id != "" && !known[id] {
			return r, fault.Errorf(fault.Invalid, "the pipeline has no step `%s`%s", id, suggest.Help(id, slices.Collect(maps.Keys(known))))
		}
	}
	return r, nil
}

// pack adds the workspace to a submission, and makes it one that can be taken elsewhere.
func (s *Session) pack(ctx context.Context, req SubmitRequest, program *dsl.Program, sub *record.Submission) (snapshot Snapshot, err error) {
	if want := program.Environment().Store.URL; want != "" && want != s.Store.URL() {
		return snapshot, storeConflict(req.EnvFile, want, s.Dir, s.Store.URL())
	}
	var withheld []string
	if sub.Workspace, withheld, err = s.snapshot(ctx, req, program); err != nil {
		return snapshot, notAFile(req.PipelineFile, fmt.Errorf("snapshot the folder of %s: %w", req.PipelineFile, err))
	}
	*sub = packed(*sub)
	return Snapshot{Files: sub.Workspace.Files, Bytes: sub.Workspace.Bytes, Withheld: withheld}, nil
}

// packed is a submission that can be taken elsewhere: where its files lie makes no other run of them.
func packed(sub record.Submission) record.Submission {
	if sub.EnvFile != "" {
		inside, err := filepath.Rel(filepath.Dir(sub.File), sub.EnvFile)
		if err != nil || !filepath.IsLocal(inside) {
			inside = filepath.Join("..", filepath.Base(sub.EnvFile)) // no file of the workspace is called so
		}
		sub.EnvFile = filepath.ToSlash(inside)
	}
	sub.File = filepath.Base(sub.File)
	return sub
}

// RerunRequest says what to do again.
type RerunRequest struct {
	// Run is an earlier run, whole.
	Run string
	// From and Only: as in SubmitRequest.
	From string
	Only []string
	// File and EnvFile are taken in place of what the run was submitted with, when File is given.
	File, EnvFile string
}

// Rerun starts a new run of what another run was submitted with, or of an edited file. Steps that succeeded there and would do the
// same again are taken over as they are. A run that has not ended is returned itself, unless something else is to be done.
func (s *Session) Rerun(ctx context.Context, req RerunRequest) (Submitted, error) {
	old, err := record.LoadRun(ctx, s.Store, req.Run)
	if err != nil {
		return Submitted{}, err
	}
	isOpen, err := s.isOpenHere(ctx, old.RunRecord)
	if err != nil {
		return Submitted{}, err
	}
	if isOpen && req.File == "" && req.From == "" && len(req.Only) == 0 {
		return Submitted{Run: old.Run, Name: old.Pipeline, Graph: old.Graph, Resumed: true}, nil
	}
	in := contract.RunInput{Name: old.Pipeline, Submission: old.Submission, Graph: old.Graph}
	var workspace Snapshot
	if req.File != "" {
		given, err := paramsOf(ctx, s.Store, old.RunRecord)
		if err != nil {
			return Submitted{}, err
		}
		if in, workspace, err = s.prepare(ctx, SubmitRequest{PipelineFile: req.File, EnvFile: req.EnvFile, Params: given}); err != nil {
			return Submitted{}, err
		}
	}
	if in.Reuse, err = reuse(in.Graph, req.From, req.Only, false); err != nil {
		return Submitted{}, err
	}
	in.Reuse.From, in.Run = old.Run, newRunID(in.Name)
	in.Trigger, in.ScheduledAt = old.Trigger, old.ScheduledAt
	out := Submitted{Run: in.Run, Name: in.Name, Graph: in.Graph, Workspace: workspace}
	if isOpen {
		out.Beside = old.Run
		out.Differs, _ = diffSubmissions(ctx, s.Store, old.Submission, in.Submission) // what cannot be told now is no reason to fail
	}
	if in.Trigger.Name != "" { // the trigger need not make up for the run that it repeats
		if err := s.Store.Driver().Delete(ctx, record.ReturnedKey(old.Pipeline, in.Trigger)); err != nil {
			return Submitted{}, err
		}
	}
	return out, StartRun(ctx, s.Client, in)
}

// paramsOf are the parameters that a run was given.
func paramsOf(ctx context.Context, s *store.Store, run record.RunRecord) (map[string]string, error) {
	sub, err := record.LoadSubmission(ctx, s, run.Submission)
	return sub.Params, err
}

// open returns the run of a submission that has not ended, or starts one.
func (s *Session) open(ctx context.Context, in contract.RunInput) (run contract.RunInput, resumed bool, err error) {
	folder := record.OpenOf(in.Submission)
	for {
		last := 0
		for info, err := range s.Store.Driver().List(ctx, folder) {
			if err != nil {
				return in, false, fmt.Errorf("look for open runs: %w", err)
			}
			if _, err := fmt.Sscanf(strings.TrimPrefix(info.Key, folder), "%06d.json", &last); err != nil {
				return in, false, fmt.Errorf("look for open runs: %s is not valid: %w", info.Key, err)
			}
		}
		run, isOpen, err := s.openAmong(ctx, folder, last, in.Reuse)
		if err != nil || isOpen {
			return run, isOpen, err
		}
		in.Run = newRunID(in.Name)
		err = s.Store.PutJSON(ctx, fmt.Sprintf("%s%06d.json", folder, last+1), in, store.WriteOptions{IfAbsent: true})
		switch {
		case errors.Is(err, store.ErrExists):
			continue // somebody submits the same at this moment
		case err != nil:
			return in, false, fmt.Errorf("record the run: %w", err)
		}
		return in, false, StartRun(ctx, s.Client, in)
	}
}

// lookedBack is how many of the noted runs of a submission are looked at, the newest first.
const lookedBack = 16

// openAmong finds the run that has not ended among those noted of a submission, up to the last, which takes over what reuse says: beside it
// there may be newer ones that take over something else. Of these only the newest may have been noted and never started.
func (s *Session) openAmong(ctx context.Context, folder string, last int, reuse record.Reuse) (run contract.RunInput, isOpen bool, err error) {
	for n := last; n > max(0, last-lookedBack); n-- {
		key := fmt.Sprintf("%s%06d.json", folder, n)
		if n == last {
			run, isOpen, err = s.isOpen(ctx, key)
		} else {
			run, isOpen, err = s.isRunning(ctx, key, reuse)
		}
		if err != nil || isOpen && reflect.DeepEqual(run.Reuse, reuse) {
			return run, isOpen, err
		}
	}
	return run, false, nil
}

// isRunning reads a noted run and reports whether it takes over what reuse says and its workflow is running.
func (s *Session) isRunning(ctx context.Context, key string, reuse record.Reuse) (run contract.RunInput, running bool, err error) {
	err = s.Store.GetJSON(ctx, key, &run)
	if errors.Is(err, store.ErrNotFound) || err == nil && !reflect.DeepEqual(run.Reuse, reuse) {
		return run, false, nil
	} else if err != nil {
		return run, false, err
	}
	if running, err = s.HasOpen(ctx, contract.RunWorkflowID(run.Run)); err != nil {
		return run, false, fmt.Errorf("ask for run %s: %w", run.Run, err)
	}
	return run, running, nil
}

// isOpen reads a noted run and reports whether it has not ended. One that was noted and never started is started: who noted it is
// about to, or died before.
func (s *Session) isOpen(ctx context.Context, key string) (run contract.RunInput, isOpen bool, err error) {
	if err := s.Store.GetJSON(ctx, key, &run); err != nil {
		return run, false, err
	}
	desc, err := s.Client.DescribeWorkflowExecution(ctx, contract.RunWorkflowID(run.Run), "")
	switch {
	case err == nil:
		return run, connect.IsRunning(desc.GetWorkflowExecutionInfo().GetStatus()), nil
	case !connect.IsNotFound(err):
		return run, false, fmt.Errorf("ask for run %s: %w", run.Run, err)
	}
	if _, err := record.LoadRun(ctx, s.Store, run.Run); !errors.Is(err, store.ErrNotFound) {
		return run, false, err // it has ended, so long ago that Temporal has forgotten it
	}
	return run, true, StartRun(ctx, s.Client, run)
}

// isOpenHere reports whether a run has not ended that this server executes, and closes the record of one that is lost. Another server's run is
// not followed: the server here does not have it, and would take it for lost.
func (s *Session) isOpenHere(ctx context.Context, rec record.RunRecord) (bool, error) {
	if rec.Status != spec.StatusRunning || rec.Home != "" && rec.Home != s.Home() {
		return false, nil
	}
	closed, err := s.CloseLost(ctx, rec.Run)
	return !closed && err == nil, err
}

// openRunOf returns the newest run of a pipeline that has not ended here; a zero record when there is none.
func (s *Session) openRunOf(ctx context.Context, pipeline string) (record.RunRecord, error) {
	runs, err := record.Runs(ctx, s.Store)
	for _, r := range runs {
		if r.Pipeline != pipeline {
			continue
		}
		if isOpen, err := s.isOpenHere(ctx, r); err != nil || isOpen {
			return r, err
		}
	}
	return record.RunRecord{}, err
}

// snapshot stores the pipeline's folder, minus what workspace leaves out, and returns what was withheld for the secrets that it seems to hold.
func (s *Session) snapshot(ctx context.Context, req SubmitRequest, program *dsl.Program) (ref artifact.Ref, withheld []string, err error) {
	dir := filepath.Dir(req.PipelineFile)
	folder, err := workspaceOf(dir, s.Dir, keyFiles(program.Environment()))
	if err != nil {
		return ref, nil, err
	}
	ref, err = s.Store.PutTree(ctx, artifact.Workspace, dir, nil, folder.ignores)
	return ref, folder.withheld, err
}

// keyFiles are the files from which secrets are read here: those of the payload codec, and those that the environment names.
func keyFiles(env *spec.Environment) []string {
	var files []string
	for _, source := range env.Secrets {
		files = append(files, source.File)
	}
	files = append(files, env.Vault.Auth.TokenFile, os.Getenv(codec.KeysVariable))
	return slices.DeleteFunc(files, func(name string) bool { return name == "" })
}

// newRunID sorts by time within a pipeline and can be read aloud. It is unique as far as chance goes: two of 50 runs of a pipeline that are
// submitted in the same second share an ID once in 14,000 times, and one of these would not run.
func newRunID(name string) string {
	var b [3]byte
	rand.Read(b[:]) // never fails, by its documentation
	return name + "-" + time.Now().UTC().Format(runTime) + "-" + hex.EncodeToString(b[:])
}

// runTime is how the time at which a run began is written in its ID.
const runTime = "20060102-150405"

// begunAt is when the run with an ID began; the zero time of what is no ID.
func begunAt(run string) time.Time {
	rest := run[:max(0, strings.LastIndexByte(run, '-'))]
	at, err := time.Parse(runTime, rest[max(0, len(rest)-len(runTime)):])
	if err != nil {
		return time.Time{}
	}
	return at
}
