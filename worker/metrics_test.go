package worker

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
)

// TestMetrics: what a run counts is at /metrics, once and under the labels of the table, with what the SDK measures, and nothing listens
// when the session is closed.
func TestMetrics(t *testing.T) {
	t.Parallel()
	log := slog.New(slog.DiscardHandler)
	p := open(t, control.Options{StateDir: t.TempDir()}, Options{MetricsListen: "127.0.0.1:0"})
	s := p.Session
	address := p.MetricsAddress()
	page := "http://" + address + "/metrics"
	wantExported(t, get(t, page), `sluice_runs_total{namespace="default",status="failed"} 0`, `sluice_train_steps_lost_total{namespace="default"} 0`)

	mail := filepath.Join(t.TempDir(), "mail.jsonl")
	if err := os.WriteFile(mail, []byte(`{"n": 1}`+"\n"+`{"n": 2}`+"\n"+`{"n": 3}`+"\n"+`broken`+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var steps strings.Builder
	for i := range 30 { // no name of theirs becomes a label
		fmt.Fprintf(&steps, "  hostile_%d: {run: {command: [\"true\"]}, needs: [mail]}\n", i)
	}
	run := submit(t, s, control.SubmitRequest{PipelineFile: project(t, `name: counted
steps:
  mail:
    clean:
      type: chain
      transforms:
        - {type: ReadFromJson, config: {path: "`+mail+`"}}
        - {type: Filter, config: {keep: "row.n > 2"}}
        - {type: WriteToJson, config: {path: kept}}
    gate:
      - rows.kept > 0
      - rows.read < 10
`+steps.String(), nil)})
	if out, _ := wait(t, s, run.Run); out.Status != spec.StatusSucceeded {
		t.Fatalf("the run ended as %+v", out)
	}
	text := get(t, page)
	wantExported(t, text,
		`sluice_runs_total{namespace="default",status="succeeded"} 1`, `sluice_steps_total{kind="clean",namespace="default",status="succeeded"} 1`,
		`sluice_steps_total{kind="run",namespace="default",status="succeeded"} 30`, `sluice_gate_checks_total{namespace="default",verdict="pass"} 2`,
		`sluice_rows_total{namespace="default",outcome="kept"} 1`, `sluice_rows_total{namespace="default",outcome="dropped"} 2`,
		`sluice_rows_total{namespace="default",outcome="rejected"} 1`, `sluice_rows_reused_total{namespace="default"} 0`,
	)
	if strings.Contains(text, "hostile") || strings.Contains(text, run.Run) {
		t.Errorf("names of steps or runs are labels:\n%s", text)
	}
	await(t, "what the SDK measures", func() bool {
		return strings.Contains(get(t, page), "temporal_activity_execution_latency_seconds_bucket")
	})

	if _, _, err := Open(t.Context(), control.Options{StateDir: t.TempDir(), Logger: log}, Options{MetricsListen: address}); err == nil || !strings.Contains(err.Error(), "--metrics-listen") {
		t.Errorf("a second one on the same address: %v", err)
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if _, err := (&net.Dialer{}).DialContext(t.Context(), "tcp", address); err == nil {
		t.Error("it listens when it is closed")
	}
}

// exported is the shared worker's page of metrics.
func exported(t *testing.T) string {
	t.Helper()
	return get(t, "http://"+sharedWorker.metrics.server.Address()+"/metrics")
}

// wantExported checks that a page of metrics has these lines.
func wantExported(t *testing.T, page string, lines ...string) {
	t.Helper()
	for _, line := range lines {
		if !strings.Contains(page, "\n"+line+"\n") {
			t.Errorf("there is no %s in\n%s", line, page)
		}
	}
}

// get is the body of an answer, empty when there is none.
func get(t *testing.T, url string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(context.WithoutCancel(t.Context()), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return ""
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil {
		return ""
	}
	return string(body)
}
