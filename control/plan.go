package control

import (
	"cmp"
	"context"
	"maps"
	"path/filepath"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/engine"
	"github.com/sluiceml/sluice/compile/trtexec"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/dsl"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/artifact"
	"github.com/sluiceml/sluice/internal/script"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// Plan says what a run of req would do with each step; with against, what a rerun of that run would do, which gives the parameters
// that req does not. state is the state folder. It needs nothing to be running, and stores nothing. The program is there also when the
// parameters are wrong.
func Plan(ctx context.Context, s *store.Store, stateDir string, req SubmitRequest, against string) (*dsl.Program, contract.Plan, error) {
	if against != "" {
		run, err := record.LoadRun(ctx, s, against)
		if err != nil {
			return nil, contract.Plan{}, err
		}
		given, err := paramsOf(ctx, s, run.RunRecord)
		if err != nil {
			return nil, contract.Plan{}, err
		}
		req.Params = merged(given, req.Params)
	}
	if err := checkPython(); err != nil {
		return nil, contract.Plan{}, err
	}
	program, sub, err := req.load()
	if err != nil {
		return nil, contract.Plan{}, err
	}
	if _, bad := program.Params(req.Params); bad.HasErrors() {
		return program, contract.Plan{}, &LintError{bad}
	}
	in := engine.PlanInput{Submission: packed(sub), Program: program, Now: time.Now()}
	if !connect.ClusterNamed() { // there it is done elsewhere
		own, named := state.PythonOf(stateDir)
		in.Python, in.Platform, in.Here = (&script.Pythons{Own: own, Named: named}).Digest, new(trtexec.Finder).Platform, true
	}
	if in.Reuse, err = reuse(program.Graph(), req.From, req.Only, req.NoCache); err != nil {
		return program, contract.Plan{}, err
	}
	in.Reuse.From = against
	dir := filepath.Dir(req.PipelineFile)
	folder, err := workspaceOf(dir, stateDir, keyFiles(program.Environment()))
	if err != nil {
		return program, contract.Plan{}, err
	}
	if in.Files, err = store.ListTree(ctx, dir, folder.ignores); err != nil {
		return program, contract.Plan{}, notAFile(req.PipelineFile, err)
	}
	planned, err := engine.NewPlan(ctx, s, in)
	if err != nil {
		return program, planned, err
	}
	planned.Given = req.Params
	if against == "" { // a rerun is always a new run
		planned.Open, err = openRun(ctx, s, program.Pipeline().Name, in.Submission, in.Files)
	}
	return program, planned, err
}

// openRun describes the open run of a pipeline that a submission would resume, or else the newest; nil when there is none.
func openRun(ctx context.Context, s *store.Store, pipeline string, sub record.Submission, files []artifact.File) (*contract.OpenRun, error) {
	runs, err := record.Runs(ctx, s)
	if err != nil {
		return nil, err
	}
	own, _ := record.Apart(runs)
	var newest *contract.OpenRun
	for _, r := range own {
		if r.Pipeline != pipeline || r.Status != spec.StatusRunning {
			continue
		}
		was, before, err := submitted(ctx, s, r.Submission)
		if err != nil {
			continue // what cannot be told of another run is no reason to have no plan
		}
		open := &contract.OpenRun{Run: r.Run, Differs: differences(was, sub, before, files)}
		if len(open.Differs) == 0 {
			return open, nil
		}
		newest = cmp.Or(newest, open)
	}
	return newest, nil
}

// merged is a with what b has in its place or beside.
func merged(a, b map[string]string) map[string]string {
	all := make(map[string]string, len(a)+len(b))
	maps.Copy(all, a)
	maps.Copy(all, b)
	return all
}
