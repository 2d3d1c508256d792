package worker

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/sluiceml/sluice/activities"
	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/artifact"
)

// SubmitRequest names what to run.
type SubmitRequest struct {
	// PipelineFile and EnvFile are paths; no EnvFile means the default environment.
	PipelineFile, EnvFile string
	Params                map[string]string
}

// Submitted is a run that was started or found open.
type Submitted struct {
	Run  string
	Name string
	// Resumed is true when the same pipeline, parameters and files were running already.
	Resumed bool
	// Beside is another run of the pipeline that has not ended, and was started with something else; empty when there is none.
	Beside string
	Graph  []dsl.Node
}

// LintError says why a pipeline was not started.
type LintError struct{ Diagnostics dsl.Diagnostics }

func (e *LintError) Error() string { return e.Diagnostics.Text(false) }

// Compile reads and checks a pipeline, its environment and the parameters given. The error is a *LintError when the files can be read
// and are wrong.
func Compile(req SubmitRequest) (*dsl.Program, contract.Submission, error) {
	program, sub, err := load(req)
	if err != nil {
		return nil, sub, err
	}
	if _, bad := program.Params(req.Params); bad.HasErrors() {
		return nil, sub, &LintError{bad}
	}
	return program, sub, nil
}

// load is Compile without a look at the parameters.
func load(req SubmitRequest) (*dsl.Program, contract.Submission, error) {
	sub := contract.Submission{File: req.PipelineFile, EnvFile: req.EnvFile, Params: req.Params}
	var err error
	if sub.Pipeline, err = ReadDocument(req.PipelineFile); err != nil {
		return nil, sub, fmt.Errorf("read the pipeline: %w", err)
	}
	if req.EnvFile != "" {
		if sub.Environment, err = ReadDocument(req.EnvFile); err != nil {
			return nil, sub, fmt.Errorf("read the environment: %w", err)
		}
	}
	program, diags := dsl.Compile(dsl.File{Name: sub.File, Source: sub.Pipeline}, dsl.File{Name: sub.EnvFile, Source: sub.Environment},
		folder(filepath.Dir(req.PipelineFile)))
	if program == nil {
		return nil, sub, &LintError{diags}
	}
	return program, sub, nil
}

// folder is the workspace of a pipeline before it is submitted.
type folder string

// Exists implements dsl.Workspace.
func (f folder) Exists(path string) bool {
	_, err := os.Stat(filepath.Join(string(f), path))
	return err == nil
}

// Submit checks a pipeline, snapshots its folder and starts a run. The same pipeline, parameters and files that are running already
// are not started again: that run is returned.
func (s *Session) Submit(ctx context.Context, req SubmitRequest) (Submitted, error) {
	program, sub, err := Compile(req)
	if err != nil {
		return Submitted{}, err
	}
	if err := s.pack(ctx, req, program, &sub); err != nil {
		return Submitted{}, err
	}
	digest, err := s.keep(ctx, sub)
	if err != nil {
		return Submitted{}, err
	}
	name, graph := program.Pipeline().Name, program.Graph()
	if open, err := s.open(ctx, digest); err != nil || open != "" {
		return Submitted{Run: open, Name: name, Resumed: true, Graph: graph}, err
	}
	beside, err := s.beside(ctx, name)
	if err != nil {
		return Submitted{}, fmt.Errorf("look for open runs: %w", err)
	}
	in := contract.RunInput{Run: newRunID(name), Name: name, Submission: digest, Graph: graph}
	return Submitted{Run: in.Run, Name: name, Beside: beside, Graph: graph}, s.start(ctx, in)
}

// pack adds the workspace to a submission, and makes it one that can be taken elsewhere.
func (s *Session) pack(ctx context.Context, req SubmitRequest, program *dsl.Program, sub *contract.Submission) (err error) {
	if want := program.Environment().Store.URL; want != "" && want != s.Store.URL() {
		return fmt.Errorf("%s wants the store %s, but Sluice runs on %s: set SLUICE_STORE=%s where it is started",
			req.EnvFile, want, s.Store.URL(), want)
	}
	switch sub.Workspace, err = s.snapshot(ctx, req); {
	case errors.Is(err, store.ErrIrregular):
		return contract.Error(contract.ErrInvalid, err.Error()+"\nhelp: what is no part of the pipeline can be named in .sluiceignore", err)
	case err != nil:
		return fmt.Errorf("snapshot the folder of %s: %w", req.PipelineFile, err)
	}
	sub.File = filepath.Base(sub.File) // where the files lie makes no other run of them
	if sub.EnvFile != "" {
		sub.EnvFile = filepath.Base(sub.EnvFile)
	}
	return nil
}

// keep stores a submission and returns its digest.
func (s *Session) keep(ctx context.Context, sub contract.Submission) (digest string, err error) {
	raw, err := json.Marshal(sub)
	if err != nil {
		return "", fmt.Errorf("encode the submission: %w", err)
	}
	if digest, _, err = s.Store.PutBlob(ctx, bytes.NewReader(raw)); err != nil {
		return "", fmt.Errorf("store the submission: %w", err)
	}
	return digest, nil
}

// Rerun starts a new run of what another run was submitted with. Steps that succeeded there are taken over as they are; with from,
// that step and all that come after it are done again.
func (s *Session) Rerun(ctx context.Context, run, from string) (Submitted, error) {
	old, err := activities.LoadRun(ctx, s.Store, run)
	if err != nil {
		return Submitted{}, err
	}
	reuse, err := reusable(old, from)
	if err != nil {
		return Submitted{}, err
	}
	in := contract.RunInput{
		Run: newRunID(old.Pipeline), Name: old.Pipeline, Submission: old.Submission, Graph: old.Graph,
		ReuseFrom: old.Run, Reuse: reuse,
	}
	return Submitted{Run: in.Run, Name: in.Name, Graph: in.Graph}, s.start(ctx, in)
}

// reusable lists the steps of a run whose results may be taken over: they succeeded, so did all they depend on, and they do not
// come after from.
func reusable(old activities.Run, from string) ([]string, error) {
	kept := map[string]bool{}
	known := false
	for i, node := range old.Graph {
		known = known || node.ID == from
		keep := old.Steps[i].Status == dsl.StatusSucceeded && node.ID != from
		for _, need := range node.After {
			keep = keep && kept[need]
		}
		kept[node.ID] = keep
	}
	if from != "" && !known {
		return nil, contract.Error(contract.ErrInvalid, fmt.Sprintf("run %s has no step `%s`", old.Run, from), nil)
	}
	maps.DeleteFunc(kept, func(_ string, keep bool) bool { return !keep })
	return slices.Sorted(maps.Keys(kept)), nil
}

func (s *Session) start(ctx context.Context, in contract.RunInput) error {
	if err := s.Store.PutJSON(ctx, openKey(in.Submission), in.Run, store.WriteOptions{}); err != nil {
		return fmt.Errorf("note the run: %w", err)
	}
	_, err := s.Client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID:            contract.RunWorkflowID(in.Run),
		TaskQueue:     contract.TaskQueue,
		StaticSummary: "pipeline " + in.Name,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			temporal.NewSearchAttributeKeyKeyword(contract.SearchPipeline).ValueSet(in.Name)),
	}, contract.PipelineWorkflow, in)
	if err != nil {
		return fmt.Errorf("start run %s: %w", in.Run, err)
	}
	return nil
}

// openKey is where the newest run of a submission is named.
func openKey(submission string) string { return "open/" + submission[len("sha256:"):] + ".json" }

// open returns the run of a submission that has not ended; empty when there is none.
func (s *Session) open(ctx context.Context, submission string) (string, error) {
	var run string
	if err := s.Store.GetJSON(ctx, openKey(submission), &run); errors.Is(err, store.ErrNotFound) {
		return "", nil
	} else if err != nil {
		return "", err
	}
	desc, err := s.Client.DescribeWorkflowExecution(ctx, contract.RunWorkflowID(run), "")
	var gone *serviceerror.NotFound
	switch {
	case errors.As(err, &gone):
		return "", nil
	case err != nil:
		return "", fmt.Errorf("ask for run %s: %w", run, err)
	case desc.GetWorkflowExecutionInfo().GetStatus() != enums.WORKFLOW_EXECUTION_STATUS_RUNNING:
		return "", nil
	}
	return run, nil
}

// beside returns the newest run of a pipeline that has not ended; empty when there is none.
func (s *Session) beside(ctx context.Context, pipeline string) (string, error) {
	runs, err := activities.Runs(ctx, s.Store)
	for _, r := range runs {
		if r.Pipeline == pipeline && r.Status == dsl.StatusRunning {
			return r.Run, err
		}
	}
	return "", err
}

// snapshot stores the pipeline's folder, minus what .sluiceignore names, as the run's workspace.
func (s *Session) snapshot(ctx context.Context, req SubmitRequest) (artifact.Ref, error) {
	dir := filepath.Dir(req.PipelineFile)
	ignored, err := readIgnore(filepath.Join(dir, ".sluiceignore"))
	if err != nil {
		return artifact.Ref{}, err
	}
	return s.Store.PutTree(ctx, artifact.Workspace, dir, nil, ignored)
}

// newRunID is unique, sorts by time within a pipeline and can be read aloud.
func newRunID(name string) string {
	var b [2]byte
	rand.Read(b[:]) // never fails, by its documentation
	return name + "-" + time.Now().UTC().Format("20060102-150405") + "-" + hex.EncodeToString(b[:])
}
