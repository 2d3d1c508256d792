package worker

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/sluiceml/sluice/control"
	"github.com/sluiceml/sluice/dsl/spec"
)

// TestStoppedWorkerIsNoFailure: a step that a worker gives up because it is told to stop is done again by the next one, and charged to
// nobody, as after a kill.
func TestStoppedWorkerIsNoFailure(t *testing.T) {
	dir := t.TempDir()
	at := control.Options{StateDir: filepath.Join(dir, "state"), Logger: slog.New(slog.DiscardHandler)}
	server, err := control.Open(t.Context(), at)
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	first := open(t, at, Options{Work: true})
	began, ended, again := filepath.Join(dir, "began"), filepath.Join(dir, "ended"), filepath.Join(dir, "again")
	run := submit(t, first.Session, control.SubmitRequest{PipelineFile: project(t, `
name: stopped
steps:
  only:
    run: {script: 'if [ -e "$AGAIN" ]; then exit 0; fi; trap "touch $ENDED; exit 1" TERM; touch "$BEGAN"; while :; do sleep 0.1; done'}
    env: {BEGAN: "`+began+`", ENDED: "`+ended+`", AGAIN: "`+again+`"}
    retry: {attempts: 1}
`, nil)})
	there := func(name string) func() bool {
		return func() bool {
			_, err := os.Stat(name)
			return err == nil
		}
	}
	await(t, "the program", there(began))
	first.stopWorkers()
	await(t, "the end of the program", there(ended))
	client := first.Client
	await(t, "the end of its attempt", func() bool { // or, charged to nobody, the heartbeats' end
		desc, err := client.DescribeWorkflowExecution(t.Context(), "run/"+run.Run, "")
		if err != nil {
			t.Fatal(err)
		}
		return len(desc.GetPendingActivities()) == 0
	})
	if err := os.WriteFile(again, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	second := open(t, at, Options{Work: true})
	defer second.Close()
	defer first.Close()
	out, record := wait(t, second.Session, run.Run)
	if out.Status != spec.StatusSucceeded {
		t.Errorf("the run ended as %s: %s; attempts %+v", out.Status, out.Error, record.Steps[0].Attempts)
	}
}
