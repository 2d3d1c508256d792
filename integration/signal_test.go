package integration

import (
	"path/filepath"
	"syscall"
	"testing"
)

// holdUntil is a script that notes that it runs, and ends when the file appears.
func holdUntil(dir string) string {
	return "echo ran >> " + filepath.Join(dir, "ledger") + "; until [ -e " + filepath.Join(dir, "go") + " ]; do sleep 0.05; done"
}

// awaitProgram waits until the script of holdUntil runs.
func (c *command) awaitProgram() {
	c.s.t.Helper()
	c.await("the program to run", func() bool { return c.s.ledger("ledger")["ran"] > 0 })
}

func (s *sandbox) letGo() {
	s.t.Helper()
	write(s.t, filepath.Join(s.dir, "go"), "")
}

func TestCtrlCCancels(t *testing.T) {
	t.Parallel()
	s := newChain(t)
	run := s.run("ledger="+s.dir, "steps=10000")
	run.await("training", func() bool { return len(s.ledger("trace")) > 0 })
	kill(t, run.cmd.Process.Pid, syscall.SIGINT)
	run.expect(130)
	s.nothingLeft()
	record := s.show()
	if record.Status != "canceled" || record.Steps["fit"].Status != "canceled" || record.Steps["clean"].Status != "succeeded" {
		t.Errorf("the run is %s, fit %s, clean %s", record.Status, record.Steps["fit"].Status, record.Steps["clean"].Status)
	}
	for _, step := range []string{"export", "pack", "first", "ship"} {
		if got := record.Steps[step].Status; got != "canceled" && got != "upstream" {
			t.Errorf("%s is %s", step, got)
		}
	}
}

// TestSecondCtrlCLeaves cancels a program that does not listen, and leaves before it is killed. The run then ends by itself.
func TestSecondCtrlCLeaves(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "program")
	script := "trap '' TERM; " + holdUntil(s.dir)
	run := s.run("script=" + script)
	id := run.runID()
	run.awaitProgram()
	kill(t, run.cmd.Process.Pid, syscall.SIGINT)
	run.awaits("canceling")
	kill(t, run.cmd.Process.Pid, syscall.SIGINT)
	run.expect(130)
	run.says("left run " + id)
	s.nothingLeft()

	run = s.run("script=" + script)
	run.expect(130)
	if record := s.show(); record.Run == id && record.Status != "canceled" {
		t.Errorf("the run is %s", record.Status)
	}
}

// TestSIGTERMLeaves ends Sluice and not the run.
func TestSIGTERMLeaves(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "program")
	script := "script=" + holdUntil(s.dir)
	run := s.run(script)
	id := run.runID()
	run.awaitProgram()
	kill(t, run.cmd.Process.Pid, syscall.SIGTERM)
	run.expect(130)
	run.says("left run "+id, "the run goes on")
	s.nothingLeft()

	s.letGo()
	run = s.run(script)
	run.expect(0)
	run.says("resumed run " + id)
	if record := s.show(id); record.Status != "succeeded" {
		t.Errorf("the run is %s: %s", record.Status, record.Error)
	}
}

// TestTwoCommands runs one pipeline twice at once: the second command attaches to the first.
func TestTwoCommands(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "program")
	script := "script=" + holdUntil(s.dir)
	first := s.run(script)
	id := first.runID()
	first.awaitProgram()
	second := s.run(script)
	second.awaits("resumed run " + id)
	if record := s.show(); record.Status != "running" || record.Steps["work"].Status != "running" {
		t.Errorf("the run is %s, its step %s", record.Status, record.Steps["work"].Status)
	}
	s.letGo()
	first.expect(0)
	second.expect(0)
	if got := s.ledger("ledger")["ran"]; got != 1 {
		t.Errorf("the program ran %d times", got)
	}
}

// TestKilledHolder kills the first of two commands that follow a run: the second carries it on.
func TestKilledHolder(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "program")
	script := "script=" + holdUntil(s.dir)
	first := s.run(script)
	id := first.runID()
	first.awaitProgram()
	second := s.run(script)
	second.awaits("resumed run " + id)
	kill(t, first.cmd.Process.Pid, syscall.SIGKILL)
	second.awaits("goes on")
	s.letGo()
	second.expect(0)
	if record := s.show(); record.Run != id || record.Status != "succeeded" {
		t.Errorf("run %s is %s: %s", record.Run, record.Status, record.Error)
	}
}
