package integration

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"regexp"
	"runtime/debug"
	"strconv"
	"testing"
	"time"

	"go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect"
	"github.com/sluiceml/sluice/connect/codec"
	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/internal/testing/noop"
	"github.com/sluiceml/sluice/store"
)

// long reports whether the tests are to take as long as they need for the sizes that are promised (`make test-long`).
var long = os.Getenv("SLUICE_TEST_LONG") != ""

// sized is a size that is promised, and a smaller one for every day.
func sized(promised, daily int) int {
	if long {
		return promised
	}
	return daily
}

// engineProcess is the real engine on an embedded server of its own, with steps that do nothing.
type engineProcess struct {
	t      *testing.T
	client client.Client
	store  *store.Store
}

func newEngine(t *testing.T, step noop.Step) *engineProcess {
	t.Helper()
	dir := t.TempDir()
	s, err := store.Open(t.Context(), "file://"+dir+"/store")
	if err != nil {
		t.Fatal(err)
	}
	conn, err := connect.Dial(t.Context(), connect.Options{
		Dir: dir, Logger: slog.New(slog.DiscardHandler), Codec: codec.New(nil, s), ServerLogLevel: slog.LevelError,
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := conn.Close(); err != nil {
			t.Error(err)
		}
	})
	w := noop.Worker(conn.Client, s, step)
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return &engineProcess{t: t, client: conn.Client, store: s}
}

// submit stores a pipeline.
func (e *engineProcess) submit(source string) contract.RunInput {
	e.t.Helper()
	in, err := noop.Submit(e.t.Context(), e.store, source)
	if err != nil {
		e.t.Fatal(err)
	}
	return in
}

// start starts a run. Many may be started at once.
func (e *engineProcess) start(run string, in contract.RunInput) client.WorkflowRun {
	e.t.Helper()
	in.Run = run
	if err := control.StartRun(e.t.Context(), e.client, in); err != nil {
		e.t.Error(err)
	}
	return e.client.GetWorkflow(e.t.Context(), contract.RunWorkflowID(run), "")
}

// all lists every execution that Temporal's visibility knows.
func (e *engineProcess) all(query string) []*workflow.WorkflowExecutionInfo {
	e.t.Helper()
	var all []*workflow.WorkflowExecutionInfo
	for request := (&workflowservice.ListWorkflowExecutionsRequest{Query: query, PageSize: 1000}); ; {
		page, err := e.client.ListWorkflow(e.t.Context(), request)
		if err != nil {
			e.t.Fatal(err)
		}
		all = append(all, page.GetExecutions()...)
		if request.NextPageToken = page.GetNextPageToken(); len(request.NextPageToken) == 0 {
			return all
		}
	}
}

// awaitNoneOpen waits until visibility, which lags behind, knows of no open workflow.
func (e *engineProcess) awaitNoneOpen() {
	e.t.Helper()
	ctx, cancel := context.WithTimeout(e.t.Context(), testLimit)
	defer cancel()
	tick := time.NewTicker(pollPause)
	defer tick.Stop()
	for {
		open := e.all("ExecutionStatus = 'Running'")
		if len(open) == 0 {
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			for _, w := range open {
				e.t.Errorf("workflow %s is open", w.GetExecution().GetWorkflowId())
			}
			return
		}
	}
}

// longestHistory of all workflows that have ended.
func (e *engineProcess) longestHistory() (workflows int, longest int64) {
	e.t.Helper()
	all := e.all("")
	for _, w := range all {
		longest = max(longest, w.GetHistoryLength())
	}
	return len(all), longest
}

// forgetMemory gives back what the tests before have left, and begins to measure the peak of this process anew: clear_refs in proc(5).
func forgetMemory(t *testing.T) {
	t.Helper()
	debug.FreeOSMemory()
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		t.Fatal(err)
	}
}

// memory is the most that this process has held in memory since forgetMemory, in MiB.
func memory(t *testing.T) int {
	t.Helper()
	raw, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`VmHWM:\s+(\d+) kB`).FindSubmatch(raw)
	if found == nil {
		t.Fatal("the kernel does not say how much memory the process has held")
	}
	kib, err := strconv.Atoi(string(found[1]))
	if err != nil {
		t.Fatal(err)
	}
	return kib / 1024
}

// step is a step of a pipeline whose work is nothing.
func step(id string, more string) string {
	return fmt.Sprintf("  %s:\n    run: {command: [noop], outputs: {n: {type: int}}}\n    gate: n >= 1\n%s", id, more)
}
