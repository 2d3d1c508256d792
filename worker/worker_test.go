package worker

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/proc"
	"github.com/sluiceml/sluice/internal/release"
	"github.com/sluiceml/sluice/store"
	"github.com/sluiceml/sluice/store/record"
)

// testLimit bounds every wait for a run.
const testLimit = time.Minute

// shared is the session, holder of a state folder, in which the tests run pipelines. It is opened for the first that asks.
var (
	shared       *control.Session
	sharedWorker *Worker
	openShared   = sync.OnceValue(func() error {
		dir, err := os.MkdirTemp("", "sluice-worker-")
		if err != nil {
			return err
		}
		shared, sharedWorker, err = Open(context.Background(), control.Options{StateDir: dir, Logger: slog.New(slog.DiscardHandler)}, Options{MetricsListen: "127.0.0.1:0"})
		return err
	})
)

func closeShared() error {
	if shared == nil {
		return nil
	}
	return errors.Join(sharedWorker.Close(), shared.Close(), os.RemoveAll(shared.Dir))
}

func session(t *testing.T) *control.Session {
	t.Helper()
	if err := openShared(); err != nil {
		t.Fatal(err)
	}
	return shared
}

// opened is what Open started, for the tests that end it.
type opened struct {
	*control.Session
	*Worker
}

func open(t *testing.T, at control.Options, o Options) opened {
	t.Helper()
	if at.Logger == nil {
		at.Logger = slog.New(slog.DiscardHandler)
	}
	s, w, err := Open(t.Context(), at, o)
	if err != nil {
		t.Fatal(err)
	}
	return opened{s, w}
}

// Close ends both, the worker first.
func (p opened) Close() error { return errors.Join(p.Worker.Close(), p.Session.Close()) }

// closeAfter closes something when the test ends.
func closeAfter(t *testing.T, c io.Closer) {
	t.Cleanup(func() {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	})
}

// project makes a pipeline's folder and returns the pipeline's path. Files are path to content.
func project(t *testing.T, pipeline string, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	write := func(name, content string) {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, content := range files {
		write(name, content)
	}
	write("pipeline.yaml", "sluice: pipeline/v1\n"+pipeline)
	return filepath.Join(dir, "pipeline.yaml")
}

func submit(t *testing.T, s *control.Session, req control.SubmitRequest) control.Submitted {
	t.Helper()
	run, err := s.Submit(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// wait waits for the end of a run and returns its records. It may be called in a test's cleanup.
func wait(t *testing.T, s *control.Session, run string) (record.RunOutput, record.Run) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), testLimit)
	defer cancel()
	out, err := s.Wait(ctx, run)
	if err != nil {
		t.Fatalf("wait for %s: %v", run, err)
	}
	record, err := record.LoadRun(ctx, s.Store, run)
	if err != nil {
		t.Fatal(err)
	}
	return out, record
}

// end cancels a run and waits for its end. It may be called in a test's cleanup.
func end(t *testing.T, s *control.Session, run string) {
	t.Helper()
	if err := s.Cancel(context.WithoutCancel(t.Context()), run); err != nil {
		t.Errorf("cancel %s: %v", run, err)
		return
	}
	wait(t, s, run)
}

// await polls until done is true, for what nobody tells.
func await(t *testing.T, what string, done func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), testLimit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !done() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited too long for %s", what)
		}
	}
}

// awaitDetail waits until a step of a run says of itself what is wanted.
func awaitDetail(t *testing.T, s *control.Session, run, step string, wanted func(control.Detail) bool) (contract.StepState, control.Detail) {
	t.Helper()
	var at contract.StepState
	var detail control.Detail
	await(t, "step "+step+" of "+run, func() bool {
		state, err := s.State(t.Context(), run)
		if err != nil {
			t.Fatal(err)
		}
		for _, at = range state.Steps {
			if at.ID == step && at.Status == spec.StatusRunning && (at.Attempt > 0 || at.Of > 0) {
				detail, err = s.Detail(t.Context(), run, at)
				return err == nil && wanted(detail) // a child that is being started cannot be asked yet
			}
		}
		return false
	})
	return at, detail
}

// statuses are those of a run's steps.
func statuses(r record.Run) map[string]spec.Status {
	all := map[string]spec.Status{}
	for _, step := range r.Steps {
		all[step.Step] = step.Status
	}
	return all
}

// freePort is one that no outgoing connection takes before who is told of it listens.
func freePort(t *testing.T) int {
	t.Helper()
	port, err := proc.FreePort(t.Context(), "127.0.0.1")
	if err != nil {
		t.Fatal(err)
	}
	return port
}

func openStore(t *testing.T) *store.Store {
	t.Helper()
	s, err := store.Open(t.Context(), "file://"+t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// TestAttach: a second session in the folder finds the first one's runs and is no worker.
func TestAttach(t *testing.T) {
	s := session(t)
	second, worker, err := Open(t.Context(), control.Options{StateDir: s.Dir}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := errors.Join(worker.Close(), second.Close()); err != nil {
			t.Error(err)
		}
	}()
	if second.Holder != nil || worker != nil || worker.Targets() != nil {
		t.Error("the second session holds the folder too")
	}
	run := submit(t, second, control.SubmitRequest{PipelineFile: project(t, "name: attached\nsteps: {only: {run: {command: [\"true\"]}}}\n", nil)})
	if out, _ := wait(t, second, run.Run); out.Status != spec.StatusSucceeded {
		t.Errorf("the run ended as %+v", out)
	}
	if why := second.Unattended(t.Context(), contract.RunWorkflowID(run.Run)); why != "" {
		t.Errorf("the run is not carried on: %s", why)
	}
	described, err := second.Client.DescribeWorkflowExecution(t.Context(), contract.RunWorkflowID(run.Run), "")
	if err != nil {
		t.Fatal(err)
	}
	points := described.GetWorkflowExecutionInfo().GetAutoResetPoints().GetPoints()
	if len(points) == 0 {
		t.Error("the run does not say which build carried it on")
	}
	for _, point := range points {
		if got := point.GetBuildId(); got != release.Build() {
			t.Errorf("the run was carried on by a worker named %q, want the build %q", got, release.Build())
		}
	}
	if _, err := os.Stat(filepath.Join(s.Dir, "worker.log")); err != nil {
		t.Error(err)
	}
}

// TestOpenFails: a state folder that cannot be is said with what to do, and nothing is held.
func TestOpenFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := Open(t.Context(), control.Options{StateDir: filepath.Join(file, "state")}, Options{})
	if err == nil || !strings.Contains(err.Error(), file) || !strings.Contains(err.Error(), "--state") {
		t.Errorf("got %v, want an error that names the folder and --state", err)
	}
}

// TestSweep: folders of attempts that a killed holder left are gone when the folder is next held.
func TestSweep(t *testing.T) {
	dir := t.TempDir()
	left := filepath.Join(dir, "tmp", "run-step-1")
	if err := os.MkdirAll(left, 0o700); err != nil {
		t.Fatal(err)
	}
	attached := &control.Session{Dir: dir, Connection: &connect.Connection{}}
	sweep(attached)
	if _, err := os.Stat(left); err != nil {
		t.Errorf("a session that does not hold the folder swept: %v", err)
	}
	holding, err := control.Open(t.Context(), control.Options{StateDir: dir, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, holding)
	sweep(holding)
	if _, err := os.Stat(left); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is left: %v", left, err)
	}
}
