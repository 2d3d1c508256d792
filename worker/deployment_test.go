package worker

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/server/common/dynamicconfig"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect/embedded"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/fault"
)

const pinned = `name: pinned
params: {go: {type: string}, n: {type: int}}
concurrency: {group: pinned}
steps:
  work: {run: {script: 'until [ -e "$GO$N" ]; do sleep 0.05; done'}, env: {GO: "${params.go}", N: "${params.n}"}}
  after: {needs: [work], run: {script: "true"}}
`

// TestBuilds rolls a new build out. A run stays with the build that it began on; what belongs to no run, a lock and the watch of a trigger,
// goes on with the new build, and so the old one drains.
func TestBuilds(t *testing.T) {
	versionedServer(t)
	for d, want := range map[Deployment]bool{{}: true, {"a", "1.0:b"}: true, {"a", ""}: false, {"", "b"}: false, {"a.b", "c"}: false, {"a:b", "c"}: false} {
		if err := d.Check(); (err == nil) != want {
			t.Errorf("%+v: %v", d, err)
		}
	}

	s := workAs(t, "one")
	early := submit(t, s, control.SubmitRequest{PipelineFile: project(t, "name: early\nsteps: {only: {run: {command: [\"true\"]}}}\n", nil)}).Run
	await(t, "a run that nobody begins", func() bool {
		return strings.HasPrefix(s.Unattended(t.Context(), contract.RunWorkflowID(early)), "no build of worker deployment sluice")
	})
	if current, err := CurrentBuild(t.Context(), s.Connection, "sluice"); current != "" || err != nil {
		t.Errorf("before any build is the current one: %q, %v", current, err)
	}
	makeCurrent(t, s, "one", "")
	wait(t, s, early)
	wantOn(t, s, contract.RunWorkflowID(early), "one")
	g := &gauge{}
	applyTriggers(t, s, control.SubmitRequest{PipelineFile: project(t, saying("watched", `  drift:
    metric: {prometheus: "`+g.prometheus(t, "psi")+`", query: psi, condition: value > 0.2, cooldown: 1h, every: 1s}
`), nil)})
	forget(t, s, "watched/drift")
	await(t, "a look", func() bool { return trigger(t, s, "watched/drift").Look != nil })
	start, letGo := queuer(t, s)
	first := start(1)
	awaitDetail(t, s, first, "work", func(control.Detail) bool { return true })

	two := workAs(t, "two")
	makeCurrent(t, two, "two", "one")
	second := start(2) // it asks for the lock, which the first run has made
	await(t, "the lock on the new build", func() bool { return isOn(t, s, contract.LockWorkflowID("pinned"), "two") })
	g.set(1)
	await(t, "the run of the trigger", func() bool { return ended(runsOf(t, s, "watched"), spec.StatusSucceeded) == 1 })
	wantOn(t, s, contract.RunWorkflowID(runsOf(t, s, "watched")[0].Run), "two")

	wantBuilds(t, s, Build{BuildID: "two", Status: BuildCurrent, OpenRuns: 1}, Build{BuildID: "one", Status: BuildDraining, OpenRuns: 1})
	for n, run := range []string{first, second} {
		letGo(n + 1)
		if out, _ := wait(t, s, run); out.Status != spec.StatusSucceeded {
			t.Errorf("run %d is %s: %s", n+1, out.Status, out.Error)
		}
		wantOn(t, s, contract.RunWorkflowID(run), []string{"one", "two"}[n])
	}
	wantBuilds(t, s, Build{BuildID: "two", Status: BuildCurrent}, Build{BuildID: "one", Status: BuildDrained})
	wantBehaviors(t, s)

	workAs(t, "stateless", func(o *Options) { o.Stateless = true })
	if _, hosts, err := MakeCurrent(t.Context(), s.Connection, Deployment{"sluice", "stateless"}, func(string) {}); hosts || err != nil {
		t.Errorf("a build of stateless workers takes trainings: %v, %v", hosts, err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	if _, _, err := MakeCurrent(ctx, s.Connection, Deployment{"none", "two"}, func(string) {}); fault.TypeOf(err) != fault.Invalid {
		t.Errorf("a deployment without workers: %v", err)
	}
}

// TestRunsMoveToABuild: a run that was open before there were builds goes on with the first that is the current one, and a run of a build
// with the current one when somebody moves it.
func TestRunsMoveToABuild(t *testing.T) {
	versionedServer(t)
	s := workAs(t, "")
	start, letGo := queuer(t, s)
	goesOn := func(n int, run, build string) {
		letGo(n)
		if out, _ := wait(t, s, run); out.Status != spec.StatusSucceeded {
			t.Errorf("run %d is %s: %s", n, out.Status, out.Error)
		}
		wantOn(t, s, contract.RunWorkflowID(run), build)
	}
	unversioned := start(1)
	awaitDetail(t, s, unversioned, "work", func(control.Detail) bool { return true })
	makeCurrent(t, workAs(t, "one"), "one", "")
	goesOn(1, unversioned, "one")

	pinned := start(2)
	awaitDetail(t, s, pinned, "work", func(control.Detail) bool { return true })
	makeCurrent(t, workAs(t, "two"), "two", "one")
	_, err := s.Client.UpdateWorkflowExecutionOptions(t.Context(), client.UpdateWorkflowExecutionOptionsRequest{
		WorkflowId: contract.RunWorkflowID(pinned),
		WorkflowExecutionOptionsChanges: client.WorkflowExecutionOptionsChanges{
			VersioningOverride: &client.VersioningOverrideChange{Value: &client.AutoUpgradeVersioningOverride{}},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	goesOn(2, pinned, "two")
}

// versionedServer is a server without a worker, on which a build is drained as soon as no run is left. Sessions that are opened after it
// are clients and workers of it.
func versionedServer(t *testing.T) {
	t.Helper()
	s, err := control.Open(t.Context(), control.Options{
		StateDir: t.TempDir(), Logger: slog.New(slog.DiscardHandler),
		Settings: embedded.Settings{
			dynamicconfig.VersionDrainageStatusVisibilityGracePeriod.Key(): time.Second,
			dynamicconfig.VersionDrainageStatusRefreshInterval.Key():       time.Second,
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	closeAfter(t, s)
	token, err := embedded.ReadToken(s.Info.TokenFile)
	if err != nil {
		t.Fatal(err)
	}
	t.Setenv("TEMPORAL_ADDRESS", s.Info.TemporalAddress)
	t.Setenv("TEMPORAL_GRPC_META_AUTHORIZATION", "Bearer "+string(token))
	t.Setenv(state.StoreVariable, "file://"+t.TempDir())
}

// workAs starts a worker that is a build of the deployment sluice, or none.
func workAs(t *testing.T, build string, set ...func(*Options)) *control.Session {
	t.Helper()
	o := Options{Work: true}
	if build != "" {
		o.Deployment = Deployment{"sluice", build}
	}
	for _, f := range set {
		f(&o)
	}
	p := open(t, control.Options{StateDir: t.TempDir()}, o)
	closeAfter(t, p)
	return p.Session
}

// queuer returns what starts the runs of a group, by their numbers, and what lets one go on.
func queuer(t *testing.T, s *control.Session) (start func(n int) string, letGo func(n int)) {
	base := filepath.Join(t.TempDir(), "go")
	file := project(t, pinned, nil)
	start = func(n int) string {
		return submit(t, s, control.SubmitRequest{PipelineFile: file, Params: map[string]string{"go": base, "n": fmt.Sprint(n)}}).Run
	}
	return start, func(n int) {
		if err := os.WriteFile(fmt.Sprint(base, n), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
}

func makeCurrent(t *testing.T, s *control.Session, build, before string) {
	t.Helper()
	was, hosts, err := MakeCurrent(t.Context(), s.Connection, Deployment{"sluice", build}, func(string) {})
	if err != nil || was != before || !hosts {
		t.Fatalf("make %s the current build: %q was before, which takes trainings: %v, %v", build, was, hosts, err)
	}
}

// isOn reports whether a workflow's last task was done by a build.
func isOn(t *testing.T, s *control.Session, workflowID, build string) bool {
	t.Helper()
	described, err := s.Client.DescribeWorkflowExecution(t.Context(), workflowID, "")
	if err != nil {
		t.Fatal(err)
	}
	return described.GetWorkflowExecutionInfo().GetVersioningInfo().GetDeploymentVersion().GetBuildId() == build
}

func wantOn(t *testing.T, s *control.Session, workflowID, build string) {
	t.Helper()
	if !isOn(t, s, workflowID, build) {
		t.Errorf("%s is not on build %s", workflowID, build)
	}
}

// wantBuilds waits until the builds of the deployment are as they should be.
func wantBuilds(t *testing.T, s *control.Session, want ...Build) {
	t.Helper()
	var got []Build
	await(t, fmt.Sprintf("the builds %v", want), func() bool {
		var err error
		if got, err = Builds(t.Context(), s.Connection, "sluice"); err != nil {
			t.Fatal(err)
		}
		return cmp.Equal(want, got, cmpopts.IgnoreFields(Build{}, "FirstSeen"))
	})
}

// wantBehaviors checks every workflow that was there: what belongs to no run is not pinned, and all else is.
func wantBehaviors(t *testing.T, s *control.Session) {
	t.Helper()
	all, err := s.Client.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: "WorkflowType STARTS_WITH 'sluice.'"})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]enums.VersioningBehavior{}
	for _, w := range all.GetExecutions() {
		described, err := s.Client.DescribeWorkflowExecution(t.Context(), w.GetExecution().GetWorkflowId(), w.GetExecution().GetRunId())
		if err != nil {
			t.Fatal(err)
		}
		got[w.GetType().GetName()] = described.GetWorkflowExecutionInfo().GetVersioningInfo().GetBehavior()
	}
	want := map[string]enums.VersioningBehavior{
		contract.PipelineWorkflow: enums.VERSIONING_BEHAVIOR_PINNED,
		contract.LockWorkflow:     enums.VERSIONING_BEHAVIOR_AUTO_UPGRADE,
		contract.WatchWorkflow:    enums.VERSIONING_BEHAVIOR_AUTO_UPGRADE,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("versioning behaviors (-want +got):\n%s", diff)
	}
}
