package worker

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// sleeper is a pipeline that says so and sleeps until it is cancelled.
const sleeper = `name: sleeper
params: {who: {type: string, default: nobody}}
steps:
  nap:
    run: {script: 'echo "$WHO sleeps"; exec sleep 600'}
    env: {WHO: "${params.who}"}
  after: {needs: [nap], run: {command: ["true"]}}
`

// TestSubmit: what runs already is not started again; another parameter or file is another run.
func TestSubmit(t *testing.T) {
	s := session(t)
	first := control.SubmitRequest{PipelineFile: project(t, sleeper, map[string]string{"data": "1"})}
	run := submit(t, s, first)
	t.Cleanup(func() { end(t, s, run.Run) })
	await(t, "the record of the run", func() bool {
		_, err := record.LoadRun(t.Context(), s.Store, run.Run)
		return err == nil
	})
	if run.Resumed || run.Name != "sleeper" || !strings.HasPrefix(run.Run, "sleeper-") || len(run.Graph) != 2 {
		t.Errorf("submitted %+v", run)
	}
	tests := []struct {
		name    string
		req     control.SubmitRequest
		same    bool
		differs []string // from the run before
	}{
		{"the same", first, true, nil},
		{"the same, elsewhere", control.SubmitRequest{PipelineFile: project(t, sleeper, map[string]string{"data": "1"})}, true, nil},
		{"another parameter", control.SubmitRequest{PipelineFile: first.PipelineFile, Params: map[string]string{"who": "bear"}}, false, []string{"the parameter `who` has changed"}},
		{"another file", control.SubmitRequest{PipelineFile: project(t, sleeper, map[string]string{"data": "2", "run.log": ""})}, false, []string{"`data` has changed", "`run.log` is new"}},
		{"a file less", control.SubmitRequest{PipelineFile: project(t, sleeper, nil)}, false, []string{"`data` has been removed"}},
		{"another file that is left out", control.SubmitRequest{PipelineFile: project(t, sleeper, map[string]string{
			"data": "1", ".git": "",
		})}, true, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			again := submit(t, s, tt.req)
			if !again.Resumed {
				t.Cleanup(func() { end(t, s, again.Run) })
			}
			if diff := cmp.Diff(tt.differs, again.Differs); diff != "" {
				t.Errorf("differs from %s (-want +got):\n%s", again.Beside, diff)
			}
			if again.Resumed != tt.same || (again.Run == run.Run) != tt.same {
				t.Errorf("resumed %v as %s, the first is %s", again.Resumed, again.Run, run.Run)
			}
		})
	}
	end(t, s, run.Run)
	next := submit(t, s, first)
	t.Cleanup(func() { end(t, s, next.Run) })
	if next.Resumed || next.Run == run.Run {
		t.Errorf("a run that has ended was resumed: %+v", next)
	}
}

func TestSubmitRefuses(t *testing.T) {
	s := session(t)
	good := project(t, "name: good\nparams: {n: {type: int}}\nsteps: {only: {run: {command: [\"true\"]}}}\n", map[string]string{
		"elsewhere.yaml": "sluice: environment/v1\nname: elsewhere\nstore: {url: \"file:///somewhere/else\"}\n",
	})
	remote := project(t, "name: remote\nsteps: {fit: {train: {command: [\"true\"], pool: burst}}}\n", map[string]string{
		"remote.yaml": "sluice: environment/v1\nname: remote\npools: {burst: {kubernetes: {}, runtime: {image: acme/train}}}\n",
	})
	n := map[string]string{"n": "1"}
	lint := func(err error) bool {
		var bad *control.LintError
		return errors.As(err, &bad) && bad.Diagnostics.HasErrors()
	}
	other := func(err error) bool { return !lint(err) }
	tests := []struct {
		name string
		req  control.SubmitRequest
		is   func(error) bool
		says string
	}{
		{"an unknown kind", control.SubmitRequest{PipelineFile: project(t, "name: p\nsteps: {a: {dance: {}}}\n", nil)}, lint, "dance"},
		{"a missing parameter", control.SubmitRequest{PipelineFile: good}, lint, "`n`"},
		{"an unknown parameter", control.SubmitRequest{PipelineFile: good, Params: map[string]string{"n": "1", "m": "1"}}, lint, "`m`"},
		{"a parameter of another type", control.SubmitRequest{PipelineFile: good, Params: map[string]string{"n": "one"}}, lint, "`n`"},
		{"no pipeline", control.SubmitRequest{PipelineFile: filepath.Join(filepath.Dir(good), "none.yaml")}, other, "read the pipeline"},
		{"no environment", control.SubmitRequest{PipelineFile: good, Params: n, EnvFile: "none.yaml"}, other, "read the environment"},
		{"another store", control.SubmitRequest{
			PipelineFile: good, Params: n, EnvFile: filepath.Join(filepath.Dir(good), "elsewhere.yaml"),
		}, other, "selects the store file:///somewhere/else, but the runs of the state folder "},
		{"machines that cannot reach this one", control.SubmitRequest{
			PipelineFile: remote, EnvFile: filepath.Join(filepath.Dir(remote), "remote.yaml"),
		}, other, "`fit` runs on the pool `burst`, whose nodes are other machines: they cannot reach Temporal at 127.0.0.1"},
		{"a broken pattern", control.SubmitRequest{PipelineFile: project(t, sleeper, map[string]string{".sluiceignore": "["})}, other, ".sluiceignore:1"},
	}
	before, err := record.Runs(t.Context(), s.Store)
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			run, err := s.Submit(t.Context(), tt.req)
			if err == nil || !tt.is(err) || !strings.Contains(err.Error(), tt.says) {
				t.Errorf("got %+v, %T: %v, want %q", run, err, err, tt.says)
			}
		})
	}
	after, err := record.Runs(t.Context(), s.Store)
	if err != nil || len(after) != len(before) {
		t.Errorf("%d runs were started, %v", len(after)-len(before), err)
	}
}

// Two processes that submit the same at once start one run.
func TestSubmitTwiceAtOnce(t *testing.T) {
	s := session(t)
	file := project(t, sleeper, nil)
	const processes = 4
	runs := make(chan control.Submitted, processes)
	for range processes {
		go func() {
			sub, err := s.Submit(t.Context(), control.SubmitRequest{PipelineFile: file})
			if err != nil {
				t.Error(err)
			}
			runs <- sub
		}()
	}
	started, seen := 0, map[string]bool{}
	for range processes {
		sub := <-runs
		seen[sub.Run] = true
		if !sub.Resumed {
			started++
		}
	}
	if started != 1 || len(seen) != 1 {
		t.Errorf("%d were started, the runs are %v; want one", started, seen)
	}
	for run := range seen {
		end(t, s, run)
	}
}

// TestRerunOfAnOpenRun: somebody who types rerun after a crash means the run that was interrupted, and not a second one beside it.
func TestRerunOfAnOpenRun(t *testing.T) {
	s := session(t)
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, sleeper, nil)}).Run
	awaitDetail(t, s, run, "nap", func(control.Detail) bool { return true })
	if sub, err := s.Rerun(t.Context(), control.RerunRequest{Run: run}); err != nil || sub.Run != run || !sub.Resumed {
		t.Errorf("a rerun gave %+v, %v; want the run itself", sub, err)
	}
	beside, err := s.Rerun(t.Context(), control.RerunRequest{Run: run, From: "nap"})
	if err != nil || beside.Run == run || beside.Resumed || beside.Beside != run {
		t.Errorf("a rerun of a step gave %+v, %v; want another run beside %s", beside, err, run)
	}
	end(t, s, run)
	end(t, s, beside.Run)
}

func TestRerunOfNothing(t *testing.T) {
	if _, err := session(t).Rerun(t.Context(), control.RerunRequest{Run: "no-such-run"}); !errors.Is(err, store.ErrNotFound) {
		t.Errorf("got %v", err)
	}
}
