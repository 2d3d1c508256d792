package worker

import (
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	commonpb "go.temporal.io/api/common/v1"
	filterpb "go.temporal.io/api/filter/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/activities/watch"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
	"github.com/sluiceml/sluice/internal/testing/historytest"
	"github.com/sluiceml/sluice/internal/testing/rig"
	"github.com/sluiceml/sluice/store/record"
)

// gauge is one number that Prometheus knows, or may scrape.
type gauge struct{ bits atomic.Uint64 }

func (g *gauge) set(v float64) { g.bits.Store(math.Float64bits(v)) }
func (g *gauge) get() float64  { return math.Float64frombits(g.bits.Load()) }

// prometheus answers instant queries as Prometheus does: about one series, which is the gauge.
func (g *gauge) prometheus(t *testing.T, query string) string {
	t.Helper()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/query", func(w http.ResponseWriter, r *http.Request) {
		if got := r.URL.Query().Get("query"); got != query {
			t.Errorf("asked for %q, want %q", got, query)
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{},"value":[1,"%v"]}]}}`, g.get())
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	return server.URL
}

// realPrometheus starts a Prometheus that scrapes the gauge as `feature_psi` every second.
func (g *gauge) realPrometheus(t *testing.T) string {
	t.Helper()
	program, err := rig.Installed("prometheus", "prometheus")
	if err != nil {
		rig.Skip(t, err)
	}
	exporter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintf(w, "# TYPE feature_psi gauge\nfeature_psi{model=\"spam\"} %v\nfeature_psi{model=\"ham\"} 0\n", g.get())
	}))
	t.Cleanup(exporter.Close)
	dir := t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	text := "global: {scrape_interval: 1s}\nscrape_configs: [{job_name: spam, static_configs: [{targets: ['" +
		strings.TrimPrefix(exporter.URL, "http://") + "']}]}]\n"
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	address := fmt.Sprintf("127.0.0.1:%d", freePort(t))
	cmd := exec.CommandContext(t.Context(), program, "--config.file="+config, "--storage.tsdb.path="+filepath.Join(dir, "data"),
		"--web.listen-address="+address, "--log.level=error")
	cmd.Stderr = t.Output()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Wait() }) // killed by the end of the test's context
	return "http://" + address
}

// saying is a pipeline whose one step says by what it was started.
func saying(name, triggers string) string {
	return "name: " + name + `
steps:
  say:
    run: {command: ["true"]}
    summary: "${run.trigger.kind} ${run.trigger.name} ${run.trigger.?value.orValue(0.0)}"
triggers:
` + triggers
}

// said is the summary of a run's step say.
func said(t *testing.T, s *control.Session, run string) string {
	t.Helper()
	all, err := record.LoadRun(t.Context(), s.Store, run)
	if err != nil {
		t.Fatal(err)
	}
	return recordOf(t, all, "say").Summary
}

// moreLooks waits for two more looks of a trigger.
func moreLooks(t *testing.T, s *control.Session, id string) {
	t.Helper()
	before := trigger(t, s, id).Look.At
	await(t, "two more looks of "+id, func() bool { return trigger(t, s, id).Look.At.Sub(before) > 2*time.Second })
}

// TestMetricTrigger: a number that Prometheus gives starts one run when it has met the condition for the time; the run is told of it.
func TestMetricTrigger(t *testing.T) {
	for name, serve := range map[string]func(*gauge, *testing.T) string{
		"fake": func(g *gauge, t *testing.T) string { return g.prometheus(t, `max(feature_psi{model="spam"})`) },
		"real": (*gauge).realPrometheus,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := session(t)
			g := &gauge{}
			g.set(0.125)
			pipeline := "drift-" + name
			id := pipeline + "/drift"
			applyTriggers(t, s, control.SubmitRequest{PipelineFile: project(t, saying(pipeline, `  drift:
    metric: {prometheus: "`+serve(g, t)+`", query: 'max(feature_psi{model="spam"})', condition: value > 0.2, for: 2s, cooldown: 1h, every: 1s}
`), nil)})
			forget(t, s, id)
			await(t, "a look", func() bool { l := trigger(t, s, id).Look; return l != nil && l.Saw == "value 0.125" })
			moreLooks(t, s, id)
			if runs := runsOf(t, s, pipeline); len(runs) != 0 {
				t.Errorf("0.125 is not above 0.2, and started %d runs", len(runs))
			}
			drifted := time.Now()
			g.set(0.25)
			await(t, "a run", func() bool { return ended(runsOf(t, s, pipeline), spec.StatusSucceeded) == 1 })
			run := runsOf(t, s, pipeline)[0]
			if by := run.Trigger; by.Name != "drift" || by.Kind != "metric" || by.Value != 0.25 || by.Time.Sub(drifted) < 2*time.Second {
				t.Errorf("started by %+v, %v after the drift", by, by.Time.Sub(drifted))
			}
			if got := said(t, s, run.Run); got != "metric drift 0.25" {
				t.Errorf("the step said %q", got)
			}
			moreLooks(t, s, id)
			if got := trigger(t, s, id); !strings.HasSuffix(got.Look.Saw, "cooling down") || len(runsOf(t, s, pipeline)) != 1 {
				t.Errorf("after the start: %+v, and %d runs", got.Look, len(runsOf(t, s, pipeline)))
			}
		})
	}
}

// TestOutputTrigger: an output of the pipeline's own last accepted run starts a run.
func TestOutputTrigger(t *testing.T) {
	t.Parallel()
	s := session(t)
	const pipeline = "worse-test"
	id := pipeline + "/worse"
	req := control.SubmitRequest{PipelineFile: project(t, "name: "+pipeline+`
params: {f1: {type: double}}
steps:
  score:
    run: {script: 'echo "{\"f1\": $F1}" > "$SLUICE_OUTPUT_DIR/outputs.json"', outputs: {f1: {type: double}}}
    env: {F1: "${params.f1}"}
triggers:
  worse: {metric: {step: score, output: f1, condition: value < 0.9, every: 1s}, params: {f1: 0.95}}
`, nil), Params: map[string]string{"f1": "0.5"}}
	applyTriggers(t, s, req)
	forget(t, s, id)
	await(t, "a look at nothing", func() bool { l := trigger(t, s, id).Look; return l != nil && l.Saw == "no value" })
	wait(t, s, submit(t, s, req).Run)
	await(t, "a run by the trigger", func() bool { return ended(runsOf(t, s, pipeline), spec.StatusSucceeded) == 2 })
	by := runsOf(t, s, pipeline)[1]
	if by.Trigger.Kind != "metric" || by.Trigger.Value != 0.5 || by.Params["f1"] != 0.95 {
		t.Errorf("started by %+v with %v", by.Trigger, by.Params)
	}
	await(t, "a look at its output", func() bool { return trigger(t, s, id).Look.Saw == "value 0.95" })
	if runs := runsOf(t, s, pipeline); len(runs) != 2 {
		t.Errorf("%d runs", len(runs))
	}
	watch := watches(t, s, id)
	if err := s.Schedules().Delete(t.Context(), id); err != nil || len(watch) != 1 {
		t.Fatalf("%v watch, %v", watch, err)
	}
	historytest.Record(t, s.Client, watch[0], "watch-due")
}

// upstream is a pipeline whose runs a gate declines, fails or lets pass.
const upstream = `params: {end: {type: string}, n: {type: int}}
steps:
  make:
    run: {script: 'test "$END" != failed', outputs: {}}
    env: {END: "${params.end}", N: "${params.n}"}
    gate:
      - {check: params.end != "declined", on_fail: stop}
`

// TestPipelineTrigger: each accepted run of another pipeline starts one run; those that failed or were declined start none, nor do those
// from before the trigger.
func TestPipelineTrigger(t *testing.T) {
	t.Parallel()
	s := session(t)
	const pipeline, source = "follow-test", "lead-test"
	id := pipeline + "/led"
	lead := project(t, "name: "+source+"\n"+upstream, nil)
	run := func(end, n string) spec.Status {
		t.Helper()
		out, _ := wait(t, s, submit(t, s, control.SubmitRequest{PipelineFile: lead, Params: map[string]string{"end": end, "n": n}}).Run)
		return out.Status
	}
	ends := []spec.Status{run("accepted", "0")}
	applyTriggers(t, s, control.SubmitRequest{PipelineFile: project(t, saying(pipeline, "  led: {pipeline: {name: "+source+", every: 1s}}\n"), nil)})
	forget(t, s, id)
	ends = append(ends, run("failed", "1"), run("declined", "2"))
	await(t, "a look", func() bool { return trigger(t, s, id).Look != nil })
	moreLooks(t, s, id)
	if runs := runsOf(t, s, pipeline); len(runs) != 0 {
		t.Errorf("%d runs were started by none that was accepted", len(runs))
	}
	for n := range 2 {
		ends = append(ends, run("accepted", fmt.Sprint(3+n)))
		await(t, "a run", func() bool { return ended(runsOf(t, s, pipeline), spec.StatusSucceeded) == n+1 })
	}
	want := []spec.Status{spec.StatusSucceeded, spec.StatusFailed, spec.StatusDeclined, spec.StatusSucceeded, spec.StatusSucceeded}
	if diff := cmp.Diff(want, ends); diff != "" {
		t.Errorf("the other pipeline's runs (-want +got):\n%s", diff)
	}
	moreLooks(t, s, id)
	runs := runsOf(t, s, pipeline)
	if len(runs) != 2 {
		t.Errorf("%d runs for two that were accepted", len(runs))
	}
	if shown := trigger(t, s, id).Runs; len(shown) != 2 || shown[0].Run != runs[1].Run || shown[1].Run != runs[0].Run {
		t.Errorf("the trigger shows the runs %+v, want %s and %s", shown, runs[1].Run, runs[0].Run)
	}
	for _, r := range runs {
		if r.Trigger.Name != "led" || r.Trigger.Kind != "pipeline" || r.Trigger.Time.IsZero() {
			t.Errorf("started by %+v", r.Trigger)
		}
		if got := said(t, s, r.Run); got != "pipeline led 0" {
			t.Errorf("the step said %q", got)
		}
	}
}

// TestDueRunSurvivesRestart: what a trigger has decided on is started once, by whichever worker comes next.
func TestDueRunSurvivesRestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	g := &gauge{}
	const pipeline, source = "due", "lead"
	ids := []string{pipeline + "/drift", pipeline + "/led"}
	p := open(t, control.Options{StateDir: dir}, Options{})
	s := p.Session
	applyTriggers(t, s, control.SubmitRequest{PipelineFile: project(t, saying(pipeline, `  drift: {metric: {prometheus: "`+g.prometheus(t, "psi")+`", query: psi, condition: value > 0.2, every: 1s}}
  led: {pipeline: {name: lead, every: 1s}}
`), nil)})
	for _, id := range ids {
		await(t, "a look of "+id, func() bool { return trigger(t, s, id).Look != nil })
		if err := s.Schedules().Pause(t.Context(), id, ""); err != nil {
			t.Fatal(err)
		}
	}
	g.set(0.25)
	lead := control.SubmitRequest{PipelineFile: project(t, "name: lead\n"+upstream, nil), Params: map[string]string{"end": "accepted", "n": "1"}}
	wait(t, s, submit(t, s, lead).Run)
	var due []string
	for _, id := range ids { // the worker looks, and dies before it starts what is due
		look, err := (&watch.Triggers{Store: s.Store}).Look(t.Context(), watchInput(t, s, id))
		if err != nil || look.Run == "" {
			t.Fatalf("look of %s: %+v, %v", id, look, err)
		}
		due = append(due, look.Run)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	p = open(t, control.Options{StateDir: dir}, Options{})
	s = p.Session
	defer func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}()
	g.set(0.125) // what was seen counts
	for _, id := range ids {
		if err := s.Schedules().Resume(t.Context(), id); err != nil {
			t.Fatal(err)
		}
	}
	await(t, "the runs", func() bool { return ended(runsOf(t, s, pipeline), spec.StatusSucceeded) == len(ids) })
	for i, id := range ids {
		moreLooks(t, s, id)
		if got := trigger(t, s, id).Runs; len(got) != 1 || got[0].Run != due[i] {
			t.Errorf("%s started %+v, want %s", id, got, due[i])
		}
	}
	if runs := runsOf(t, s, pipeline); len(runs) != len(ids) {
		t.Errorf("%d runs, want one for each trigger", len(runs))
	}
}

// watchInput is what the watch of a trigger is started with.
func watchInput(t *testing.T, s *control.Session, id string) contract.WatchInput {
	t.Helper()
	desc, err := s.Client.ScheduleClient().GetHandle(t.Context(), id).Describe(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var in contract.WatchInput
	raw := desc.Schedule.Action.(*client.ScheduleWorkflowAction).Args[0].(*commonpb.Payload)
	if err := s.Codec.DataConverter().FromPayload(raw, &in); err != nil {
		t.Fatal(err)
	}
	return in
}

// watches are the workflow IDs of a trigger's watches that are open.
func watches(t *testing.T, s *control.Session, id string) []string {
	t.Helper()
	open, err := s.Client.ListOpenWorkflow(t.Context(), &workflowservice.ListOpenWorkflowExecutionsRequest{
		Namespace: s.Info.Namespace,
		Filters: &workflowservice.ListOpenWorkflowExecutionsRequest_TypeFilter{
			TypeFilter: &filterpb.WorkflowTypeFilter{Name: contract.WatchWorkflow},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	var ids []string
	for _, e := range open.GetExecutions() {
		if name := e.GetExecution().GetWorkflowId(); strings.HasPrefix(name, "watch/"+id) {
			ids = append(ids, name)
		}
	}
	return ids
}

// TestWatchIsOne: a trigger that watches has one workflow, however often it looks. It looks at once when it was resumed, changed, or told
// to by hand, and not at all when it is paused or deleted, also by somebody who knows Temporal only.
func TestWatchIsOne(t *testing.T) {
	t.Parallel()
	s := session(t)
	const pipeline = "watch-test"
	id := pipeline + "/drift"
	g := &gauge{}
	url := g.prometheus(t, "psi")
	declare := func(every string, condition float64) control.SubmitRequest {
		return control.SubmitRequest{PipelineFile: project(t, saying(pipeline, fmt.Sprintf(
			"  drift: {metric: {prometheus: %q, query: psi, condition: value > %v, every: %s}}\n", url, condition, every)), nil)}
	}
	looksAt := func(value float64, what string) {
		t.Helper()
		await(t, "the look after "+what, func() bool {
			look := trigger(t, s, id).Look
			return look != nil && look.Saw == fmt.Sprintf("value %v", value)
		})
	}
	one := func(what string) string {
		t.Helper()
		var open []string
		await(t, "one watch after "+what, func() bool { open = watches(t, s, id); return len(open) == 1 })
		return open[0]
	}
	none := func(what string) {
		t.Helper()
		await(t, "no watch after "+what, func() bool { return len(watches(t, s, id)) == 0 })
	}
	g.set(1)
	applyTriggers(t, s, declare("1h", 100))
	forget(t, s, id)
	looksAt(1, "the start")
	one("the start")

	g.set(2)
	fired, err := s.Schedules().Fire(t.Context(), id)
	if err != nil || !contract.IsWatch(fired.Workflow) {
		t.Errorf("by hand: %+v, %v", fired, err)
	}
	looksAt(2, "a start by hand")
	if got := one("a start by hand"); got != fired.Workflow {
		t.Errorf("%s watches, and %s was started", got, fired.Workflow)
	}

	g.set(3)
	applyTriggers(t, s, declare("1h", 200))
	looksAt(3, "a change")
	one("a change")

	if err := s.Schedules().Pause(t.Context(), id, "a test"); err != nil {
		t.Fatal(err)
	}
	none("a pause")
	g.set(4)
	applyTriggers(t, s, declare("1s", 200))
	none("a change in a pause")
	if look := trigger(t, s, id).Look; look.Saw != "value 3" {
		t.Errorf("paused, it looked: %+v", look)
	}
	if err := s.Schedules().Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	looksAt(4, "a pause")
	watch := one("a pause")
	moreLooks(t, s, id)
	if got := one("more looks"); got != watch {
		t.Errorf("%s went on as %s", watch, got)
	}
	if next := trigger(t, s, id).Next; len(next) != 1 || time.Until(next[0]) > time.Second {
		t.Errorf("the next look is at %v", next)
	}

	h := s.Client.ScheduleClient().GetHandle(t.Context(), id)
	if err := h.Pause(t.Context(), client.SchedulePauseOptions{}); err != nil {
		t.Fatal(err)
	}
	none("a pause by Temporal's means")
	if err := s.Schedules().Resume(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	one("that pause")
	if err := s.Schedules().Delete(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	none("a delete")
	historytest.Record(t, s.Client, watch, "watch-over")
}
