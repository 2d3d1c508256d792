package integration

import (
	"encoding/json"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/worker"
)

// versionsPipeline waits until it is let go, and then trains and has a child pipeline.
const versionsPipeline = `sluice: pipeline/v1
name: versions
params: {dir: {type: string}, go: {type: string}}
steps:
  wait: {run: {script: 'until [ -e "$DIR/$GO" ]; do sleep 0.05; done'}, env: {DIR: "${params.dir}", GO: "${params.go}"}}
  fit:
    needs: [wait]
    train:
      command: [python3, trainer.py]
      outputs: {model: {type: model, path: model}}
      metrics: [loss, f1]
      nodes: 2
      pool: local
    env: {TRACE: "${params.dir}/trace", STEPS: "5", STEP_SECONDS: "0.02"}
  child:
    needs: [fit]
    pipeline: {file: child.yaml}
`

const versionsChild = `sluice: pipeline/v1
name: versions-child
steps: {only: {run: {script: "true"}}}
`

// TestWorkerVersions rolls a new build out as somebody would by the command line. A run that began on the old build stays there to its end,
// though the new one is current when its children on both task queues begin; a new run goes to the new one. What agents leave is in the
// folder of the worker that started them.
func TestWorkerVersions(t *testing.T) {
	t.Parallel()
	v := newVersions(t)
	early := v.start("run", "child.yaml")
	early.awaits("the run is waiting: no worker polls the task queue sluice: start `sluice worker`")
	v.build("one").says("as build one of deployment sluice (to start new runs on it: sluice worker set-current --deployment sluice --build-id one)")
	v.start("worker", "set-current", "--deployment", "sluice", "--build-id", "one").expect(0).says("build one is now the current one of deployment sluice")
	early.expect(0)
	first := v.begin("first")
	v.wantBuilds(map[string]worker.Build{"one": {Status: worker.BuildCurrent, OpenRuns: 1}})

	v.build("two")
	v.start("worker", "set-current", "--deployment", "sluice", "--build-id", "two").expect(0).
		says("build two is now the current one of deployment sluice", "build one keeps its open runs")
	second := v.begin("second")
	v.wantBuilds(map[string]worker.Build{
		"one": {Status: worker.BuildDraining, OpenRuns: 1}, "two": {Status: worker.BuildCurrent, OpenRuns: 1},
	})
	write(t, filepath.Join(v.dir, "first"), "")
	write(t, filepath.Join(v.dir, "second"), "")
	for run, build := range map[string]string{first: "one", second: "two"} {
		v.awaitEnd(run)
		v.wantOn(build, contract.RunWorkflowID(run), contract.TrainWorkflowID(run, "fit"))
		for _, folder := range []string{"one", "two"} {
			_, err := os.Stat(filepath.Join(v.dir, folder, "logs", run, "fit"))
			if ran := err == nil; ran != (folder == build) {
				t.Errorf("run %s has trained on build %s: %v", run, folder, ran)
			}
		}
	}
	v.wantBuilds(map[string]worker.Build{"one": {Status: worker.BuildDraining}, "two": {Status: worker.BuildCurrent}})
}

// TestStatelessWorkersAlone: a training waits for a worker that may train, and whoever follows the run is told so.
func TestStatelessWorkersAlone(t *testing.T) {
	t.Parallel()
	v := newVersions(t)
	write(t, filepath.Join(v.dir, "go"), "")
	v.start("worker", "--state", filepath.Join(v.dir, "stateless"), "--stateless").awaits("Ctrl-C stops")
	run := v.start("run", "pipeline.yaml", "-e", "environment.yaml", "-p", "dir="+v.dir, "-p", "go=go")
	run.awaits("fit running: no worker polls the task queue sluice-host: start `sluice worker` without --stateless")
	v.work("host")
	run.expect(0)
}

// versions is a server with workers that are builds of a deployment.
type versions struct {
	*sandbox
	session *control.Session
}

func newVersions(t *testing.T) *versions {
	t.Helper()
	v := &versions{sandbox: newSandbox(t, "program")}
	script, err := os.ReadFile("testdata/trainer.py")
	if err != nil {
		t.Fatal(err)
	}
	for file, text := range map[string]string{"pipeline.yaml": versionsPipeline, "child.yaml": versionsChild, "trainer.py": string(script)} {
		write(t, filepath.Join(v.project, file), text)
	}
	v.env = append(v.env, state.StoreVariable+"=file://"+filepath.Join(v.state, "store"))
	v.serve()
	v.session, err = control.Open(t.Context(), control.Options{StateDir: v.state, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { v.session.Close() })
	return v
}

// build starts a worker that is a build, in a folder of its name.
func (v *versions) build(id string) *command {
	v.t.Helper()
	c := v.start("worker", "--state", filepath.Join(v.dir, id), "--deployment", "sluice", "--build-id", id)
	c.awaits("Ctrl-C stops")
	return c
}

// begin starts a run, which goes on when there is a file.
func (v *versions) begin(file string) (run string) {
	v.t.Helper()
	return v.start("run", "pipeline.yaml", "-e", "environment.yaml", "-p", "dir="+v.dir, "-p", "go="+file, "--detach").expect(0).runID()
}

func (v *versions) awaitEnd(run string) {
	v.t.Helper()
	var record shown
	v.await("the end of run "+run, func() bool { record = v.show(run); return record.Status != "running" })
	if record.Status != "succeeded" {
		v.t.Errorf("run %s is %s: %s", run, record.Status, record.Error)
	}
}

// wantOn checks on which build workflows were done.
func (v *versions) wantOn(build string, workflowIDs ...string) {
	v.t.Helper()
	for _, id := range workflowIDs {
		described, err := v.session.Client.DescribeWorkflowExecution(v.t.Context(), id, "")
		if err != nil {
			v.t.Fatal(err)
		}
		if got := described.GetWorkflowExecutionInfo().GetVersioningInfo().GetDeploymentVersion().GetBuildId(); got != build {
			v.t.Errorf("%s is on build %q, want %s", id, got, build)
		}
	}
}

// wantBuilds waits until `sluice worker versions` lists the builds as they should be.
func (v *versions) wantBuilds(want map[string]worker.Build) {
	v.t.Helper()
	var got map[string]worker.Build
	v.await(fmt.Sprintf("the builds %v", want), func() bool {
		var all []worker.Build
		c := v.start("worker", "versions", "--deployment", "sluice", "--format", "json").expect(0)
		if err := json.Unmarshal([]byte(c.stdout.String()), &all); err != nil {
			v.t.Fatal(err)
		}
		got = map[string]worker.Build{}
		for _, b := range all {
			got[b.BuildID] = worker.Build{Status: b.Status, OpenRuns: b.OpenRuns}
		}
		return cmp.Equal(want, got)
	})
}
