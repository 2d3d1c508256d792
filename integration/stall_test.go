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
	"github.com/sluiceml/sluice/internal/heartbeat"
	"github.com/sluiceml/sluice/workflows/durable"
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

// newStall is a sandbox with the pipeline above, its server and its worker, where the run has begun both programs.
func newStall(t *testing.T) (s *sandbox, server *server, worker *command, session *control.Session, run string) {
	t.Helper()
	dir := t.TempDir()
	s = &sandbox{site: site{t: t, dir: dir, state: filepath.Join(dir, "state")}, project: filepath.Join(dir, "project")}
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
	server = s.serve()
	session, err := control.Open(t.Context(), control.Options{StateDir: s.state, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { session.Close() })
	worker = s.work("worker")
	run = s.start("run", "pipeline.yaml", "-p", "dir="+s.dir, "--detach").expect(0).runID()
	s.await("both programs", func() bool { return len(s.ledger("began")) == 2 })
	return s, server, worker, session, run
}

// endStall lets the programs end, waits for the end of the run, and checks that each program has begun once.
func (s *sandbox) endStall(run string) shown {
	s.t.Helper()
	for line := range s.ledger("began") {
		step, pid, _ := strings.Cut(line, " ")
		if _, err := os.Stat(filepath.Join("/proc", pid)); err != nil {
			s.t.Errorf("the program of %s has ended: %v", step, err)
		}
	}
	write(s.t, filepath.Join(s.dir, "go"), "")
	var record shown
	s.await("the end of the run", func() bool { record = s.show(run); return record.Status != "running" })
	if record.Status != "succeeded" {
		s.t.Errorf("the run is %s: %s", record.Status, record.Error)
	}
	began := s.ledger("began")
	if len(began) != 2 || slices.Max([]int{began["work"], began["clean"]}) > 1 {
		s.t.Errorf("programs began: %v, want each once", began)
	}
	return record
}

// TestStalledServer: programs outlive a server that answers nothing for some seconds, and one that is restarted. They are the same processes
// afterwards, and their steps had one attempt.
func TestStalledServer(t *testing.T) {
	s, server, _, session, run := newStall(t)

	// Longer than a call may take, and shorter than what a worker is given up after.
	const stall = 6 * time.Second
	kill(t, server.cmd.Process.Pid, syscall.SIGSTOP)
	time.Sleep(stall)
	kill(t, server.cmd.Process.Pid, syscall.SIGCONT)
	awaitHeartbeats(t, s, session, run, 2)
	server.kill()
	server.start()
	awaitHeartbeats(t, s, session, run, 2)

	for name, step := range s.endStall(run).Steps {
		if step.Attempts.Total != 1 {
			t.Errorf("%s: %+v", name, step.Attempts)
		}
	}
}

// TestLostHeartbeats: programs outlive a server that is stopped, and a worker that is, until Temporal has taken the worker for dead. The next
// attempts at their steps attach to them.
func TestLostHeartbeats(t *testing.T) {
	t.Parallel()
	s, server, worker, session, run := newStall(t)
	resume := stop(t, server.cmd.Process.Pid)
	time.Sleep(durable.HeartbeatTimeout + 2*heartbeat.Every)
	resume()
	awaitHeartbeats(t, s, session, run, 2) // of the next attempts, unless a heartbeat came before Temporal looked at its clock

	resume = stop(t, worker.cmd.Process.Pid)
	s.await("Temporal to give the worker up", func() bool { // with the worker, nobody begins another attempt
		desc, err := session.Client.DescribeWorkflowExecution(t.Context(), contract.RunWorkflowID(run), "")
		return err == nil && len(desc.GetPendingActivities()) == 0
	})
	resume()
	awaitHeartbeats(t, s, session, run, 2)

	for name, step := range s.endStall(run).Steps {
		if tried := step.Attempts; name != "rows" && (tried.Total < 2 || tried.ByErrorType["infrastructure"] != tried.Total-1) {
			t.Errorf("%s: %+v, want those that Temporal has given up, and one that ended well", name, tried)
		}
	}
}

// TestLostHeartbeatsElsewhere: when the next attempts begin on another worker, the one that was taken for dead ends its programs as soon as it
// hears of that.
func TestLostHeartbeatsElsewhere(t *testing.T) {
	t.Parallel()
	s, _, worker, _, run := newStall(t)
	first := s.ledger("began")
	s.work("other")
	resume := stop(t, worker.cmd.Process.Pid)
	s.await("programs of the other worker", func() bool { return len(s.ledger("began")) == 4 })
	resume()
	for line := range first {
		step, pid, _ := strings.Cut(line, " ")
		s.await("the end of the first program of "+step, func() bool {
			_, err := os.Stat(filepath.Join("/proc", pid))
			return err != nil
		})
	}
	write(t, filepath.Join(s.dir, "go"), "")
	var record shown
	s.await("the end of the run", func() bool { record = s.show(run); return record.Status != "running" })
	if record.Status != "succeeded" || len(s.ledger("began")) != 4 {
		t.Errorf("the run is %s: %s; programs began: %v", record.Status, record.Error, s.ledger("began"))
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
