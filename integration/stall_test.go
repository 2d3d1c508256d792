package integration

import (
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/activities/contract"
	"github.com/sluiceml/sluice/connect/state"
	"github.com/sluiceml/sluice/control"
)

// stallPipeline has a program of a run step and one of a clean step, which note their processes and work until they are let go.
const stallPipeline = `sluice: pipeline/v1
name: stall
params: {dir: {type: string}}
steps:
  rows: {run: {script: 'echo "{\"n\": 1}" > $SLUICE_OUTPUT_DIR/rows.jsonl', outputs: {rows: {type: dataset, path: rows.jsonl}}}}
  work:
    needs: [rows]
    run: {script: 'echo "work $$" >> "$DIR/began"; until [ -e "$DIR/go" ]; do sleep 0.05; done'}
    env: {DIR: "${params.dir}"}
  clean:
    clean:
      inputs: {rows: "${steps.rows.rows}"}
      transforms:
        - {type: ReadFromJson, config: {path: "${inputs.rows.path}/*.jsonl"}}
        - {type: Exec, name: wait, config: {command: [bash, wait.sh], files: [wait.sh]}}
        - {type: WriteToJson}
    env: {DIR: "${params.dir}"}
`

const stallProgram = `echo "clean $$" >> "$DIR/began"; until [ -e "$DIR/go" ]; do sleep 0.05; done; exec cat
`

// TestStalledServer: programs outlive a server that answers nothing for some seconds, and one that is restarted. They are the same processes
// afterwards, and their steps had one attempt.
func TestStalledServer(t *testing.T) {
	dir := t.TempDir()
	s := &sandbox{site: site{t: t, dir: dir, state: filepath.Join(dir, "state")}, project: filepath.Join(dir, "project")}
	for _, sub := range []string{"project", "tmp"} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	write(t, filepath.Join(s.project, "pipeline.yaml"), stallPipeline)
	write(t, filepath.Join(s.project, "wait.sh"), stallProgram)
	t.Cleanup(s.nothingLeft)
	s.env = append(os.Environ(), "TMPDIR="+filepath.Join(dir, "tmp"), "SLUICE_AGENT="+agentPath,
		"SLUICE_STATE="+s.state, state.StoreVariable+"=file://"+filepath.Join(s.state, "store"))
	server := s.serve()
	session, err := control.Open(t.Context(), control.Options{StateDir: s.state, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	defer session.Close()
	s.work("worker")
	run := s.start("run", "pipeline.yaml", "-p", "dir="+s.dir, "--detach").expect(0).runID()
	s.await("both programs", func() bool { return len(s.ledger("began")) == 2 })

	// Longer than a call may take, and shorter than what a worker is given up after.
	const stall = 6 * time.Second
	kill(t, server.cmd.Process.Pid, syscall.SIGSTOP)
	time.Sleep(stall)
	kill(t, server.cmd.Process.Pid, syscall.SIGCONT)
	awaitHeartbeats(t, s, session, run, 2)
	server.kill()
	server.start()
	awaitHeartbeats(t, s, session, run, 2)

	for line := range s.ledger("began") {
		step, pid, _ := strings.Cut(line, " ")
		if _, err := os.Stat(filepath.Join("/proc", pid)); err != nil {
			t.Errorf("the program of %s has ended: %v", step, err)
		}
	}
	write(t, filepath.Join(s.dir, "go"), "")
	var record shown
	s.await("the end of the run", func() bool { record = s.show(run); return record.Status != "running" })
	if record.Status != "succeeded" {
		t.Errorf("the run is %s: %s", record.Status, record.Error)
	}
	for name, step := range record.Steps {
		if step.Attempts.Total != 1 {
			t.Errorf("%s: %+v", name, step.Attempts)
		}
	}
	began := s.ledger("began")
	if len(began) != 2 || slices.Max([]int{began["work"], began["clean"]}) > 1 {
		t.Errorf("programs began: %v, want each once", began)
	}
}

// awaitHeartbeats waits for a heartbeat of each of n activities of a run that comes after now.
func awaitHeartbeats(t *testing.T, s *sandbox, session *control.Session, run string, n int) {
	t.Helper()
	now := time.Now()
	s.await("heartbeats", func() bool {
		desc, err := session.Client.DescribeWorkflowExecution(t.Context(), contract.RunWorkflowID(run), "")
		if err != nil {
			return false // the server is starting
		}
		beating := 0
		for _, a := range desc.GetPendingActivities() {
			if a.GetLastHeartbeatTime().AsTime().After(now) {
				beating++
			}
		}
		return beating == n
	})
}
