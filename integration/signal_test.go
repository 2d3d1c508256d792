package integration

import (
	"net"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/sluiceml/sluice/connect/state/holder"
)

// holdUntil is a script that notes that it runs, and ends when the file appears.
func holdUntil(dir string) string { return holdAs(dir, "ran", "go") }

// holdAs is a script that notes in the ledger that it runs, by a name, and ends when the file of another name appears.
func holdAs(dir, name, until string) string {
	return "echo " + name + " >> " + filepath.Join(dir, "ledger") + "; until [ -e " + filepath.Join(dir, until) + " ]; do sleep 0.05; done"
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
	run.says("left run "+id, "the cancellation continues")
	s.nothingLeft()

	run = s.run("script=" + script)
	run.expect(130)
	if record := s.show(id); record.Status != "canceled" {
		t.Errorf("the run is %s", record.Status)
	}
}

// TestSignalsLeave ends Sluice and not the run.
func TestSignalsLeave(t *testing.T) {
	t.Parallel()
	for _, signal := range []syscall.Signal{syscall.SIGTERM, syscall.SIGQUIT} {
		t.Run(signal.String(), func(t *testing.T) {
			t.Parallel()
			s := newSandbox(t, "program")
			script := "script=" + holdUntil(s.dir)
			run := s.run(script)
			id := run.runID()
			run.awaitProgram()
			kill(t, run.cmd.Process.Pid, signal)
			run.expect(128 + int(signal))
			run.says("left run "+id, "the run continues")
			s.nothingLeft()

			s.letGo()
			run = s.run(script)
			run.expect(0)
			run.says("resumed run " + id)
			if record := s.show(id); record.Status != "succeeded" {
				t.Errorf("the run is %s: %s", record.Status, record.Error)
			}
		})
	}
}

// TestNohup: a command that was started to outlive its terminal does.
func TestNohup(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "program")
	run := s.startAs([]string{"nohup"}, "run", "pipeline.yaml", "-e", "environment.yaml", "-p", "script="+holdUntil(s.dir))
	run.awaitProgram()
	kill(t, run.cmd.Process.Pid, syscall.SIGHUP)
	s.letGo()
	run.expect(0)
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
	second.awaits("continues")
	s.letGo()
	second.expect(0)
	if record := s.show(); record.Run != id || record.Status != "succeeded" {
		t.Errorf("run %s is %s: %s", record.Run, record.Status, record.Error)
	}
}

// TestHolderStays: the command that holds the folder is done first. It does not take along what another command follows, and stays no
// longer for a run that nobody follows, which continues in the background.
func TestHolderStays(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "program")
	ran := func(name string) func() bool { return func() bool { return s.ledger("ledger")[name] > 0 } }
	first := s.run("script=" + holdAs(s.dir, "first", "go1"))
	first.await("the first program", ran("first"))
	second := s.run("script=" + holdAs(s.dir, "second", "go2"))
	second.await("the second program", ran("second"))
	s.start("run", "pipeline.yaml", "-e", "environment.yaml", "-p", "script="+holdAs(s.dir, "detached", "never"), "--detach").expect(0)
	first.await("the detached program", ran("detached"))

	write(t, filepath.Join(s.dir, "go1"), "")
	first.awaits("still executing")
	write(t, filepath.Join(s.dir, "go2"), "")
	second.expect(0)
	first.expect(0)
	first.says("1 run goes on in the background")
	s.await("the detached program again", func() bool { return s.ledger("ledger")["detached"] > 1 })
	info, _, err := holder.Find(s.state)
	if err != nil {
		t.Fatal(err)
	}
	kill(t, info.PID, syscall.SIGTERM)
	s.nothingLeft()
	if got := s.ledger("ledger")["second"]; got != 1 {
		t.Errorf("the followed program ran %d times", got)
	}
	if record := s.show(second.runID()); record.Status != "succeeded" || record.Steps["work"].Attempts.Total != 1 {
		t.Errorf("the followed run is %s after %d attempts", record.Status, record.Steps["work"].Attempts.Total)
	}
}

// TestCtrlCEndsTheStay: who does not want to stay leaves, with the code of the own run, and the others take over.
func TestCtrlCEndsTheStay(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "program")
	first := s.run("script=" + holdAs(s.dir, "first", "go1"))
	first.await("the first program", func() bool { return s.ledger("ledger")["first"] > 0 })
	second := s.run("script=" + holdAs(s.dir, "second", "go2"))
	second.await("the second program", func() bool { return s.ledger("ledger")["second"] > 0 })
	write(t, filepath.Join(s.dir, "go1"), "")
	first.awaits("still executing")
	kill(t, first.cmd.Process.Pid, syscall.SIGINT)
	first.expect(0)
	first.says("exited; the runs continue")
	second.awaits("continues in this process")
	write(t, filepath.Join(s.dir, "go2"), "")
	second.expect(0)
}

// TestStoppedHolder stops the process that carries a run for longer than a call to Temporal lasts. Neither it, nor a command that follows
// the run from another process, takes that for the run's end.
func TestStoppedHolder(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "program")
	script := "script=" + holdUntil(s.dir)
	first := s.run(script)
	id := first.runID()
	first.awaitProgram()
	second := s.run(script)
	second.awaits("resumed run " + id)
	resume := stop(t, first.cmd.Process.Pid)
	defer resume()
	second.awaits("no answer")
	time.Sleep(90 * time.Second) // a call has 65 s, and the client's retries 60 s
	resume()
	second.awaits("answers again")
	first.awaits("answers again")
	s.letGo()
	first.expect(0)
	second.expect(0)
	if record := s.show(); record.Run != id || record.Status != "succeeded" {
		t.Errorf("run %s is %s, its attempts %+v: %s", record.Run, record.Status, record.Steps["work"].Attempts, record.Error)
	} else if attempts := record.Steps["work"].Attempts; attempts.Total != 1+attempts.ByErrorType["infrastructure"] {
		// The server was stopped, too: it may find the heartbeats missing before the worker sends the next one, and that costs no attempt.
		t.Errorf("the program was charged for the stop: %+v", attempts)
	}
}

// awaitHolder waits until a command holds the sandbox's state folder, and returns the address of its Temporal.
func (c *command) awaitHolder() (address string) {
	c.s.t.Helper()
	c.await("a holder", func() bool {
		info, held, err := holder.Find(c.s.state)
		address = info.TemporalAddress
		return err == nil && held && info.PID == c.cmd.Process.Pid
	})
	return address
}

// TestMovedHolder: between two looks of a follower the holder is killed and another one is there, at another address.
func TestMovedHolder(t *testing.T) {
	t.Parallel()
	s := newSandbox(t, "program")
	up := s.start("up")
	address := up.awaitHolder()
	run := s.run("script=" + holdUntil(s.dir))
	id := run.runID()
	run.awaitProgram()
	resume := stop(t, run.cmd.Process.Pid)
	defer resume()
	kill(t, up.cmd.Process.Pid, syscall.SIGKILL)
	<-up.done
	silent, err := new(net.ListenConfig).Listen(t.Context(), "tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer silent.Close()
	up = s.start("up")
	if now := up.awaitHolder(); now == address {
		t.Fatalf("the holder is at %s again, which is taken", now)
	}
	resume()
	run.awaits("continues in the process that holds the state folder now")
	s.letGo()
	run.expect(0)
	if record := s.show(); record.Run != id || record.Status != "succeeded" {
		t.Errorf("run %s is %s: %s", record.Run, record.Status, record.Error)
	}
	kill(t, up.cmd.Process.Pid, syscall.SIGINT)
	up.expect(0)
}
